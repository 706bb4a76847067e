package rollout

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/store"
)

func TestGCRemovesWhatIsOldAndNothingInUse(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(true) // r1 stays held
		for range 6 {
			w.deploy(false)
			time.Sleep(time.Second)
		}
		w.deploy(true) // r8
		for range 3 {
			w.canary(func(q *CanaryRequest) { q.Release = rel(8) })
			w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: w.e.last})
		}
		w.canary(func(q *CanaryRequest) { q.Release = rel(8) })
		synctest.Wait()
		states := func() (s string) {
			all, _ := w.e.Releases("shop")
			for _, r := range all {
				s += fmt.Sprintf("%s %s, ", r.ID.Name(), r.State)
			}
			return s
		}
		if got := states(); got != "r1 held, r2 stopped, r3 stopped, r4 stopped, r5 stopped, r6 warm, r7 serving, r8 serving, " {
			t.Fatal(got)
		}
		report, err := w.e.GC(w.ctx, Policy{Events: 10, Releases: 1, Rollouts: 1})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(report.Releases) != "[shop@r2 shop@r3 shop@r4]" || fmt.Sprint(report.Rollouts) != "[1 2]" || report.Events < 10 {
			t.Errorf("%+v", report)
		}
		check := func(when string) {
			t.Helper()
			if got := states(); got != "r1 held, r5 stopped, r6 warm, r7 serving, r8 serving, " {
				t.Errorf("%s: %s", when, got)
			}
			_, err := w.e.Rollout(1)
			expectError(t, err, muru.KindNotFound, "there is no rollout 1")
			_, err = w.e.Release(rel(3))
			expectError(t, err, muru.KindNotFound, "shop@r3 is gone: muru keeps a number of stopped releases only")
			if r, err := w.e.Rollout(4); err != nil || !r.Live() {
				t.Errorf("%s: %v, %v", when, r, err)
			}
			if all, _ := w.e.Rollouts(""); len(all) != 2 {
				t.Errorf("%s: rollouts %v", when, all)
			}
		}
		check("then")
		if got := w.e.Events(EventQuery{}); len(got) != 10 {
			t.Errorf("%d events", len(got))
		}
		w.restart()
		synctest.Wait()
		check("after a restart")
		if id := w.deploy(true); id != rel(9) {
			t.Errorf("the next release is %s", id)
		}
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 4})
		if r := w.canary(func(q *CanaryRequest) { q.Release = rel(8) }); r.Number != 5 {
			t.Errorf("the next rollout is %d", r.Number)
		}
		if _, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop", To: rel(3)}); muru.KindOf(err) != muru.KindNotFound {
			t.Error(err)
		}
	})
}

func TestGCRemovesEventsByAge(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(true)
		time.Sleep(time.Hour)
		w.deploy(true)
		before := len(w.e.Events(EventQuery{}))
		report, err := w.e.GC(w.ctx, Policy{EventAge: 30 * time.Minute})
		if err != nil || report.Events != 3 { // app.created, release.starting, release.held
			t.Errorf("%+v, %v", report, err)
		}
		if n := len(w.e.Events(EventQuery{})); n != before-3 {
			t.Errorf("%d events of %d", n, before)
		}
		if report, err := w.e.GC(w.ctx, Policy{EventAge: 30 * time.Minute}); err != nil || report.Events != 0 {
			t.Errorf("a second time: %+v, %v", report, err)
		}
		w.restart()
		if n := len(w.e.Events(EventQuery{})); n != before-3 {
			t.Errorf("%d events of %d after a restart", n, before)
		}
	})
}

func TestGCOfNothingKeepsEverything(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		report, err := w.e.GC(w.ctx, Policy{})
		if err != nil || report.Events+len(report.Releases)+len(report.Rollouts) != 0 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

func TestGCOnAFullDiskForgetsNothing(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		for range 5 {
			w.deploy(false)
			time.Sleep(time.Second)
		}
		disk.full.Store(true)
		_, err := w.e.GC(w.ctx, Policy{Releases: 1})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
		if all, _ := w.e.Releases("shop"); len(all) != 5 {
			t.Errorf("%d releases", len(all))
		}
		disk.full.Store(false)
	})
}
