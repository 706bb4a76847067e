package rollout

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muru"
)

func TestRunThatFailsLeavesNoShareBehind(t *testing.T) {
	for _, how := range []RunEnd{RunFailed, RunCancelled} {
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			run := w.e.BeginRun("canary.star", "shop v6", "ana")
			by := Caller{Run: run, Key: "1/0/1", By: "run 1"}
			w.canary(func(q *CanaryRequest) { q.Caller = by })
			time.Sleep(time.Second)
			if err := w.e.EndRun(w.ctx, run, how, errors.New("canary.star:9:5: no\nand more")); err != nil {
				t.Fatal(err)
			}
			w.expectEvents("run.started", "run 1 canary.star shop v6 by ana")
			if how == RunFailed {
				w.expect(1, muru.Aborted, "by run 1 at 10%: the run failed")
				w.expectEvents("run.failed", "run 1 canary.star:9:5: no; aborted rollout 1")
			} else {
				w.expect(1, muru.Aborted, "by run 1 at 10%: the run was cancelled")
				w.expectEvents("run.cancelled", "run 1 by ana; aborted rollout 1")
			}
			if w.state(2) != muru.Held {
				t.Errorf("r2 is %s", w.state(2))
			}
			if got := w.e.Events(EventQuery{Run: run}); len(got) != 4 {
				t.Errorf("the run's events: %v", got)
			}
			if err := w.e.EndRun(w.ctx, run, how, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRunThatSomebodyCancelledNamesThem(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.e.BeginRun("canary.star", "shop v6", "ana")
		err := fmt.Errorf("%w: canary.star:9:5: canceled", &CancelledError{By: "bob"})
		if err := w.e.EndRun(w.ctx, run, RunCancelled, err); err != nil {
			t.Fatal(err)
		}
		w.expectEvents("run.cancelled", "run 1 by bob")
		if e := w.e.Events(EventQuery{Kind: muru.RunCancelled}); e[0].By != "bob" {
			t.Errorf("it is an event of %s", e[0].By)
		}
	})
}

func TestRunThatFailsPutsItsSharesBackAndNobodyElses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		run := w.e.BeginRun("a.star", "", "ana")
		share := func(run int, n muru.Share) {
			must[muru.App](t)(w.e.Split(w.ctx, SplitRequest{Caller: Caller{Run: run, By: "x"}, App: "shop", Shares: []muru.SplitArm{{Release: rel(2), Share: n}}}))
		}
		share(run, 1000)
		share(0, 2000) // a person took over
		w.e.EndRun(w.ctx, run, RunFailed, errors.New("no"))
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 80%, r2 20%" {
			t.Error(app.Split)
		}
		run = w.e.BeginRun("a.star", "", "ana")
		share(run, 1000)
		w.e.EndRun(w.ctx, run, RunFailed, errors.New("no"))
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 100%" {
			t.Error(app.Split)
		}
		w.expectEvents("run.failed", "run 1 no", "run 2 no; shop split put back")
	})
}

func TestRunThatFinishesWaitsForItsRollouts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		run := w.e.BeginRun("a.star", "", "ana")
		w.canary(func(q *CanaryRequest) { q.Caller = Caller{Run: run, By: "run 1"} })
		time.AfterFunc(5*time.Second, func() { w.e.Harm(rel(2), muru.HarmCrash) })
		if err := w.e.EndRun(w.ctx, run, RunFinished, nil); err != nil {
			t.Fatal(err)
		}
		w.expectEvents("run.finished", "run 1 in 5 s")
	})
}
