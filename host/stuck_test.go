package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru"
)

// alive reports whether a process runs.
func alive(pid int) bool { return startTime(pid) != "" && syscall.Kill(pid, 0) == nil }

// inside waits until n requests are in the release's workers.
func inside(t *testing.T, h *Host, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests in workers", n), func() bool {
		busy := 0
		for _, w := range h.Workers(shop) {
			busy += w.Busy
		}
		return busy == n
	})
}

// waiting begins n requests that wait for a file, and returns what makes it.
func waiting(t *testing.T, b muru.Backend, n int) (calls []*call, release func()) {
	t.Helper()
	dir := shortDir(t)
	file := filepath.Join(dir, "go")
	for i := range n {
		calls = append(calls, begin(t.Context(), b, fmt.Sprintf("/wait?file=%s&begun=%s/%d", file, dir, i)))
	}
	return calls, func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// begun waits until the application has begun a request of waiting. One that is
// merely inside may still be on its way to its thread, and not started.
func begun(t *testing.T, c *call) {
	t.Helper()
	_, file, _ := strings.Cut(c.x.Query, "&begun=")
	eventually(t, "the application to begin", func() bool { _, err := os.Stat(file); return err == nil })
}

func TestHardTimeoutReplacesWorkerAndLetsOthersFinish(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Threads = 8
		r.Timeouts.Hard = time.Second
		r.Timeouts.Drain = 5 * time.Second
	}))
	pid := h.Workers(shop)[0].PID
	stuck := begin(t.Context(), b, "/order")
	inside(t, h, 1)
	<-time.After(700 * time.Millisecond)
	others, release := waiting(t, b, 7)
	inside(t, h, 8)
	queued := begin(t.Context(), b, "/orders/1")

	a := stuck.end(t)
	if !errors.Is(a.Err, muru.ErrHardTimeout) || a.took > 1500*time.Millisecond {
		t.Errorf("stuck request: %v after %v, want the hard timeout after 1s", a.Err, a.took)
	}
	if events.harmed(muru.HarmTimeout) != 1 {
		t.Error("the kill was not counted when the client got its answer")
	}
	release()
	for _, c := range others {
		wantOK(t, c.end(t)) // by the worker that is to be killed
	}
	wantOK(t, queued.end(t))
	message := events.wait(t, muru.WorkerTimeoutKilled, "")
	want := regexp.MustCompile(fmt.Sprintf(`^worker 0 \(pid %d\) replaced by pid \d+: a request has run for 1(\.\d)? s, `+
		`past the hard timeout of 1 s; at app.py line 15 in order, called from app.py line 1\d\d in application$`, pid))
	if !want.MatchString(message) {
		t.Errorf("event %q", message)
	}
	gone := events.wait(t, muru.WorkerGone, "cut 0 requests")
	if alive(pid) {
		t.Error("the worker lives after " + gone)
	}
	if n := events.harmed(muru.HarmTimeout) + events.harmed(muru.HarmCrash); n != 1 {
		t.Errorf("%d harms, want 1", n)
	}
	lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "app.py line 15 in order"})
	if err != nil || len(lines) != 1 {
		t.Errorf("stacks in the log: %v %v", lines, err)
	}
	lines, _ = h.Logs(t.Context(), shop, muru.LogQuery{Request: a.x.ID})
	if len(lines) != 1 || !strings.HasSuffix(lines[0], ", stuck") {
		t.Errorf("stuck thread in the log: %q", lines)
	}
}

func TestStuckWorkerIsKilledAtTheEndOfItsGrace(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Timeouts.Hard = 1500 * time.Millisecond
		r.Timeouts.Drain = 100 * time.Millisecond
	}))
	pid := h.Workers(shop)[0].PID
	stuck := begin(t.Context(), b, "/order")
	inside(t, h, 1)
	<-time.After(time.Second)
	other := begin(t.Context(), b, "/sleep?s=20")
	if a := stuck.end(t); !errors.Is(a.Err, muru.ErrHardTimeout) {
		t.Error(a.Err)
	}
	// Its own hard timeout comes a second later.
	if a := other.end(t); !errors.Is(a.Err, muru.ErrWorkerDied) || a.took > 1400*time.Millisecond {
		t.Errorf("the other request: %+v after %v", a.Outcome, a.took)
	}
	events.wait(t, muru.WorkerGone, "cut 1 requests")
	if alive(pid) {
		t.Error("the worker lives")
	}
}

func TestManyStuckRequestsOfOneWorkerAreOneKill(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Threads = 4
		r.Timeouts.Hard = 300 * time.Millisecond
	}))
	var calls []*call
	for range 4 {
		calls = append(calls, begin(t.Context(), b, "/order"))
		<-time.After(20 * time.Millisecond)
	}
	for _, c := range calls {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrHardTimeout) || a.took > 2*time.Second {
			t.Errorf("%v after %v", a.Err, a.took)
		}
	}
	events.wait(t, muru.WorkerGone, "worker 0")
	if n := events.harmed(muru.HarmTimeout); n != 1 {
		t.Errorf("%d kills, want 1", n)
	}
	wantOK(t, do(t.Context(), b, "/"))
}

// Which of two passes the timeout first may be chance: the one that the other
// waits for must not go unnamed.
func TestAnotherRequestThatRanAlmostAsLongIsNamedToo(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Threads = 4
		r.Timeouts.Hard = 2 * time.Second
		r.Timeouts.Drain = 100 * time.Millisecond
	}))
	calls := []*call{begin(t.Context(), b, "/sleep?s=20"), begin(t.Context(), b, "/order")}
	inside(t, h, 2)
	<-time.After(time.Second)
	calls = append(calls, begin(t.Context(), b, "/wait?file=/nowhere")) // not nearly as long
	for _, c := range calls {
		c.end(t)
	}
	const order, sleep = `at app.py line 15 in order, called from app.py line 1\d\d in application`,
		`at app.py line 25 in sleep, called from app.py line 1\d\d in application`
	message := events.wait(t, muru.WorkerTimeoutKilled, "")
	for first, pattern := range map[string]string{"/order": order + "; " + sleep, "/sleep": sleep + "; " + order} {
		if regexp.MustCompile("past the hard timeout of 2 s; " + pattern + "$").MatchString(message) {
			if data := events.data(muru.WorkerTimeoutKilled); data["path"] != first || data["method"] != "GET" || data["request"] == "" {
				t.Errorf("data %v, want %s", data, first)
			}
			return
		}
	}
	t.Errorf("event %q", message)
}

func TestStackOfBacktrackingExpressionIsCaptured(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Timeouts.Hard = 400 * time.Millisecond }))
	a := do(t.Context(), b, "/backtrack")
	if !errors.Is(a.Err, muru.ErrHardTimeout) {
		t.Error(a.Err)
	}
	events.wait(t, muru.WorkerTimeoutKilled, "called from app.py line 20 in backtrack")
	events.wait(t, muru.WorkerGone, "worker 0")
	wantOK(t, do(t.Context(), b, "/"))
}

func TestSoftTimeoutReportsOnceAndLeavesTheRequestAlone(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Timeouts.Soft = 100 * time.Millisecond }))
	wantOK(t, do(t.Context(), b, "/sleep?s=1"))
	message := events.wait(t, muru.WorkerSlow, "past the soft timeout of 100 ms; at app.py line 25 in sleep")
	if n := len(events.of(muru.WorkerSlow)); n != 1 {
		t.Errorf("%d events, want 1: %s", n, message)
	}
	if data := events.data(muru.WorkerSlow); data["path"] != "/sleep" {
		t.Errorf("data %v", data)
	}
}

func TestSlowClientDoesNotCountAgainstHardTimeout(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Timeouts.Hard = time.Second }))
	a, slow := &answer{}, 0
	a.onBody = func() error {
		if slow++; slow <= 4 {
			<-time.After(400 * time.Millisecond)
		}
		return nil
	}
	a.Outcome = b.Do(t.Context(), get("/big?n=3000000", a))
	wantOK(t, a)
	if a.body.Len() != 3000000 || events.harmed(muru.HarmTimeout) != 0 {
		t.Errorf("%d bytes", a.body.Len())
	}
}

func TestStreamIsBoundOnlyUntilItsHead(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Timeouts.Hard = time.Second }))
	wantOK(t, do(t.Context(), b, "/stream?parts=130"))
}

func TestStacksShowEachThreadWithItsRequest(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers = 2 }))
	calls, release := waiting(t, b, 1)
	inside(t, h, 1)
	var busy []muru.Stack
	eventually(t, "the request's frames", func() bool {
		stacks, err := h.Stacks(t.Context(), shop, -1)
		if err != nil {
			t.Fatal(err)
		}
		if len(stacks) != 4 {
			t.Fatalf("%d stacks, want 4: %v", len(stacks), stacks)
		}
		busy = nil
		for _, s := range stacks {
			if s.Request != "" {
				busy = append(busy, s)
			}
		}
		return len(busy) == 1 && len(busy[0].Frames) > 1 && busy[0].Frames[0].Function == "wait_for" // not what it calls
	})
	s := busy[0]
	if s.Request != calls[0].x.ID || s.Path != "/wait" || s.Frames[0].File != "app.py" {
		t.Errorf("stack %+v", s)
	}
	if _, err := h.Stacks(t.Context(), shop, 7); muru.KindOf(err) != muru.KindNotFound {
		t.Error(err)
	}
	release()
	wantOK(t, calls[0].end(t))
}
