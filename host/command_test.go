package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"muru"
)

// httpServer is any server that speaks HTTP on $PORT: this test binary.
var httpServer = []string{os.Args[0], "-test.run=^$"}

// command is a release of a command, which is this binary as a helper if it
// is httpServer.
func command(t *testing.T, argv []string, change func(*muru.Release)) muru.Release {
	t.Helper()
	return python(t, func(r *muru.Release) {
		r.Kind, r.Entry, r.Command = muru.Command, "", argv
		r.Workers, r.Threads = 1, 2
		r.Env = map[string]string{helperKey: "http"}
		if change != nil {
			change(r)
		}
	})
}

func TestCommandReleaseAnswersOnPortAndOnSocket(t *testing.T) {
	for _, helper := range []string{"http", "socket"} {
		t.Run(helper, func(t *testing.T) {
			h, events := newHost(t, Options{})
			b := start(t, h, command(t, httpServer, func(r *muru.Release) {
				r.Workers, r.Ready = 2, "/ready"
				r.Env[helperKey] = helper
			}))
			a := do(t.Context(), b, "/hello")
			wantOK(t, a)
			if a.text() != "hello from shop@r6" {
				t.Errorf("body %q", a.text())
			}
			if n := len(events.of(muru.WorkerReadyEvent)); n != 2 {
				t.Errorf("%d workers ready", n)
			}
			eventually(t, "its print in the log", func() bool {
				lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "^GET /hello$"})
				return err == nil && len(lines) == 1
			})
			if _, err := h.Stacks(t.Context(), shop, -1); muru.KindOf(err) != muru.KindRefused {
				t.Errorf("stacks: %v", err)
			}
		})
	}
}

func TestCommandWorkerGetsNoMoreRequestsThanThreads(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, command(t, httpServer, nil))
	var calls []*call
	for range 4 {
		calls = append(calls, begin(t.Context(), b, "/sleep?s=0.2"))
	}
	inside(t, h, 2)
	queued(t, h, 2)
	for _, c := range calls {
		wantOK(t, c.end(t))
	}
}

func TestCommandWorkerThatDiesIsReplaced(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, command(t, httpServer, nil))
	if a := do(t.Context(), b, "/exit"); !errors.Is(a.Err, muru.ErrWorkerDied) {
		t.Errorf("%+v", a.Outcome)
	}
	wantOK(t, do(t.Context(), b, "/hello"))
	events.wait(t, muru.WorkerCrashed, "died: exit status 5; replaced by pid")
	if n := events.harmed(muru.HarmCrash); n != 1 {
		t.Errorf("%d crashes", n)
	}
}

func TestCommandWorkerThatAnswersGarbageFailsTheRequestAlone(t *testing.T) {
	for _, path := range []string{"/garbage", "/cut"} {
		h, events := newHost(t, Options{})
		b := start(t, h, command(t, httpServer, nil))
		if a := do(t.Context(), b, path); !errors.Is(a.Err, muru.ErrWorkerDied) {
			t.Errorf("%s: %+v", path, a.Outcome)
		}
		wantOK(t, do(t.Context(), b, "/hello"))
		if events.harmed(muru.HarmCrash) != 0 {
			t.Errorf("%s: the process lives", path)
		}
	}
}

func TestStuckCommandWorkerPrintsItsStacksBeforeItsKill(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, command(t, httpServer, func(r *muru.Release) {
		r.Timeouts.Hard = 800 * time.Millisecond
		r.Stacks = "SIGQUIT"
	}))
	if a := do(t.Context(), b, "/sleep?s=20"); !errors.Is(a.Err, muru.ErrHardTimeout) {
		t.Errorf("%+v", a.Outcome)
	}
	events.wait(t, muru.WorkerTimeoutKilled, "past the hard timeout of 800 ms; at an unknown place")
	events.wait(t, muru.WorkerGone, "cut 0 requests")
	lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "goroutine .*running|SIGQUIT"})
	if err != nil || len(lines) == 0 {
		t.Errorf("no stacks: %v", err)
	}
	wantOK(t, do(t.Context(), b, "/hello"))
}

func TestShellCommandIsKilledWithItsChildren(t *testing.T) {
	h, _ := newHost(t, Options{StopGrace: 200 * time.Millisecond})
	start(t, h, command(t, []string{"/bin/sh", "-c", "trap '' TERM; " + strings.Join(httpServer, " ") + " & wait; sleep 60"}, func(r *muru.Release) {
		r.Env[helperKey] = "stubborn"
	}))
	lines := func() []string {
		lines, _ := h.Logs(t.Context(), shop, muru.LogQuery{Match: "^pid "})
		return lines
	}
	eventually(t, "the child's pid", func() bool { return len(lines()) == 1 })
	_, text, _ := strings.Cut(lines()[0], ": pid ")
	pid := atoi(t, text)
	if !alive(pid) {
		t.Fatal("the child does not live")
	}
	if _, err := h.Stop(t.Context(), shop); err != nil {
		t.Error(err)
	}
	eventually(t, "the child's end", func() bool { return !alive(pid) })
}
