package rollout

import (
	"context"
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
