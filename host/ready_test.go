package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru"
	"muru/host/wire"
)

func TestPythonReleaseThatCannotStartSaysWhy(t *testing.T) {
	h, _ := newHost(t, Options{})
	for _, c := range []struct {
		entry string
		want  string // regular expression
		log   string // in the error's detail
	}{
		{"raises:application", `^worker \d \(pid \d+\) cannot load raises:application: KeyError: 'mug'$`, `PRICES["mug"]`},
		{"missing:application", `^worker \d \(pid \d+\) cannot load missing:application: there is no module missing in .*testdata/broken \(entry missing:application\)$`, "there is no module missing"},
		{"nothing:application", `^worker \d \(pid \d+\) cannot load nothing:application: module nothing has no attribute application \(entry nothing:application\): entry = "MODULE:ATTR" names the application$`, ""},
		{"syntax:application", `^worker \d \(pid \d+\) cannot load syntax:application: SyntaxError: expected ':'`, "SyntaxError"},
		{"exits:application", `^worker \d \(pid \d+\) ended before it was ready: exit status 7$`, "giving up"},
		{"killed:application", `^worker \d \(pid \d+\) ended before it was ready: signal SIGSEGV$`, ""},
		{"hangs:application", `^worker \d \(pid \d+\) is not ready after \d+s: loading hangs:application hangs at .*threading.py line \d+ in wait, called from .*threading.py line \d+ in wait, called from hangs.py line 5 in connect$`, "hangs.py line 8 in <module>"},
	} {
		t.Run(c.entry, func(t *testing.T) {
			r := python(t, func(r *muru.Release) {
				r.Source, r.Entry, r.Workers = "testdata/broken", c.entry, 2
				if strings.HasPrefix(c.entry, "hangs") {
					r.Timeouts.Ready = time.Second
				}
			})
			_, err := h.Start(t.Context(), r)
			for err != nil && strings.Contains(err.Error(), "still loading") && r.Timeouts.Ready < 30*time.Second {
				r.Timeouts.Ready *= 2 // this machine is too busy to even start Python
				_, err = h.Start(t.Context(), r)
			}
			failure, ok := errors.AsType[*muru.Error](err)
			if !ok || failure.Kind != muru.KindNotReady || !regexp.MustCompile(c.want).MatchString(failure.Message) {
				t.Fatalf("error %v (%s), want %s", err, muru.KindOf(err), c.want)
			}
			if len(failure.Detail) > 10 || c.log != "" && !strings.Contains(strings.Join(failure.Detail, "\n"), c.log) {
				t.Errorf("detail:\n%s", strings.Join(failure.Detail, "\n"))
			}
			if len(h.Workers(shop)) != 0 || h.Ready(shop) {
				t.Error("something is left running")
			}
			if left, _ := filepath.Glob(filepath.Join(h.stateDir, "run", "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestPlanThatCannotWorkIsRefusedBeforeAnythingStarts(t *testing.T) {
	h, _ := newHost(t, Options{})
	for _, c := range []struct {
		name   string
		change func(*muru.Release)
		kind   muru.ErrorKind
		want   string
	}{
		{"no directory", func(r *muru.Release) { r.Source = "/nowhere/shop" }, muru.KindNotFound, "there is no directory /nowhere/shop"},
		{"no threads", func(r *muru.Release) { r.Threads = 0 }, muru.KindUsage, "1 workers of 0 threads cannot answer anything"},
		{"a file", func(r *muru.Release) { r.Source = "/etc/passwd" }, muru.KindUsage, "/etc/passwd is not a directory"},
		{"no entry", func(r *muru.Release) { r.Entry = "app" }, muru.KindUsage, `"app" is not an entry`},
		{"no module", func(r *muru.Release) { r.Entry = ":app" }, muru.KindUsage, `":app" is not an entry`},
		{"odd entry", func(r *muru.Release) { r.Entry = "a b:app" }, muru.KindUsage, `"a b:app" is not an entry`},
		{"no command", func(r *muru.Release) { r.Kind = muru.Command }, muru.KindUsage, "the command is empty"},
		{"odd signal", func(r *muru.Release) { r.Kind, r.Command, r.Stacks = muru.Command, []string{"true"}, "QUIT" }, muru.KindUsage, `"QUIT" is not a signal that prints stacks`},
		{"no port", func(r *muru.Release) { r.Kind, r.Upstream = muru.External, "localhost" }, muru.KindUsage, `"localhost" is not an upstream`},
		{"odd port", func(r *muru.Release) { r.Kind, r.Upstream = muru.External, "localhost:http" }, muru.KindUsage, `"localhost:http" is not an upstream`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.Start(t.Context(), python(t, c.change))
			if err == nil || err.Error() != c.want || muru.KindOf(err) != c.kind {
				t.Errorf("error %v (%s), want %s (%s)", err, muru.KindOf(err), c.want, c.kind)
			}
		})
	}
}

func TestCommandThatCannotStartSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bind := fmt.Sprintf("import socket; s = socket.socket(); s.bind(('127.0.0.1', %d))", taken.Addr().(*net.TCPAddr).Port)
	h, _ := newHost(t, Options{})
	for _, c := range []struct {
		name    string
		command []string
		ready   string
		within  time.Duration
		want    string
		log     string
	}{
		{"exits at once", []string{"/bin/sh", "-c", "echo bye; exit 4"}, "", 10 * time.Second, `ended before it listened: exit status 4$`, "bye"},
		{"never listens", []string{"/bin/sleep", "60"}, "", 700 * time.Millisecond, `is not ready after 700ms: it listens neither on \$PORT \(\d+\) nor on \$MURU_SOCKET$`, ""},
		{"port taken", []string{"python3", "-c", bind}, "", 10 * time.Second, `ended before it listened: exit status 1$`, "Address already in use"},
		{"no program", []string{"./no-such-program"}, "", 10 * time.Second, `^worker 0: start ./no-such-program: .*no such file`, ""},
		{"not ready", httpServer, "/no-such-file", 2 * time.Second, `is not ready after 2s: /no-such-file answered 404$`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.Start(t.Context(), command(t, c.command, func(r *muru.Release) {
				r.Ready, r.Timeouts.Ready = c.ready, c.within
			}))
			failure, ok := errors.AsType[*muru.Error](err)
			if !ok || failure.Kind != muru.KindNotReady || !regexp.MustCompile(c.want).MatchString(failure.Message) {
				t.Fatalf("error %v, want %s", err, c.want)
			}
			if !strings.Contains(strings.Join(failure.Detail, "\n"), c.log) {
				t.Errorf("detail: %q", failure.Detail)
			}
		})
	}
}

func TestStartThatIsCancelledLeavesNothing(t *testing.T) {
	h, _ := newHost(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("somebody changed their mind")
	time.AfterFunc(200*time.Millisecond, func() { cancel(because) })
	_, err := h.Start(ctx, python(t, func(r *muru.Release) { r.Source, r.Entry = "testdata/broken", "hangs:application" }))
	if !errors.Is(err, because) || len(h.Workers(shop)) != 0 {
		t.Errorf("error %v, workers %v", err, h.Workers(shop))
	}
}

func TestReleaseStartsAgainAfterStopAndNotTwice(t *testing.T) {
	h, _ := newHost(t, Options{})
	old := start(t, h, python(t, nil))
	if _, err := h.Start(t.Context(), python(t, nil)); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("a second start: %v", err)
	}
	if _, err := h.Stop(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if a := do(t.Context(), old, "/"); !errors.Is(a.Err, muru.ErrDraining) {
		t.Errorf("%+v after stop", a.Outcome)
	}
	wantOK(t, do(t.Context(), start(t, h, python(t, nil)), "/"))
}

func TestStateDirectoryIsChecked(t *testing.T) {
	room := wire.MaxSocketPath - len("/host.sock")
	dir := shortDir(t)
	dir = filepath.Join(dir, strings.Repeat("x", room-len(dir)-1))
	h, _ := newHost(t, Options{StateDir: dir}) // the longest that works, also for Python
	wantOK(t, do(t.Context(), start(t, h, python(t, nil)), "/"))
	long := New(Options{StateDir: dir + "x", Reporter: &recorder{}})
	if err := long.Open(t.Context()); muru.KindOf(err) != muru.KindUsage || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a longer path: %v", err)
	}
}

func TestADeployFindsTheWorkerSocketRemovedAndMakesItAgain(t *testing.T) {
	h, _ := newHost(t, Options{})
	before := start(t, h, python(t, nil))
	if err := os.Remove(h.socket); err != nil {
		t.Fatal(err)
	}
	after := start(t, h, python(t, func(r *muru.Release) { r.ID.Number++ }))
	for _, b := range []muru.Backend{before, after} {
		wantOK(t, do(t.Context(), b, "/orders/1"))
	}
}

func TestAStartIsGivenUpWhileAnExternalServerIsAsked(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	h, _ := newHost(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() {
		_, err := h.Start(ctx, python(t, func(r *muru.Release) {
			r.Kind, r.Source, r.Entry, r.Workers, r.Threads = muru.External, "", "", 0, 0
			r.Upstream, r.Ready = strings.TrimPrefix(server.URL, "http://"), "/ready"
			r.Timeouts.Ready = 10 * longWait
		}))
		started <- err
	}()
	<-asked
	cancel()
	select {
	case err := <-started:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(longWait):
		t.Error("it goes on waiting for an answer")
	}
}

func TestWorkersStartWhenTheRuntimeWasRemoved(t *testing.T) {
	h, events := newHost(t, Options{Backoff: 10 * time.Millisecond})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers, r.Timeouts.Queue = 2, longWait }))
	if err := os.RemoveAll(filepath.Join(h.stateDir, "runtime")); err != nil {
		t.Fatal(err)
	}
	for _, w := range h.Workers(shop) {
		if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	events.wait(t, muru.WorkerCrashed, "")
	wantOK(t, begin(t.Context(), b, "/orders/1").end(t))
}
