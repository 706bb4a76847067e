package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru"
)

// one is a release with one thread.
func one(r *muru.Release) { r.Workers, r.Threads = 1, 1 }

func queued(t *testing.T, h *Host, n int) {
	t.Helper()
	eventually(t, "requests in the queue", func() bool {
		r := h.release(shop)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.queue.len == n
	})
}

func TestQueueIsFirstComeFirstServedAndItsWaitExact(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	busy, release := waiting(t, b, 1)
	inside(t, h, 1)
	var calls []*call
	for i := range 5 {
		calls = append(calls, begin(t.Context(), b, "/orders"))
		queued(t, h, i+1)
	}
	if _, started := calls[0].x.QueueWait(); started {
		t.Error("a queued request counts as started")
	}
	<-time.After(100 * time.Millisecond)
	release()
	wantOK(t, busy[0].end(t))
	var before time.Time
	for i, c := range calls {
		wantOK(t, c.end(t))
		wait, _ := c.x.QueueWait()
		if at := c.x.Arrived.Add(wait); at.Before(before) {
			t.Errorf("request %d was started before number %d", i, i-1)
		} else {
			before = at
		}
		if wait, started := c.x.QueueWait(); !started || wait < 100*time.Millisecond || wait > 10*time.Second {
			t.Errorf("queue wait %v", wait)
		}
	}
}

func TestAReleaseIsBusyWhenNoThreadIsFree(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	release := h.release(shop)
	if release.Busy() {
		t.Error("busy without a request")
	}
	calls, end := waiting(t, b, 1)
	inside(t, h, 1)
	if !release.Busy() {
		t.Error("not busy with all threads in a request")
	}
	end()
	wantOK(t, calls[0].end(t))
	eventually(t, "a free thread", func() bool { return !release.Busy() })
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { one(r); r.Limits.Queue = 2 }))
	busy, release := waiting(t, b, 3)
	queued(t, h, 2)
	if a := do(t.Context(), b, "/"); !errors.Is(a.Err, muru.ErrQueueFull) || a.took > time.Second || a.Worker != -1 {
		t.Errorf("%+v after %v", a.Outcome, a.took)
	}
	release()
	for _, c := range busy {
		wantOK(t, c.end(t))
	}
}

func TestQueueTimeoutIsAnsweredWhenItPasses(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { one(r); r.Timeouts.Queue = 150 * time.Millisecond }))
	busy, release := waiting(t, b, 1)
	inside(t, h, 1)
	a := do(t.Context(), b, "/")
	if !errors.Is(a.Err, muru.ErrQueueTimeout) || a.took < 150*time.Millisecond || a.took > 2*time.Second {
		t.Errorf("%+v after %v", a.Outcome, a.took)
	}
	if _, started := a.x.QueueWait(); started {
		t.Error("it counts as started")
	}
	release()
	wantOK(t, busy[0].end(t))
}

func TestAbandonedRequestKeepsItsPlaceUntilItsTurn(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	busy, release := waiting(t, b, 1)
	inside(t, h, 1)
	ctx, leave := context.WithCancel(t.Context())
	abandoned := begin(ctx, b, "/say?text=abandoned")
	queued(t, h, 1)
	after := begin(t.Context(), b, "/")
	queued(t, h, 2)
	leave()
	<-time.After(50 * time.Millisecond)
	select {
	case <-abandoned.done:
		t.Fatal("it gave up its place")
	default:
	}
	release()
	wantOK(t, busy[0].end(t))
	wantOK(t, after.end(t))
	a := abandoned.end(t)
	if !errors.Is(a.Err, muru.ErrClientGone) || a.Answered {
		t.Errorf("%+v", a.Outcome)
	}
	if wait, started := a.x.QueueWait(); !started || wait < 50*time.Millisecond {
		t.Errorf("queue wait %v, %v: it had a turn", wait, started)
	}
	lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "abandoned"})
	if err != nil || len(lines) != 0 {
		t.Errorf("the worker got it: %v %v", lines, err)
	}
}

func TestClientThatLeavesARunningRequestKeepsTheSlotUntilTheAnswer(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	ctx, leave := context.WithCancel(t.Context())
	a := &answer{onBody: func() error { return muru.ErrClientGone }}
	c := &call{answer: a, done: make(chan struct{})}
	x := get("/sleep?s=0.3", a)
	go func() {
		defer close(c.done)
		c.Outcome = b.Do(ctx, x)
		c.took = time.Since(x.Arrived)
	}()
	inside(t, h, 1)
	leave()
	c.end(t)
	if !errors.Is(a.Err, muru.ErrClientGone) || !a.Answered || a.took < 300*time.Millisecond {
		t.Errorf("%+v after %v", a.Outcome, a.took)
	}
}

func TestClientThatLeavesAStreamEndsIt(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	ctx, leave := context.WithCancel(t.Context())
	c := begin(ctx, b, "/stream")
	eventually(t, "the stream", func() bool { return c.text() != "" })
	if requests, streams, sockets := h.InFlight(shop); requests != 0 || streams != 1 || sockets != 0 {
		t.Errorf("in flight %d, %d, %d", requests, streams, sockets)
	}
	leave()
	if a := c.end(t); !errors.Is(a.Err, muru.ErrClientGone) || a.Answered {
		t.Errorf("%+v", a.Outcome)
	}
	wantOK(t, do(t.Context(), b, "/"))
}

func TestRequestsAtOnceGoToDifferentWorkers(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers, r.Threads = 2, 4 }))
	for range 2 {
		calls, release := waiting(t, b, 4)
		inside(t, h, 4)
		if w := h.Workers(shop); w[0].Busy != 2 || w[1].Busy != 2 {
			t.Errorf("%d and %d of 4 requests", w[0].Busy, w[1].Busy)
		}
		release()
		for _, c := range calls {
			wantOK(t, c.end(t))
		}
	}
}

func TestRequestsThatDiedInTheQueueAreNotStarted(t *testing.T) {
	// Requests that wait when all workers die are answered by the next one.
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	busy, _ := waiting(t, b, 1)
	begun(t, busy[0]) // or it could be given to the next one, too, and wait there
	var calls []*call
	for range 5 {
		calls = append(calls, begin(t.Context(), b, "/"))
	}
	queued(t, h, 5)
	r := h.release(shop)
	r.running()[0].order(func() { r.running()[0].destroy("broke the protocol: a test") })
	if a := busy[0].end(t); !errors.Is(a.Err, muru.ErrWorkerDied) {
		t.Errorf("%+v", a.Outcome)
	}
	for _, c := range calls {
		wantOK(t, c.end(t))
	}
}

func TestQueueKeepsItsOrderWhoeverLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []*request
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0, 1:
				r := &request{}
				q.pushBack(r)
				want = append(want, r)
			case 2:
				r := &request{}
				q.pushFront(r)
				want = append([]*request{r}, want...)
			case 3:
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "who")
					q.remove(want[i])
					q.remove(want[i]) // once more does nothing
					want = append(want[:i:i], want[i+1:]...)
				}
			}
		}
		if q.len != len(want) {
			t.Fatalf("%d waiting, want %d", q.len, len(want))
		}
		at, before := q.first, (*request)(nil)
		for i, r := range want {
			if at != r || at.prev != before {
				t.Fatalf("number %d is another", i)
			}
			at, before = at.next, at
		}
		if at != nil || q.last != before {
			t.Fatal("it does not end where it should")
		}
	})
}
