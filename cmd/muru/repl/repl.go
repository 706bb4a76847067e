package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// A Muru is where a session is and what it is about: the client of a daemon,
// or a muru in this process. Its methods are those of [control.Muru].
type Muru interface {
	person.Watched
	OpenSession(ctx context.Context, s control.SessionRequest) (control.Session, error)
	StartRun(ctx context.Context, r control.Run) (int, error)
	Events(ctx context.Context, q control.EventRequest, out func(muru.Event)) error
}

// Options are where a session is. Muru and Dir are needed.
type Options struct {
	Muru     Muru
	State    control.State // of Muru, at the beginning
	Embedded string        // where the edge of this process listens, if Muru is in it
	Dir      string        // where relative paths start
}

// Run holds a session with a person, or evaluates what is piped in, from its
// beginning to its end. What is piped in ends with its first error, as an
// [person.ExitError] that was told; a session that a signal ends is one too.
// Run returns when nothing that it started goes on but what is Muru's.
func Run(ctx context.Context, p *person.Person, o Options) (err error) {
	r := &repl{
		person: p, muru: o.Muru, state: o.State, embedded: o.Embedded, dir: o.Dir,
		blocks: make(map[string]string), saved: make(map[string]bool), starts: make(map[int]int),
	}
	if r.session, err = r.muru.OpenSession(ctx, control.SessionRequest{Dir: r.dir}); err != nil {
		return err
	}
	defer func() { r.closeSession(context.WithoutCancel(ctx)) }()
	if r.in, err = newInput(p.Stdin, p.Stdout, p.Stderr, r.complete); err != nil {
		return err
	}
	defer func() {
		if failed := r.in.Close(); err == nil {
			err = failed
		}
	}()
	_, piped := r.in.(*pipeInput)
	r.interactive = !piped
	if piped {
		return r.runPiped(ctx)
	}
	return r.converse(ctx)
}

// closeSessionFor bounds the end of a session: traffic it started ends.
const closeSessionFor = 10 * time.Second

// closeSession ends the session; what of it fails nobody can do anything
// about.
func (r *repl) closeSession(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeSessionFor)
	defer cancel()
	_ = r.session.Close(ctx)
}

// A repl is one session with a person, or with what is piped in. It is used
// by one goroutine.
type repl struct {
	person      *person.Person
	muru        Muru
	embedded    string // where this process's edge listens, "" if attached
	state       control.State
	session     control.Session
	dir         string
	interactive bool
	in          input
	history     *history
	news        news

	inputs int         // that the session has evaluated
	line   int         // at which the block that is evaluated begins, if it is piped in
	starts map[int]int // input: its line
	ahead  []string    // lines that were read too soon

	interrupts interrupts
	block      string            // the newest that was evaluated
	blocks     map[string]string // the newest that defined a name
	saved      map[string]bool   // files that %save wrote
}

// greeting is the first line of a session.
func (r *repl) greeting() string {
	const ways = "help() lists the calls, %help the commands, Ctrl-D leaves"
	host := shortHost(r.state.Host)
	if r.embedded != "" {
		return fmt.Sprintf("%s: no muru serves, so this process does, on http://%s, until you leave. %s", host, r.embedded, ways)
	}
	return fmt.Sprintf("%s: %s. %s", host, summary(r.state), ways)
}

// summary says what a muru has: `2 apps, rollout 7 live`.
func summary(s control.State) string {
	text := "no apps"
	switch n := len(s.Apps); {
	case n == 1:
		text = "1 app"
	case n > 1:
		text = fmt.Sprintf("%d apps", n)
	}
	live := s.LiveRollouts()
	if len(live) == 0 {
		return text
	}
	word := "rollout"
	if len(live) > 1 {
		word = "rollouts"
	}
	return fmt.Sprintf("%s, %s %s live", text, word, strings.Trim(strings.ReplaceAll(fmt.Sprint(live), " ", ", "), "[]"))
}

// shortHost is the name of a machine for prompts: without its domain, and
// with nothing that a prompt may not have.
func shortHost(host string) string {
	host, _, _ = strings.Cut(host, ".")
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || r > 0x7f {
			return -1
		}
		return r
	}, host)
	if host == "" {
		return "localhost"
	}
	return host
}

// watch is what shows a call of this session.
func (r *repl) watch() *person.Watch {
	return &person.Watch{Person: r.person, Muru: r.muru, Printer: person.NewPrinter(r.person.Stdout, r.person.Stderr, false)}
}

// tell prints one line of ours.
func (r *repl) tell(format string, args ...any) {
	fmt.Fprintf(r.person.Stdout, "muru: "+format+"\n", args...)
}

// complain prints an error, and goes on.
func (r *repl) complain(err error) {
	if e, ok := errors.AsType[*person.ExitError](err); ok && e.Told {
		return
	}
	fmt.Fprintln(r.person.Stderr, "muru: "+control.ErrorText(err))
}

// complete is the [completer] of the session.
func (r *repl) complete(block, line string, pos int) (head string, candidates []string, tail string) {
	if block == "" && strings.HasPrefix(line, "%") {
		return completeCommand(line, pos, r.completeSource)
	}
	before := ""
	if block != "" {
		before = block + "\n"
	}
	head, candidates, tail = r.completeSource(before+line, len(before)+pos)
	head, ok := strings.CutPrefix(head, before)
	if !ok {
		return "", nil, ""
	}
	return head, candidates, tail
}

// completeSource asks the session, for no longer than anybody wants to wait.
func (r *repl) completeSource(source string, pos int) (head string, candidates []string, tail string) {
	type completion struct {
		head       string
		candidates []string
		tail       string
	}
	c, err := person.AskWithin(completeFor, func(ctx context.Context) (c completion, err error) {
		c.head, c.candidates, c.tail, err = r.session.Complete(ctx, source, pos)
		return c, err
	})
	if err != nil {
		return "", nil, ""
	}
	return c.head, c.candidates, c.tail
}

// sessionGone replaces a session that its muru does not have any more.
func (r *repl) sessionGone(ctx context.Context) error {
	session, err := r.muru.OpenSession(ctx, control.SessionRequest{Dir: r.dir})
	if err != nil {
		return err
	}
	r.session, r.inputs = session, 0
	return muru.Errorf(muru.KindInterrupted, "the session was gone: its muru was started again, or nobody used it for long; this is a new one without its names")
}
