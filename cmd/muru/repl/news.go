package repl

import (
	"context"
	"fmt"
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
// event is the session's own if it happened during an input and names this
// person or the run that was watched, or is a notice about an app that a
// changing call of the input named. Everything else is news: what others do, what rollouts decide, and
// what goes wrong. It is used by one goroutine, except heard.
type news struct {
	mu   sync.Mutex // guards apps
	apps []string   // that changing calls of the input named

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
	n.apps = nil
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
	app, _, _ := strings.Cut(about, "@")
	n.mu.Lock()
	n.apps = append(n.apps, app)
	n.mu.Unlock()
}

// own reports whether an event is the session's own doing.
func (n *news) own(e muru.Event) bool {
	if n.begun.IsZero() || e.Time.Before(n.begun) || e.Time.After(n.ended) {
		return false
	}
	app, _, _ := strings.Cut(e.Subject, "@")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != "" && (e.Subject == n.run || e.By == n.run) {
		return true
	}
	return e.By == n.you || e.Level == muru.LevelNotice && slices.Contains(n.apps, app)
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
	all = slices.DeleteFunc(all, n.own)
	if more := max(0, len(all)-newsShown) + max(0, unseen); more > 0 {
		fmt.Fprintf(r.person.Stdout, "... and %d more: events()\n", more)
	}
	for _, line := range builtins.EventLines(all[max(0, len(all)-newsShown):], time.Now(), time.Local) {
		fmt.Fprintln(r.person.Stdout, line)
	}
}
