package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

func TestApprovalsNameTheirStepAndAreUsedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Approve = muru.ApproveAll })
		w.good(100)
		time.Sleep(31 * time.Second)
		w.expect(1, muru.AwaitingApproval, "step 2 of 2: 50% for 30s awaits approval: muru rollout resume shop")
		_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 1})
		expectError(t, err, muru.KindRefused, "rollout 1 waits for step 2 of 2: 50% for 30s, not for step 1")
		_, report, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2})
		if err != nil || report != "rollout 1 running: step 2 of 2: 50% for 30s" {
			t.Fatal(report, err)
		}
		_, _, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2})
		expectError(t, err, muru.KindRefused, "rollout 1 is running: there is nothing to resume")
		w.good(100)
		time.Sleep(31 * time.Second)
		w.expect(1, muru.AwaitingApproval, "promotion awaits approval: muru rollout resume shop")
		_, report, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if err != nil || report != "rollout 1 promoted: every step passed its gates" {
			t.Fatal(report, err)
		}
		w.expectEvents("rollout.approved",
			"shop@r2 rollout 1: step 2 of 2: 50% for 30s by ana; gates asked again: pass",
			"shop@r2 rollout 1: promotion by ana; gates asked again: pass")
		_, _, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindRefused, "rollout 1 has ended: promoted: every step passed its gates")
	})
}

func TestGatesAreAskedAgainAtTheApproval(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := false
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Approve = muru.ApproveEachStep
			q.Gates = []muru.Gate{{Name: "orders", Kind: muru.GateCheck, Check: func(ctx context.Context, _ muru.Window) (bool, string, error) {
				if bad {
					Sleep(ctx, RealClock{}, 300*time.Millisecond)
				}
				return !bad, "fewer orders", nil
			}}}
		})
		w.good(100)
		time.Sleep(31*time.Second + time.Millisecond)
		w.expect(1, muru.AwaitingApproval, "step 2 of 2: 50% for 30s awaits approval: muru rollout resume shop")
		bad = true
		_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindRolledBack, "rollout 1 of shop@r2 rolled_back: gate failed at 10%: orders: fewer orders")
		w.expect(1, muru.RolledBack, "gate failed at 10%: orders: fewer orders")
		w.expectEvents("rollout.approved")
	})
}

func TestGatesStayArmedWhileARolloutWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Approve = muru.ApproveEachStep })
		w.good(100)
		time.Sleep(time.Hour)
		for n := 0; n < 20 && w.rollout(1).Live(); n++ { // any may be the one that decides
			w.edge.Send(rel(2), 1, 500, time.Millisecond)
		}
		w.expect(1, muru.RolledBack, "gate failed at 10%: 5xx rate 2.91% over the limit of 1.00% (baseline 0.00%)")
	})
}

func TestPauseStopsTheClockAndKeepsShareAndGates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.good(100)
		time.Sleep(20 * time.Second)
		_, report, err := w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Reason: "lunch"})
		if err != nil || report != "rollout 1 paused: by ana at 10%: lunch" {
			t.Fatal(report, err)
		}
		_, report, _ = w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if report != "rollout 1 is paused already: by ana at 10%: lunch" {
			t.Error(report)
		}
		time.Sleep(2 * time.Hour)
		if r := w.rollout(1); r.State != muru.Paused || r.Share != 1000 || r.Step.Elapsed != 20*time.Second {
			t.Errorf("%s at %s, %s of the hold", r.State, r.Share, r.Step.Elapsed)
		}
		_, report, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if err != nil || report != "rollout 1 running: step 1 of 2: 10% for 30s" {
			t.Fatal(report, err)
		}
		time.Sleep(9 * time.Second)
		if k := w.rollout(1).Step.Number; k != 1 {
			t.Error("the paused time was counted")
		}
		time.Sleep(2 * time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Error("the hold served before the pause was lost")
		}
		w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		w.e.Harm(rel(2), muru.HarmCrash)
		w.expect(1, muru.RolledBack, "gate failed at 50%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
	})
}

func TestWatcherSeesEveryStateAndHoldsNothingUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		var seen []string
		stuck := make(chan struct{})
		go w.e.WaitRollout(w.ctx, 1, func(muru.Rollout) { <-stuck }) // never comes back until the end
		done := make(chan error)
		go func() {
			_, err := w.e.WaitRollout(w.ctx, 1, func(r muru.Rollout) {
				if s := string(reportState(r)); len(seen) == 0 || seen[len(seen)-1] != s {
					seen = append(seen, s)
				}
			})
			done <- err
		}()
		synctest.Wait()
		for range 70 {
			w.good(10)
			time.Sleep(time.Second)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		close(stuck)
		want := []string{"rollout 1 running: step 1 of 2: 10% for 30s", "rollout 1 running: step 2 of 2: 50% for 30s", "rollout 1 promoted: every step passed its gates"}
		if len(seen) != len(want) {
			t.Fatalf("saw %q", seen)
		}
		for i := range want {
			if seen[i] != want[i] {
				t.Errorf("saw %q, want %q", seen[i], want[i])
			}
		}
	})
}
