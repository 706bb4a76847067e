package host

import (
	"errors"
	"testing"

	"muru"
)

func TestRecallGivesBackWhatWaitsAndNothingElse(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	busy, release := waiting(t, b, 1)
	inside(t, h, 1)
	var calls []*call
	for i := range 3 {
		calls = append(calls, begin(t.Context(), b, "/orders"))
		queued(t, h, i+1)
	}
	h.Recall(shop)
	for _, c := range calls {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrDraining) || a.status != 0 {
			t.Errorf("%+v", a)
		}
		if wait, started := c.x.QueueWait(); started {
			t.Errorf("it counts as started, after %v", wait)
		}
	}
	later := begin(t.Context(), b, "/orders")
	queued(t, h, 1)
	release()
	wantOK(t, busy[0].end(t))
	wantOK(t, later.end(t))
	h.Recall(shop) // nothing waits
	h.Recall(muru.ReleaseID{App: "blog", Number: 1})
	wantOK(t, do(t.Context(), b, "/orders"))
}
