package rollout

import (
	"context"
	"strings"
	"testing"
	"time"

	"muru"
)

// rollback rolls shop back.
func (w *world) rollback(q RollbackRequest) (serving muru.ReleaseID, report Report, err error) {
	q.Caller, q.App = ana, "shop"
	r, report, err := w.e.Rollback(w.ctx, q)
	return r.ID, report, err
}

func TestRollbackReturnsToTheWarmReleaseAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.DrainFunc = drainTakes(time.Minute)
		w.deploy(false)
		w.deploy(false)
		now := time.Now()
		serving, report, err := w.rollback(RollbackRequest{Reason: "locks the database"})
		if err != nil || serving != rel(1) || report != "shop rolled back from r2 to r1: r1 serves 100%, r2 is kept for inspection" {
			t.Error(serving, report, err)
		}
		if !time.Now().Equal(now) || w.state(1) != muru.Serving || w.state(2) != muru.Held {
			t.Errorf("r1 is %s, r2 %s", w.state(1), w.state(2))
		}
		w.expectEvents("app.rolled_back", "shop from r2 to r1 by ana: locks the database")
		time.Sleep(12 * time.Second)
		_, _, err = w.rollback(RollbackRequest{})
		expectError(t, err, muru.KindRefused, "shop was rolled back to r1 12 s ago by ana: name the release with to=")
		time.Sleep(2 * time.Minute)
		if w.state(1) != muru.Serving {
			t.Errorf("the drain of before the rollback made r1 %s", w.state(1))
		}
		_, _, err = w.rollback(RollbackRequest{})
		expectError(t, err, muru.KindRefused, "shop has no earlier release to go back to")
	})
}

func TestRollbackNeverGoesToAReleaseItWasRolledBackFrom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false) // r1
		w.deploy(false) // r2
		w.rollback(RollbackRequest{})
		w.deploy(false) // r3
		time.Sleep(2 * time.Minute)
		serving, _, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(1) {
			t.Error(serving, err)
		}
		// But it may be named.
		serving, report, err := w.rollback(RollbackRequest{To: rel(2)})
		if err != nil || serving != rel(2) {
			t.Error(serving, report, err)
		}
	})
}

func TestWhatIsPromotedAfterARollbackCanBeRolledBackAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false) // r1
		w.deploy(false) // r2
		w.rollback(RollbackRequest{})
		w.deploy(false) // r3, a mend that is none
		serving, report, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(1) || report != "shop rolled back from r3 to r1: r1 serves 100%, r3 is kept for inspection" {
			t.Error(serving, report, err)
		}
		_, _, err = w.rollback(RollbackRequest{})
		expectError(t, err, muru.KindRefused, "shop was rolled back to r1 0 ms ago by ana: name the release with to=")
	})
}

func TestRollbackStartsAReleaseThatWasStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(1)}))
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			Sleep(ctx, RealClock{}, 5*time.Second)
			return nil, muru.Errorf(muru.KindNotReady, "exit status 1")
		}
		_, _, err := w.rollback(RollbackRequest{})
		expectError(t, err, muru.KindNotReady, "release shop@r1 failed to start: exit status 1; r2 keeps serving")
		if w.state(2) != muru.Serving {
			t.Errorf("r2 is %s", w.state(2))
		}
		w.host.StartFunc = nil
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(1)}))
		serving, report, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(1) || report != "shop rolled back from r2 to r1: r1 serves 100%, r2 is kept for inspection" {
			t.Error(serving, report, err)
		}
	})
}

func TestRollbackOfAnAppAbortsItsRolloutAndThatIsAll(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		w.deploy(true)
		time.Sleep(2 * time.Minute)
		w.canary(func(q *CanaryRequest) { q.Release = rel(3) })
		serving, report, err := w.rollback(RollbackRequest{Reason: "hm"})
		if err != nil || serving != rel(2) || report != "rollout 1 aborted: by ana at 10%: hm" {
			t.Error(serving, report, err)
		}
		// Two people in a hurry do not go back twice.
		_, _, err = w.rollback(RollbackRequest{})
		expectError(t, err, muru.KindRefused, "shop was rolled back to r2 0 ms ago by ana: name the release with to=")
	})
}

func TestRollbackOfAReleaseIsAGuard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		w.deploy(false)
		w.deploy(true)
		serving, report, err := w.rollback(RollbackRequest{Release: rel(2)})
		if err != nil || serving != rel(3) || report != "shop@r2 does not serve shop: r3 does" {
			t.Error(serving, report, err)
		}
		w.canary(func(q *CanaryRequest) { q.Release = rel(4) })
		serving, report, err = w.rollback(RollbackRequest{Release: rel(3)}) // the baseline of a live rollout
		if err != nil || serving != rel(2) || report != "shop rolled back from r3 to r2: r2 serves 100%, r3 is kept for inspection" {
			t.Error(serving, report, err)
		}
		w.expect(1, muru.Aborted, "by ana at 10%")
		_, _, err = w.rollback(RollbackRequest{Release: rel(9)})
		expectError(t, err, muru.KindNotFound, "shop has no release r9")
	})
}

func TestRollbackPutsSharesSetByHandBackFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		w.deploy(true)
		w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(3), Share: 2000}}})
		serving, report, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(2) || report != "shop rolled back from r3 to r2: r2 serves 100%, r3 is kept for inspection" {
			t.Error(serving, report, err)
		}
		if w.state(3) != muru.Held || w.state(2) != muru.Serving {
			t.Errorf("r2 is %s, r3 %s", w.state(2), w.state(3))
		}
	})
}

func TestWhatWaitsForAReleaseThatIsTakenOutIsGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		var recalled []string
		w.host.RecallFunc = func(id muru.ReleaseID) {
			routing, _ := w.edge.Routing("shop")
			if share, _ := routing.Split.Share(id); share > 0 {
				t.Errorf("%s is asked while it gets traffic", id)
			}
			recalled = append(recalled, id.Name())
		}
		w.baseAndCandidate()
		w.canary()
		w.good(100)
		time.Sleep(time.Second)
		if len(recalled) > 0 {
			t.Errorf("%v is recalled without a reason", recalled)
		}
		w.e.Harm(rel(2), muru.HarmCrash)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
		w.deploy(false) // r1 drains, and answers what waits there
		time.Sleep(time.Minute)
		if _, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(recalled, " "); got != "r2 r3" {
			t.Errorf("recalled %s, want r2 r3", got)
		}
	})
}
