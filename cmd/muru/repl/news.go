package repl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"muru"
	"muru/builtins"
	"muru/cmd/muru/person"
	"muru/control"
)

const (
	// newsShown is how many events are shown before a prompt: the newest.
	newsShown = 10

	// newsAsked is how many are asked for: among them may be the session's
	// own, which are not shown.
	newsAsked = 200

	// newsFor bounds how long a prompt waits for them. Those that come too
	// late are shown before the next one.
	newsFor = 500 * time.Millisecond
)

// News are the events that happened since the prompt before. The session's
// own are none: what a person asked for was reported when it was done. An
// event is the session's own if it happened during an input and is about what
// a changing call of the input named: caused by this person, or a notice. That
// of the run that was watched is, too. Everything else is news: what others do,
// also under the same name, for an account may be shared; what rollouts decide;
// and what goes wrong. It is used by one goroutine, except heard.
type news struct {
	mu    sync.Mutex // guards what follows
	named []string   // by changing calls of the input: shop, or rollout 7
	all   bool       // one of them did not say what it is about

	you   string
	last  int // number of the newest event that was looked at
	begun time.Time
	ended time.Time
	run   string // that the input watched, such as "run 7"
}

func (n *news) begin(s control.State) { n.you, n.last = s.You, s.LastEvent }

func (n *news) inputBegins(at time.Time) {
	n.begun, n.ended, n.run = at, time.Time{}, ""
	n.mu.Lock()
	n.named, n.all = nil, false
	n.mu.Unlock()
}

func (n *news) inputEnds(at time.Time) { n.ended = at }

// heard takes notice of what an input does.
func (n *news) heard(m control.Message) {
	if m.Kind != control.KindBegin {
		return
	}
	name, about, _ := strings.Cut(m.Text, "(")
	if spec := builtins.SpecNamed(name); spec == nil || spec.Effect != builtins.Change {
		return
	}
	about = strings.Trim(strings.TrimSuffix(about, ")"), `"`)
	noun := appOf(about)
	n.mu.Lock()
	defer n.mu.Unlock()
	if rollout := rolloutNoun.FindStringSubmatch(about); rollout != nil {
		noun = "rollout " + rollout[1]
	}
	n.named = append(n.named, noun)
	n.all = n.all || about == "" || about == "..."
}

// rolloutNoun is how a call names a rollout: abort(7), abort(rollout 7 of shop@r9).
var rolloutNoun = regexp.MustCompile(`^(?:rollout )?(\d+)(?: of .*)?$`)

// resolve finds the apps of the rollouts that an input named: a rollout that
// is aborted drains a release of its app.
func (n *news) resolve(events []muru.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range events {
		if slices.Contains(n.named, fmt.Sprintf("rollout %v", e.Data["rollout"])) {
			n.named = append(n.named, appOf(e.Subject))
		}
	}
}

// appOf is the app of a noun: of shop@r6, shop.
func appOf(noun string) string {
	app, _, _ := strings.Cut(noun, "@")
	return app
}

// own reports whether an event is the session's own doing.
func (n *news) own(e muru.Event) bool {
	if n.begun.IsZero() || e.Time.Before(n.begun) || e.Time.After(n.ended) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != "" && (e.Subject == n.run || e.By == n.run) {
		return true
	}
	about := slices.Contains(n.named, appOf(e.Subject))
	return about && (e.By == n.you || e.Level == muru.LevelNotice) || n.all && e.By == n.you
}

// showNews prints what happened meanwhile. A muru that does not answer has no
// news; the next input says why.
func (r *repl) showNews(ctx context.Context) {
	n := &r.news
	asked := control.EventRequest{After: n.last, Limit: newsAsked}
	all, err := person.AskWithin(newsFor, func(limited context.Context) (all []muru.Event, err error) {
		err = r.muru.Events(limited, asked, func(e muru.Event) { all = append(all, e) })
		return all, err
	})
	if err != nil || len(all) == 0 || ctx.Err() != nil {
		return
	}
	unseen := all[0].Seq - n.last - 1 // older than those that were asked for
	n.last = all[len(all)-1].Seq
	n.resolve(all)
	all = slices.DeleteFunc(all, n.own)
	if more := max(0, len(all)-newsShown) + max(0, unseen); more > 0 {
		fmt.Fprintf(r.person.Stdout, "... and %d more: events()\n", more)
	}
	for _, line := range builtins.EventLines(all[max(0, len(all)-newsShown):], time.Now(), time.Local) {
		fmt.Fprintln(r.person.Stdout, line)
	}
}
