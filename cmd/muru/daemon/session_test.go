package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
	"muru/control"
)

func TestSessionsKeepTheirNamesApart(t *testing.T) {
	r := newTestRunner(t)
	one, two := open(t, r), open(t, r)
	wantLines(t, sayTo(t, one, "x = 1"))
	wantLines(t, sayTo(t, two, "x"), "error <input 1>:1:1: undefined: x")
	wantLines(t, sayTo(t, one, "x + 1"), "value 2")
	wantLines(t, sayTo(t, one, "_"), "value 2")
	wantLines(t, sayTo(t, one, `split("shop", {"r2": "10%"})`), "say shop split: r1 90%, r2 10%", "value")
	wantLines(t, sayTo(t, one, "_.name"), "value shop")
	wantLines(t, sayTo(t, two, `split("shop", {}); status("shop").split`), "say shop split: r1 100%", "value {shop@r1: 100.0}")
	var group sync.WaitGroup
	for _, s := range []*session{one, two} {
		group.Go(func() {
			for range 20 {
				if err := s.Eval(t.Context(), "n = 0\n", func(control.Message) {}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

func TestAnInterruptedInputKeepsVariablesAndRollout(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	sayTo(t, s, "plan = [10, 50]")
	ctx, cancel := context.WithCancel(t.Context())
	h, done := new(heard), make(chan error, 1)
	go func() { done <- s.Eval(ctx, `canary("shop@r2", steps = plan, hold = "1h")`, h.out) }()
	visitortest.Eventually(t, "progress", func() bool { return len(h.lines(control.KindProgress)) > 0 })
	wantLines(t, sayTo(t, s, "1"), "error the session is busy with another input")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	wantLines(t, sayTo(t, s, "plan"), "value [10, 50]")
	if live := must(s.LiveRollouts(t.Context())); !slices.Equal(live, []int{1}) {
		t.Errorf("live: %v", live)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); !ro.Live() {
		t.Error("closing the session ended its rollout")
	}
	if err := s.Eval(t.Context(), "1", func(control.Message) {}); !errors.Is(err, control.ErrSessionGone) {
		t.Errorf("a closed session says %v", err)
	}
}

func TestClosingASessionCancelsItsInput(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	h, done := new(heard), make(chan error, 1)
	go func() { done <- s.Eval(t.Context(), `sleep("1h")`, h.out) }()
	visitortest.Eventually(t, "begun", func() bool { return len(h.lines()) > 0 })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errSessionClosed) {
		t.Errorf("ended with %v", err)
	}
}

func TestASessionIsSavedAsARecipe(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	wantLines(t, sayTo(t, s, control.SavedInput), "error there is nothing to save: no call of this session has changed anything")
	sayTo(t, s, `canary("shop@r2", hold = "1h", wait = False)`)
	sayTo(t, s, `status()`)
	sayTo(t, s, `promote("shop@r9")`) // fails
	sayTo(t, s, `abort(1, reason = "r2 itself is bad")`)
	wantLines(t, sayTo(t, s, control.SavedInput), `value def main():
    canary("shop@r2", hold = "1h", wait = False)
    abort("shop", reason = "r2 itself is bad")`)
}

func TestCompletionIsFromLiveStateAndFast(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	sayTo(t, s, `svc = status("shop")`)
	began := time.Now()
	for line, want := range map[string]string{
		`canary("shop@r`:      `canary(" shop@r1 shop@r2`,
		`deploy("sh`:          `deploy(" shop`,
		`canary(svc, dea`:     `canary(svc,  deadline = `,
		`svc.cand`:            `svc. candidate`,
		`status("shop").base`: `status("shop"). baseline`,
	} {
		head, candidates, _, err := s.Complete(t.Context(), line, len(line))
		if got := head + " " + strings.Join(candidates, " "); err != nil || got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if took := time.Since(began); took > 2*time.Second { // 50 ms each on a machine of its own
		t.Errorf("five completions took %v", took)
	}
}
