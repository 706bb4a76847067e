package rollout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/store"
)

// inWorldWithHangingDisk runs fn with a disk that can hang, and be full.
func inWorldWithHangingDisk(t *testing.T, fn func(w *world, disk *stallingStore, full *faultyStore)) {
	t.Helper()
	disk, full := &stallingStore{}, &faultyStore{}
	inWrappedWorld(t, func(s store.Store) store.Store {
		full.Store, disk.Store = s, full
		return disk
	}, func(w *world) { fn(w, disk, full) })
}

func TestDiskThatHangsWithARolloutsProgressHoldsUpNoRollback(t *testing.T) {
	inWorldWithHangingDisk(t, func(w *world, disk *stallingStore, _ *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(1500 * time.Millisecond)
		w.good(20)
		resume := disk.stallWrites()
		time.Sleep(3 * time.Second) // its progress is on its way to the disk
		now := time.Now()
		w.e.Harm(rel(2), muru.HarmCrash)
		synctest.Wait()
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" || !time.Now().Equal(now) {
			t.Errorf("the edge has %s after %v", routing.Split, time.Since(now))
		}
		if r, _ := w.e.Rollout(1); r.State != muru.Running {
			t.Errorf("it is said to be %s, which is not on disk", r.State)
		}
		time.Sleep(time.Second)
		resume()
		const message = "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)"
		w.expect(1, muru.RolledBack, message)
		w.restart()
		w.expect(1, muru.RolledBack, message)
		if got := w.events("rollout.rolled_back"); len(got) != 1 {
			t.Errorf("events: %q", got)
		}
	})
}

// TestDiskThatHangsAfterAFailureHoldsUpNoRollback: what could not be written is
// tried again, by the app itself and for everybody who asks for a change.
func TestDiskThatHangsAfterAFailureHoldsUpNoRollback(t *testing.T) {
	inWorldWithHangingDisk(t, func(w *world, disk *stallingStore, full *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(1500 * time.Millisecond)
		full.full.Store(true)
		time.Sleep(3 * time.Second)
		resume := disk.stallWrites()
		time.Sleep(3 * time.Second)
		asked := make(chan error, 1)
		go func() {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
			asked <- err
		}()
		synctest.Wait()
		w.e.Harm(rel(2), muru.HarmCrash)
		synctest.Wait()
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" {
			t.Errorf("the edge has %s", routing.Split)
		}
		full.full.Store(false)
		resume()
		if err := <-asked; err != nil {
			t.Errorf("with the disk mended: %v", err)
		}
		time.Sleep(2 * time.Second)
		w.restart()
		w.expect(1, muru.RolledBack, "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
	})
}

func TestProgressIsWrittenBehindADiskThatHungAndTheNewestWins(t *testing.T) {
	inWorldWithHangingDisk(t, func(w *world, disk *stallingStore, _ *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(500 * time.Millisecond)
		w.good(20)
		time.Sleep(1500 * time.Millisecond)
		resume := disk.stallWrites()
		time.Sleep(5 * time.Second)
		writes := disk.writes.Load()
		resume()
		time.Sleep(100 * time.Millisecond)
		if n := disk.writes.Load() - writes; n > 2 {
			t.Errorf("%d writes were behind the one that hung", n)
		}
		kv, _, err := w.bolt.Get(w.ctx, rolloutKey(1))
		if err != nil {
			t.Fatal(err)
		}
		var r rolloutRecord
		if err := decode(kv.Value, &r); err != nil {
			t.Fatal(err)
		}
		if served := time.Duration(r.Progress.Held); served < 5*time.Second {
			t.Errorf("on disk it has served %v", served)
		}
	})
}

func TestGCOnADiskThatHangsHoldsUpNoRollback(t *testing.T) {
	inWorldWithHangingDisk(t, func(w *world, disk *stallingStore, full *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		must[muru.Rollout](t)(w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}))
		for n := 3; n <= 5; n++ {
			must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: w.deploy(true)}))
		}
		w.canary()
		time.Sleep(1500 * time.Millisecond)
		before, _ := w.e.Releases("shop")
		for _, p := range []Policy{{Releases: 1}, {Rollouts: 1}, {Releases: 1}} {
			resume := disk.stallWrites()
			end := inBackground(func() (Report, error) {
				_, err := w.e.GC(w.ctx, p)
				return "", err
			})
			w.e.Harm(rel(2), muru.HarmCrash)
			synctest.Wait()
			if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" {
				t.Errorf("the edge has %s", routing.Split)
			}
			full.full.Store(true)
			resume()
			if _, err := end(); p.Releases > 0 && !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
			full.full.Store(false)
			if all, _ := w.e.Releases("shop"); len(all) != len(before) || all[2].ID != rel(3) {
				t.Errorf("of %d releases there are %v", len(before), all)
			}
			time.Sleep(2 * time.Second)
			if got, _ := w.e.Rollouts("shop"); len(got) != 2 && p.Rollouts == 0 || got[0].Number != 1 {
				t.Errorf("rollouts %v", got)
			}
		}
		report, err := w.e.GC(w.ctx, Policy{Releases: 1, Rollouts: 1})
		if err != nil || len(report.Releases) != 2 || len(report.Rollouts) != 1 {
			t.Errorf("with the disk mended: %+v, %v", report, err)
		}
		w.restart()
		if all, _ := w.e.Releases("shop"); len(all) != len(before)-2 {
			t.Errorf("after a restart there are %v", all)
		}
	})
}

func TestCloseWaitsForProgressOnItsWayToTheDisk(t *testing.T) {
	inWorldWithHangingDisk(t, func(w *world, disk *stallingStore, _ *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(1500 * time.Millisecond)
		resume := disk.stallWrites()
		time.Sleep(3 * time.Second)
		closed := make(chan error, 1)
		go func() { closed <- w.e.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatal("closed while it is written: ", err)
		default:
		}
		resume()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
