package rollout

import (
	"testing"
	"time"

	"muru"
)

func TestStepWithoutDataAsksAPersonAtItsDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(629 * time.Second)
		w.edge.Send(rel(2), 3, 200, time.Millisecond)
		w.expect(1, muru.Running, "")
		time.Sleep(time.Second)
		w.expect(1, muru.AwaitingApproval, "no data at 10%: 3 of 100 requests after 10 min 30 s: muru rollout resume shop")
		w.expectEvents("rollout.no_data", "shop@r2 step 1 at 10%: 3 of 100 requests after 10 min 30 s: asking for approval")
		if share := w.rollout(1).Share; share != 1000 {
			t.Errorf("share %s", share)
		}
		time.Sleep(2 * time.Hour) // and never goes on by itself
		w.expect(1, muru.AwaitingApproval, "no data at 10%: 3 of 100 requests after 10 min 30 s: muru rollout resume shop")
		_, report, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2})
		if err != nil || report != "rollout 1 running: step 2 of 2: 50% for 30s" {
			t.Fatal(report, err)
		}
		w.expectEvents("rollout.approved", "shop@r2 rollout 1: step 2 of 2: 50% for 30s by ana; gates asked again: no_data")
		w.good(200)
		time.Sleep(31 * time.Second)
		// Not every step passed its gates, and nobody shall read that it did.
		w.expect(1, muru.Promoted, "by muru at 50% in step 2 of 2")
	})
}

func TestStepWithoutDataRollsBackWhereThePlanSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.OnNoData = muru.NoDataRollback; q.Deadline = time.Minute })
		time.Sleep(61 * time.Second)
		w.expect(1, muru.RolledBack, "no data at 10%: 0 of 100 requests after 1 min")
		w.expectEvents("rollout.no_data", "shop@r2 step 1 at 10%: 0 of 100 requests after 1 min: rolling back")
	})
}

func TestCandidateThatIsNeverReadyIsRolledBackAtTheDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.host.ReadyFunc = func(id muru.ReleaseID) bool { return id != rel(2) }
		w.canary(func(q *CanaryRequest) { q.Deadline = time.Minute })
		swaps := len(w.edge.Swaps())
		time.Sleep(59 * time.Second)
		w.expect(1, muru.Running, "")
		if len(w.edge.Swaps()) != swaps {
			t.Error("the table changed for a candidate that is not ready")
		}
		time.Sleep(time.Second)
		w.expect(1, muru.RolledBack, "candidate not ready after 1 min")
	})
}

func TestCandidateGetsItsShareWhenItIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		ready := time.Now().Add(20 * time.Second)
		w.baseAndCandidate()
		w.host.ReadyFunc = func(id muru.ReleaseID) bool { return !time.Now().Before(ready) }
		if share := w.canary().Share; share != 0 {
			t.Errorf("share %s before it is ready", share)
		}
		time.Sleep(21 * time.Second)
		if r := w.rollout(1); r.Share != 1000 || r.Step.Elapsed != 0 {
			t.Errorf("share %s, %s of the hold", r.Share, r.Step.Elapsed)
		}
		w.good(100)
		time.Sleep(29 * time.Second)
		if k := w.rollout(1).Step.Number; k != 1 {
			t.Errorf("the hold ran before the candidate was in the table")
		}
	})
}

func TestSlowStepSaysHowLongItWillTake(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.edge.Send(rel(2), 2, 200, time.Millisecond)
		time.Sleep(2 * time.Minute)
		w.expectEvents("rollout.slow", "shop@r2 at 2.0 requests/min a 10% step needs about 50 min for 100 requests: use probes, a higher step or traffic()")
		if e := w.e.Events(EventQuery{Kind: "rollout.slow"}); e[0].Level != muru.LevelWarning {
			t.Errorf("level %s", e[0].Level)
		}
	})
}

func TestDarkStepNeedsNoRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 0, Hold: time.Hour}, {Share: 10000, Hold: time.Minute}}
		})
		if s := w.state(2); s != muru.Held {
			t.Errorf("the candidate of a dark step is %s", s)
		}
		time.Sleep(time.Hour - time.Second)
		if k := w.rollout(1).Step.Number; k != 1 {
			t.Fatalf("in step %d", k)
		}
		time.Sleep(2 * time.Second)
		if r := w.rollout(1); r.Step.Number != 2 || r.Share != 10000 {
			t.Fatalf("in step %d at %s", r.Step.Number, r.Share)
		}
		if s := w.state(1); s != muru.Serving {
			t.Errorf("the baseline of a 100%% step is %s", s)
		}
		// Without a baseline arm the limit alone decides.
		w.edge.Send(rel(2), 98, 200, time.Millisecond)
		w.edge.Send(rel(2), 2, 500, time.Millisecond)
		w.expect(1, muru.RolledBack, "gate failed at 100%: 5xx rate 2.00% over the limit of 1.00% (baseline -)")
	})
}

func TestDarkStepFailsForCrashes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 0, Hold: time.Hour}} })
		time.Sleep(time.Minute)
		w.e.Harm(rel(2), muru.HarmCrash)
		w.expect(1, muru.RolledBack, "gate failed at 0%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
	})
}
