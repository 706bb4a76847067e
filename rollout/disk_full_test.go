package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
	"muru/store"
)

// inWorldWithDisk runs fn with a disk that can be full.
func inWorldWithDisk(t *testing.T, fn func(w *world, disk *faultyStore)) {
	t.Helper()
	faulty := &faultyStore{}
	inWrappedWorld(t, func(s store.Store) store.Store { faulty.Store = s; return faulty }, func(w *world) { fn(w, faulty) })
}

const noSpace = "nothing was changed: the state file cannot be written: no space left on device"

func TestFullDiskRefusesChangesAndPutsTheTableBack(t *testing.T) {
	change := RouteChange{"path", func(r *muru.Route) { r.Path = "/x" }, func(r muru.Route) string { return r.Path }}
	for _, tt := range []struct {
		name string
		call func(w *world) error
	}{
		{"deploy", func(w *world) error {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
			return err
		}},
		{"deploy of a new app", func(w *world) error {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "blog"})
			return err
		}},
		{"app", func(w *world) error {
			_, _, err := w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{change}})
			return err
		}},
		{"promote", func(w *world) error {
			_, _, err := w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
			return err
		}},
		{"split", func(w *world) error {
			_, _, err := w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(2), Share: 100}}})
			return err
		}},
		{"canary", func(w *world) error {
			_, _, err := w.e.Canary(w.ctx, plan())
			return err
		}},
		{"stop", func(w *world) error {
			_, _, err := w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorldWithDisk(t, func(w *world, disk *faultyStore) {
				if tt.name == "deploy of a new app" { // the routes are not to overlap
					must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{change}}))
				}
				w.baseAndCandidate()
				time.Sleep(time.Second)
				disk.full.Store(true)
				for range 2 { // the first meets the full disk, the second is not even begun
					err := tt.call(w)
					if tt.name != "stop" {
						expectError(t, err, muru.KindFailed, noSpace)
					}
					if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 100%" || app.Rollout != 0 {
						t.Errorf("%s, rollout %d", app.Split, app.Rollout)
					}
					w.invariants()
				}
				time.Sleep(5 * time.Second)
				if got := w.events("daemon.disk_full"); len(got) != 1 || tt.name != "stop" && got[0] != "muru "+w.path+": changes are refused, traffic goes on" {
					t.Errorf("events: %q", got)
				}
				disk.full.Store(false)
				if err := tt.call(w); err != nil && tt.name != "stop" {
					t.Errorf("with room again: %v", err)
				}
				before, _ := w.e.Releases("")
				w.restart()
				if after, _ := w.e.Releases(""); len(after) != len(before) {
					t.Errorf("%d releases were %d", len(after), len(before))
				}
			})
		})
	}
}

func TestFullDiskKeepsNoGateFromRollingBack(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(time.Second)
		disk.full.Store(true)
		w.edge.Send(rel(1), 900, 200, time.Millisecond)
		w.edge.Send(rel(2), 100, 500, time.Millisecond)
		const message = "gate failed at 10%: 5xx rate 100.00% over the limit of 1.00% (baseline 0.00%)"
		w.expect(1, muru.RolledBack, message)
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" {
			t.Errorf("the edge has %s", routing.Split)
		}
		if got := w.events("rollout.rolled_back"); len(got) != 1 {
			t.Errorf("events: %q", got)
		}
		disk.full.Store(false)
		time.Sleep(2 * time.Second) // it is written by itself
		if got := committedNow(w); got != "r1 100%" {
			t.Errorf("on disk is %s", got)
		}
		w.restart()
		w.expect(1, muru.RolledBack, message)
		if got := w.events("rollout.rolled_back"); len(got) != 1 {
			t.Errorf("events: %q", got)
		}
	})
}

// committedNow reads the split from the open store.
func committedNow(w *world) string {
	w.t.Helper()
	kv, _, err := w.bolt.Get(w.ctx, appKey("shop"))
	if err != nil {
		w.t.Fatal(err)
	}
	var r appRecord
	if err := decode(kv.Value, &r); err != nil {
		w.t.Fatal(err)
	}
	split, _ := r.Split.split("shop")
	return split.String()
}

func TestFullDiskLetsPeopleAbortAndSaysWhatThatMeans(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.baseAndCandidate()
		w.canary()
		disk.full.Store(true)
		_, _, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindFailed, "it is in force, but a restart would undo it: the state file cannot be written: no space left on device")
		w.expect(1, muru.Aborted, "by ana at 10%")
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" {
			t.Errorf("the edge has %s", routing.Split)
		}
		disk.full.Store(false)
		time.Sleep(2 * time.Second)
		w.restart()
		w.expect(1, muru.Aborted, "by ana at 10%")
	})
}

func TestFullDiskHoldsARolloutInItsStep(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.MinRequests = 10 })
		time.Sleep(time.Second)
		w.good(20)
		time.Sleep(10 * time.Second)
		disk.full.Store(true)
		time.Sleep(time.Minute)
		if r := w.rollout(1); r.Step == nil || r.Step.Number != 1 {
			t.Errorf("it went on: %v", r.Step)
		}
		disk.full.Store(false)
		time.Sleep(3 * time.Second)
		if r := w.rollout(1); r.Step == nil || r.Step.Number != 2 {
			t.Errorf("with room again it is in %v", r.Step)
		}
	})
}

func TestFullDiskLeavesAnApprovalToBeGivenAgain(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.MinRequests, q.Approve = 10, muru.ApproveEachStep })
		time.Sleep(time.Second)
		w.good(20)
		time.Sleep(31 * time.Second)
		disk.full.Store(true)
		_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		expectError(t, err, muru.KindFailed, noSpace)
		w.expect(1, muru.AwaitingApproval, "step 2 of 2: 50% for 30s awaits approval: muru rollout resume shop")
		if r := w.rollout(1); r.Step.Number != 1 || r.Share != 1000 {
			t.Errorf("it is in %v at %s", r.Step, r.Share)
		}
		disk.full.Store(false)
		w.good(20)
		if _, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}); err != nil {
			t.Fatal(err)
		}
		w.expect(1, muru.Running, "")
	})
}

func TestEventsOutlastAFullDiskAndKeepTheirNumbers(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.deploy(false)
		disk.full.Store(true)
		for range 10 * reserveAhead {
			w.log.Append(muru.Event{Kind: "worker.crashed", Subject: "shop@r1"})
			time.Sleep(time.Millisecond)
		}
		shown := len(w.events("worker.crashed"))
		if shown == 0 || shown > reserveAhead+1 {
			t.Errorf("%d events have a number nobody may have reserved", shown)
		}
		disk.full.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := len(w.events("worker.crashed")); got != 10*reserveAhead {
			t.Errorf("%d events with room again", got)
		}
		w.restart()
		if got := len(w.events("worker.crashed")); got != 10*reserveAhead {
			t.Errorf("%d events after a restart", got)
		}
	})
}

func TestDeployThatBecomesReadyOnAFullDiskDoesNotSayThatItIsDone(t *testing.T) {
	inWorldWithDisk(t, func(w *world, disk *faultyStore) {
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			return rollouttest.Answering(200, ""), Sleep(ctx, RealClock{}, 10*time.Second)
		}
		time.AfterFunc(5*time.Second, func() { disk.full.Store(true) })
		_, report, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
		expectError(t, err, muru.KindFailed, "it is in force, but a restart would undo it: the state file cannot be written: no space left on device")
		if report != "" || w.state(1) != muru.Held {
			t.Errorf("%q, r1 is %s", report, w.state(1))
		}
		disk.full.Store(false)
		time.Sleep(2 * time.Second)
		w.host.StartFunc = nil
		w.restart()
		if w.state(1) != muru.Held {
			t.Errorf("r1 is %s", w.state(1))
		}
	})
}
