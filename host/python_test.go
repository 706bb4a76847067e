package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/host/wire"
)

func TestPythonReleaseAnswers(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Workers = 2
		r.Env = map[string]string{"COLOUR": "blue"}
	}))
	a := do(t.Context(), b, "/orders/1")
	wantOK(t, a)
	if a.text() != "hello from /orders/1" {
		t.Errorf("body %q", a.text())
	}
	env := do(t.Context(), b, "/env").text()
	for _, want := range []string{"COLOUR=blue\n", "MURU_RELEASE=shop@r6\n", "MURU_WORKER=", "PATH="} {
		if !strings.Contains(env+"\n", want) {
			t.Errorf("no %s in the environment:\n%s", want, env)
		}
	}
	if got := len(events.of(muru.WorkerReadyEvent)); got != 2 {
		t.Errorf("%d worker.ready events, want 2", got)
	}
	if !h.Ready(shop) {
		t.Error("not ready")
	}
}

// post sends a body of a known length, or of an unknown one.
func post(t *testing.T, b muru.Backend, body io.Reader, length int64) *answer {
	t.Helper()
	a := &answer{}
	x := get("/echo", a)
	x.Method, x.Body, x.Length = "POST", body, length
	a.Outcome = b.Do(t.Context(), x)
	return a
}

func TestBodiesReachTheApplication(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	for _, size := range []int{1, 1000, 64 << 10, 1 << 20} {
		text := strings.Repeat("tea.", size/4+1)[:size]
		for _, length := range []int64{int64(size), -1} {
			a := post(t, b, strings.NewReader(text), length)
			wantOK(t, a)
			if a.text() != text {
				t.Errorf("%d bytes, length %d: %d came back", size, length, a.body.Len())
			}
		}
	}
}

// tooLarge is a body that is over the route's limit after some of it.
func tooLarge(after int) io.Reader { return &refused{after, muru.ErrBodyTooLarge} }

// refused is a body that the edge refuses after some of it.
type refused struct {
	left  int
	cause error
}

func (b *refused) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("read it: %w", b.cause)
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

func TestBodyThatCannotBeReadIsTheClientsFault(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, one))
	for _, c := range []struct {
		name   string
		body   io.Reader
		length int64
		want   error
	}{
		{"small and too large", tooLarge(10), 100, muru.ErrBodyTooLarge},
		{"large and too large", tooLarge(1 << 20), 2 << 20, muru.ErrBodyTooLarge},
		{"of unknown length", tooLarge(1 << 20), -1, muru.ErrBodyTooLarge},
		{"too slow", &refused{10, muru.ErrBodyTooSlow}, 100, muru.ErrBodyTooSlow},
		{"too slow, beyond what is read ahead", &refused{1 << 21, muru.ErrBodyTooSlow}, 3 << 20, muru.ErrBodyTooSlow},
		{"cut short", strings.NewReader("short"), 100, muru.ErrClientGone},
		{"cut short and large", strings.NewReader(strings.Repeat("x", 100000)), 200000, muru.ErrClientGone},
	} {
		if a := post(t, b, c.body, c.length); !errors.Is(a.Err, c.want) {
			t.Errorf("%s: %+v, want %v", c.name, a.Outcome, c.want)
		}
		wantOK(t, do(t.Context(), b, "/")) // the thread is as good as before
	}
	if len(events.harms) != 0 {
		t.Errorf("harms %v", events.harms)
	}
}

func TestWorkersDescribesWhatTheyAreAt(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers = 2 }))
	wantOK(t, do(t.Context(), b, "/"))
	calls, release := waiting(t, b, 1)
	inside(t, h, 1)
	workers := h.Workers(shop)
	if len(workers) != 2 {
		t.Fatalf("%d workers", len(workers))
	}
	served := 0
	for i, w := range workers {
		served += w.Served
		if w.Number != i || w.Release != shop || w.PID == 0 || w.State != muru.WorkerReady || w.RSS < 1<<20 || w.CPU <= 0 || w.Started.IsZero() {
			t.Errorf("%+v", w)
		}
		if (w.Busy == 1) != (w.Request == "/wait") || (w.Busy == 1) != (w.Age > 0) {
			t.Errorf("%+v", w)
		}
	}
	if served != 1 {
		t.Errorf("%d served", served)
	}
	release()
	wantOK(t, calls[0].end(t))
}

// A version manager's script costs 50 ms of CPU whenever it is run.
func TestAScriptInThePlaceOfPythonIsRunOnceForARelease(t *testing.T) {
	h, events := newHost(t, Options{Backoff: time.Millisecond})
	own, err := wire.FindPython(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	script := fmt.Sprintf("#!/bin/sh\necho run >> %s\nexec %s \"$@\"\n", runs, own)
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	count := func() int {
		text, _ := os.ReadFile(runs)
		return strings.Count(string(text), "run\n")
	}
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers = 2 }))
	for n := range 2 {
		if a := do(t.Context(), b, "/die"); !errors.Is(a.Err, muru.ErrWorkerDied) {
			t.Fatalf("%+v", a.Outcome)
		}
		eventually(t, "a replacement", func() bool { return len(events.of(muru.WorkerReadyEvent)) == 3+n })
	}
	wantOK(t, do(t.Context(), b, "/"))
	if n := count(); n != 1 {
		t.Errorf("run %d times for four workers, want once", n)
	}
	start(t, h, python(t, func(r *muru.Release) { r.ID.Number++ }))
	if n := count(); n != 2 {
		t.Errorf("run %d times for two releases", n)
	}
}
