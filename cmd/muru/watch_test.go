package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/person"
	"muru/cmd/muru/visitortest"
	"muru/control"
	"muru/control/controltest"
)

// A watched is a muru with rollout 7 at 10% and run 3, both of which go on
// until they are aborted or cancelled.
type watched struct {
	controltest.Muru

	mu    sync.Mutex
	asked []string // abort(7), cancel 3, and "left" for each stream that ended
	ended chan struct{}
	slow  bool // State does not answer
}

func newWatched() *watched {
	w := &watched{ended: make(chan struct{})}
	w.OnCall = func(ctx context.Context, c control.Call, out func(control.Message)) error {
		switch {
		case strings.HasPrefix(c.Source, "abort("):
			w.note(c.Source)
			out(said("rollout 7 aborted: by ana at 10%"))
			return nil
		case strings.HasPrefix(c.Source, "observe("):
			out(begin(`observe("shop@r6")`))
			return w.stream(ctx, func() { out(control.Message{Kind: control.KindPrint, Text: "observing"}) })
		}
		out(begin(`canary("shop@r6")`))
		out(progress(7, "rollout 7 running step 1 of 2: 10%")) // first, so that whoever sees the report knows that it is waited for
		out(said("rollout 7 running step 1 of 2: 10% for 30s"))
		return w.stream(ctx, func() { out(progress(7, "rollout 7 running step 1 of 2: 10%")) })
	}
	w.OnStartRun = func(context.Context, control.Run) (int, error) { return 3, nil }
	w.OnAttach = func(ctx context.Context, _ int, out func(control.Message)) error {
		out(begin(`sleep("1h")`))
		return w.stream(ctx, func() { out(control.Message{Kind: control.KindPrint, Text: "working"}) })
	}
	w.OnCancelRun = func(_ context.Context, n int) error {
		w.note("cancel 3")
		close(w.ended)
		return nil
	}
	w.OnRuns = func(context.Context) ([]control.RunInfo, error) {
		return []control.RunInfo{{Number: 3, State: control.RunRunning, File: "nightly.star"}}, nil
	}
	w.OnState = func(ctx context.Context) (control.State, error) {
		if w.slow {
			<-ctx.Done()
			return control.State{}, ctx.Err()
		}
		return control.State{Rollouts: []control.RolloutInfo{{Number: 7, App: "shop", State: "running", Live: true, Share: 10}}}, nil
	}
	return w
}

// stream says something at once and then often, until ctx ends.
func (w *watched) stream(ctx context.Context, say func()) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		say()
		select {
		case <-ticker.C:
		case <-w.ended:
			return muru.Errorf(muru.KindFailed, "cancelled")
		case <-ctx.Done():
			select {
			case <-w.ended:
			default:
				w.note("left")
			}
			return context.Cause(ctx)
		}
	}
}

func (w *watched) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, what)
}

func (w *watched) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// watchingMain is muru on a muru that has something to watch. It says on
// stdout at its end what it was asked to do.
func watchingMain() {
	w := newWatched()
	ctx, signals, stop := person.UntilSignal(context.Background())
	c := &cli{
		Person:  person.Person{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals},
		connect: func(string) (control.Muru, error) { return w, nil },
	}
	status := c.execute(ctx, os.Args[1:])
	stop()
	fmt.Printf("asked: %s\n", strings.Join(w.notes(), ", "))
	os.Exit(status)
}

func TestASignalThatComesFromNoTerminalCancelsOrLeaves(t *testing.T) {
	for _, c := range []struct {
		line   string
		signal os.Signal
		slow   bool
		asked  []string
		stderr string // its beginning and end, around the time
		stdout string // its last line
	}{
		{"rollout canary shop@r6 --wait", os.Interrupt, false, []string{"left", "abort(7)"},
			`interrupted at canary("shop@r6") after *; aborting rollout 7`, "muru: rollout 7 aborted: by ana at 10%"},
		{"rollout canary shop@r6 --wait", syscall.SIGTERM, true, []string{"left", "abort(7)"},
			`interrupted at canary("shop@r6") after *; aborting rollout 7`, "muru: rollout 7 aborted: by ana at 10%"},
		{"rollout canary shop@r6 --wait", syscall.SIGHUP, true, []string{"left"},
			`interrupted at canary("shop@r6") after *; rollout 7 left running`, "muru: rollout 7 running step 1 of 2: 10% for 30s"},
		{"rollout canary shop@r6 --wait", syscall.SIGHUP, false, []string{"left"},
			`interrupted at canary("shop@r6") after *; rollout 7 left at 10%`, "muru: rollout 7 running step 1 of 2: 10% for 30s"},
		{"observe shop@r6", os.Interrupt, false, []string{"left"}, `interrupted at observe("shop@r6") after *`, "observing"},
		{"attach 3", os.Interrupt, false, []string{"cancel 3"}, `interrupted at sleep("1h") after *; cancelling run 3`, "muru: run 3 cancelled"},
		{"attach 3", syscall.SIGHUP, false, []string{"left"}, `interrupted at sleep("1h") after *; run 3 goes on`, "working"},
	} {
		t.Run(c.line+" "+c.signal.String(), func(t *testing.T) {
			w := newWatched()
			w.slow = c.slow
			var out, errs lockedBuffer
			cli := &cli{
				Person: person.Person{
					Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
					Signals: person.NewSignals(func(err error) { t.Errorf("nobody took %v", err) }),
				},
				connect: func(string) (control.Muru, error) { return w, nil },
			}
			status := make(chan int, 1)
			go func() { status <- cli.execute(t.Context(), strings.Fields(c.line)) }()
			visitortest.Eventually(t, "it waits for the rollout", func() bool { return strings.Contains(out.String(), "\n") })
			cli.Signals.Deliver(c.signal)
			select {
			case got := <-status:
				if got != person.StatusInterrupted {
					t.Errorf("status %d", got)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("it goes on")
			}
			if got := w.notes(); !slices.Equal(got, c.asked) {
				t.Errorf("did %q, want %q", got, c.asked)
			}
			before, after, _ := strings.Cut(c.stderr, "*")
			line := strings.TrimSuffix(errs.String(), "\n")
			if !strings.HasPrefix(line, before) || !strings.HasSuffix(line, after) || strings.Contains(line, "\n") {
				t.Errorf("stderr %q, want %q", line, c.stderr)
			}
			if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); lines[len(lines)-1] != c.stdout {
				t.Errorf("stdout %q, want at its end %q", out.String(), c.stdout)
			}
		})
	}
}

func TestTheTimeToWaitForACanaryEndsWithStatus124AndLeavesIt(t *testing.T) {
	w := newWatched()
	_, errs, status := typed(t, w, "rollout", "canary", "shop@r6", "--wait", "--timeout", "50ms")
	if want := "muru: canary(\"shop@r6\") did not end within 50ms; rollout 7 left at 10%\n"; errs != want || status != person.StatusTimeout {
		t.Errorf("got %q status %d, want %q", errs, status, want)
	}
	if got := w.notes(); !slices.Equal(got, []string{"left"}) {
		t.Errorf("did %q", got)
	}
}

// A lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
