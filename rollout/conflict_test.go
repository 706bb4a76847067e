package rollout

import (
	"context"
	"strings"
	"testing"
	"time"

	"muru"
)

// withCandidates leaves r1 serving, r2 and r3 held.
func (w *world) withCandidates() {
	w.t.Helper()
	w.baseAndCandidate()
	w.deploy(true)
}

// of has the rollout be of another candidate, and says what to do about a
// live one.
func of(n int, policy OnConflict) func(*CanaryRequest) {
	return func(q *CanaryRequest) { q.Release, q.OnConflict = rel(n), policy }
}

func TestSecondRolloutIsRefusedAndNamesTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		_, _, err := w.e.Canary(w.ctx, plan(of(3, ConflictRefuse)))
		expectError(t, err, muru.KindRefused, "shop has rollout 1 live (r2 at 10%): refused")
		w.expect(1, muru.Running, "")
	})
}

func TestSupersedeTakesTheOtherOutAndStartsFromTheFirstStepOnTheSameBaseline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		w.good(200)
		time.Sleep(31 * time.Second) // r2 is at 50%
		r, report, err := w.e.Canary(w.ctx, plan(of(3, ConflictSupersede)))
		if err != nil || report != "rollout 2 of shop@r3 started against r1: step 1 of 2: 10% for 30s" {
			t.Fatal(report, err)
		}
		w.expect(1, muru.Superseded, "by rollout 2 of shop@r3")
		w.expectEvents("rollout.superseded", "shop@r2 rollout 1: by rollout 2 of shop@r3")
		w.expect(2, muru.Running, "")
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 90%, r3 10%" || r.Baseline != rel(1) {
			t.Errorf("the split is %s, the baseline %s", routing.Split, r.Baseline)
		}
		if w.state(2) != muru.Held {
			t.Errorf("r2 is %s", w.state(2))
		}
		_, err = w.e.WaitRollout(w.ctx, 1, nil)
		expectError(t, err, muru.KindSuperseded, "rollout 1 of shop@r2 superseded: by rollout 2 of shop@r3")
	})
}

func TestSupersedeByWhatCannotBeTriedLeavesTheRolloutAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		if _, _, err := w.e.Canary(w.ctx, plan(of(7, ConflictSupersede))); err == nil {
			t.Fatal("a release that there is not is tried")
		}
		w.expect(1, muru.Running, "")
	})
}

func TestQueuedRolloutStartsWhenTheOneBeforeItHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		_, report, err := w.e.Canary(w.ctx, plan(of(3, ConflictQueue)))
		if err != nil || report != "rollout 2 of shop@r3 queued behind rollout 1" {
			t.Fatal(report, err)
		}
		w.expect(2, muru.Queued, "behind rollout 1")
		w.expectEvents("rollout.queued", "shop@r3 rollout 2 behind rollout 1")
		if _, _, err := w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(3)}); muru.KindOf(err) != muru.KindRefused {
			t.Errorf("a release that waits to be tried can be stopped: %v", err)
		}
		_, _, err = w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 2})
		expectError(t, err, muru.KindRefused, "rollout 2 is queued behind rollout 1")
		_, _, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 2})
		expectError(t, err, muru.KindRefused, "rollout 2 is queued behind rollout 1: it starts by itself")
		w.e.Harm(rel(2), muru.HarmCrash)
		w.expect(2, muru.Running, "")
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 90%, r3 10%" {
			t.Errorf("the split is %s", routing.Split)
		}
	})
}

func TestQueuedRolloutIsComparedWithWhatServesWhenItStarts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		must[muru.Rollout](t)(w.e.Canary(w.ctx, plan(of(3, ConflictQueue))))
		must[muru.Release](t)(w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)}))
		w.expect(2, muru.Running, "")
		if r := w.rollout(2); r.Baseline != rel(2) {
			t.Errorf("the baseline is %s", r.Baseline)
		}
	})
}

func TestQueuedRolloutCanBeAbortedAndOutlivesARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		must[muru.Rollout](t)(w.e.Canary(w.ctx, plan(of(3, ConflictQueue))))
		w.restart()
		w.expect(2, muru.Queued, "behind rollout 1")
		_, report, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 2})
		if err != nil || report != "rollout 2 aborted: by ana at 0%" {
			t.Error(report, err)
		}
		w.expect(1, muru.Running, "")
		w.restart()
		w.expect(2, muru.Aborted, "by ana at 0%")
		must[muru.Rollout](t)(w.e.Canary(w.ctx, plan(of(3, ConflictQueue))))
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		w.expect(3, muru.Running, "")
	})
}

func TestQueuedRolloutWhoseCandidateIsGoneEndsAndSaysWhy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withCandidates()
		w.canary()
		must[muru.Rollout](t)(w.e.Canary(w.ctx, plan(of(3, ConflictQueue))))
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		w.expect(2, muru.Running, "")
		must[muru.Rollout](t)(w.e.Canary(w.ctx, plan(of(2, ConflictQueue))))
		must[muru.Release](t)(w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(3)}))
		w.expect(3, muru.Running, "") // r2 against r3
		_, _, err := w.e.StopApp(w.ctx, ana, "shop")
		if err != nil {
			t.Fatal(err)
		}
		w.expect(3, muru.Aborted, "by ana at 10%: the app is stopped")
	})
}

func TestDeployMaySupersedeOrWaitForALiveRollout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		q := DeployRequest{Caller: ana, App: "shop", Plan: muru.ReleasePlan{Source: "/srv/shop", Workers: 1, Threads: 1}}
		_, _, err := w.e.Deploy(w.ctx, q)
		expectError(t, err, muru.KindRefused, "shop has rollout 1 live (r2 at 10%): refused")
		q.OnConflict = ConflictQueue
		deployed := make(chan error, 1)
		go func() {
			_, _, err := w.e.Deploy(w.ctx, q)
			deployed <- err
		}()
		w.expect(1, muru.Running, "")
		w.e.Harm(rel(2), muru.HarmCrash)
		if err := <-deployed; err != nil {
			t.Fatal(err)
		}
		if app, _ := w.e.AppNamed("shop"); app.Baseline != 3 {
			t.Errorf("r%d serves", app.Baseline)
		}
		w.canary()
		q.OnConflict = ConflictSupersede
		must[muru.Release](t)(w.e.Deploy(w.ctx, q))
		w.expect(2, muru.Superseded, "by shop@r4")
	})
}

func TestFreezeKeepsTheShareAndEveryProcess(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.OnFail = OnFailFreeze })
		w.edge.Send(rel(1), 100, 200, time.Millisecond)
		w.edge.Send(rel(2), 10, 500, time.Millisecond)
		const message = "frozen at 10%: 5xx rate 30.00% over the limit of 1.00% (baseline 0.00%)"
		r := w.rollout(1)
		if r.State != muru.Paused || !strings.HasPrefix(r.Message, "frozen at 10%: 5xx rate ") {
			t.Fatalf("%s: %s", r.State, r.Message)
		}
		if got := w.events("rollout.frozen"); len(got) != 1 || !strings.HasSuffix(got[0], "; the share is kept: muru rollout resume or abort shop") {
			t.Errorf("%q, such as %s", got, message)
		}
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 90%, r2 10%" || !w.host.Running(rel(2)) {
			t.Errorf("the split is %s", routing.Split)
		}
		time.Sleep(time.Hour)
		if n := len(w.events("rollout.gate_failed")); n != 1 {
			t.Errorf("said %d times", n)
		}
		_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if muru.KindOf(err) != muru.KindGateFailed || !strings.HasPrefix(err.Error(), "rollout 1 is frozen still: 5xx rate ") {
			t.Errorf("resume: %v", err)
		}
		w.restart()
		if got := w.rollout(1); got.State != muru.Paused || got.Message != r.Message {
			t.Errorf("after a restart %s: %s", got.State, got.Message)
		}
		if _, _, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}); err != nil {
			t.Error(err)
		}
	})
}

func TestRunThatFailsFreezesWhatShallNotBeRolledBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		run := w.e.BeginRun("a.star", "", "ana")
		w.canary(func(q *CanaryRequest) {
			q.OnFail, q.Caller = OnFailFreeze, Caller{Run: run, By: "run 1"}
		})
		if err := w.e.EndRun(context.Background(), run, RunCancelled, nil); err != nil {
			t.Fatal(err)
		}
		w.expect(1, muru.Paused, "frozen at 10%: the run was cancelled")
		w.expectEvents("run.cancelled", "run 1 by ana; froze rollout 1")
	})
}

func TestRetryUsesTheSameWarmWorkersAndSaysWhereItStarts(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.MinRequests = 10 })
		_, _, err := w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindRefused, "rollout 1 is running: it has not ended")
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		_, _, err = w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1, FromStep: 3})
		expectError(t, err, muru.KindUsage, "from_step: rollout 1 has 2 steps")
		w.restart()
		r, report, err := w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1, FromStep: 2})
		if err != nil || report != "rollout 2 of shop@r2 started against r1: step 2 of 2: 50% for 30s" || r.Number != 2 {
			t.Fatal(report, err)
		}
		time.Sleep(time.Second) // the candidate starts again in the background
		w.good(20)
		time.Sleep(31 * time.Second)
		w.expect(2, muru.Promoted, "every step passed its gates")
		_, _, err = w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 2})
		expectError(t, err, muru.KindRefused, "shop@r2 serves 100% of shop already: there is nothing to try")
	})
}

func TestRetryNeedsTheFunctionsOfItsGates(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "carts", Kind: muru.GateCheck, Check: func(context.Context, muru.Window) (bool, string, error) {
				return true, "", nil
			}}}
		})
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		must[muru.Rollout](t)(w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1}))
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 2})
		w.restart()
		_, _, err := w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindRefused, "gate carts is a function of a recipe that muru has not run since it was started")
	})
}

func TestEvidenceIsKeptOverARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.edge.Send(rel(1), 100, 200, time.Millisecond)
		w.edge.Send(rel(2), 10, 200, time.Millisecond)
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		again := w.edge.Begin(rel(2)) // a client that keeps its cookie, before and after
		again.Status, again.Duration, again.Minted = 500, time.Millisecond, false
		w.edge.End(again)
		time.Sleep(1100 * time.Millisecond) // it is written each second
		w.restart()
		w.expect(1, muru.Running, "")
		routing, _ := w.edge.Routing("shop")
		again.Generation, again.Arrived = routing.Generation, time.Now()
		w.edge.End(again)
		w.expect(1, muru.Running, "")
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		r := w.rollout(1)
		if r.State != muru.RolledBack || !strings.HasPrefix(r.Message, "gate failed at 10%: 5xx rate ") {
			t.Errorf("%s: %s, %v", r.State, r.Message, r.Verdicts)
		}
	})
}
