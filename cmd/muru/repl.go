package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muru"
	"muru/control"
	"muru/edge"
)

type replFlags struct {
	listen string
	state  string
}

// newReplCommand is `muru repl`.
func newReplCommand(c *cli) *cobra.Command {
	var flags replFlags
	cmd := &cobra.Command{
		Use:   "repl",
		Short: "reads calls as you type them, shows what they say, and keeps names",
		Long: `Reads calls and shows what they say and return; names keep their values until
you leave. help() lists the calls, %help the commands, Ctrl-D leaves.

If a muru serves, the session is there. Else, and with --listen, the edge and
the workers live in this process and end with it.

What is piped in is evaluated without prompts; the first error ends it with
status 1.`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.repl(cmd.Context(), flags, cmd.Flags().Changed("listen"))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "serve in this process, its edge listening on this address")
	cmd.Flags().StringVar(&flags.state, "state", "", "state directory of the muru that serves, or for logs and sockets of this process (default: that of your muru, or a temporary one)")
	return cmd
}

// repl runs a session from its beginning to its end.
func (c *cli) repl(ctx context.Context, flags replFlags, here bool) (err error) {
	r := &repl{cli: c, blocks: make(map[string]string), saved: make(map[string]bool), starts: make(map[int]int)}
	if r.dir, err = workingDir(); err != nil {
		return err
	}
	closeMuru, err := r.findMuru(ctx, flags, here)
	if err != nil {
		return err
	}
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, closeMuru(after)) }()
	if r.session, err = r.muru.OpenSession(ctx, control.SessionRequest{Dir: r.dir}); err != nil {
		return err
	}
	defer func() { r.closeSession(after) }()
	if r.in, err = newInput(c.stdin, c.stdout, c.stderr, r.complete); err != nil {
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

// findMuru finds the muru that serves, or makes one in this process. The
// returned func ends that.
func (r *repl) findMuru(ctx context.Context, flags replFlags, here bool) (func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	m, err := r.cli.connect(flags.state)
	if err == nil && !here {
		r.muru = m
		r.state, err = m.State(ctx)
		// Whoever names a socket does not want to work on an empty muru.
		if !errors.Is(err, control.ErrNoDaemon) || os.Getenv("MURU_CONTROL") != "" && flags.state == "" {
			return nothing, err
		}
	}
	h, err := openServing(ctx, flags.state, flags.listen)
	if errors.Is(err, edge.ErrPortTaken) && !here {
		h, err = openServing(ctx, flags.state, "127.0.0.1:0")
	}
	if err != nil {
		return nothing, err
	}
	run := newRunner(h.runnerOptions())
	r.muru, r.embedded = run, h.address
	end := func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, endRunFor)
		defer cancel()
		return errors.Join(run.Close(limited), h.Close(ctx))
	}
	if r.state, err = run.State(ctx); err != nil {
		return nothing, errors.Join(err, end(context.WithoutCancel(ctx)))
	}
	return end, nil
}

// A repl is one session with a person, or with what is piped in. It is used
// by one goroutine.
type repl struct {
	cli         *cli
	muru        control.Muru
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

// tell prints one line of ours.
func (r *repl) tell(format string, args ...any) {
	fmt.Fprintf(r.cli.stdout, "muru: "+format+"\n", args...)
}

// complain prints an error, and goes on.
func (r *repl) complain(err error) {
	if e, ok := errors.AsType[*exitError](err); ok && e.told {
		return
	}
	fmt.Fprintln(r.cli.stderr, "muru: "+control.ErrorText(err))
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
	c, err := askWithin(completeFor, func(ctx context.Context) (c completion, err error) {
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
