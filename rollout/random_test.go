package rollout

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muru"
	"muru/store"
)

// TestRandomCommandsAndRestartsKeepTheInvariants does the same on a state file
// that is closed and opened, or whose disk fills up, in between. After a
// restart the split is one that was in force before it.
func TestRandomCommandsAndRestartsKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [4]int {
			return [4]int{
				rapid.IntRange(-3, len(randomCommands)-1).Draw(rt, "command"), // below 0: of the disk
				rapid.IntRange(1, 4).Draw(rt, "release"),
				rapid.IntRange(0, 200).Draw(rt, "number"),
				rapid.SampledFrom([]int{0, 0, 1, 500, 1000, 4000, 31000}).Draw(rt, "millis"),
			}
		}), 1, 12).Draw(rt, "steps")
		failed := ""
		ok := t.Run("", func(t *testing.T) {
			inWorldWithDisk(t, func(w *world, disk *faultyStore) {
				w.host.DrainFunc = drainTakes(2 * time.Second)
				w.deploy(false)
				w.deploy(true)
				for _, s := range steps {
					name := "the disk"
					switch {
					case s[0] == -1:
						name = "a restart"
						restartAtRandom(w, disk)
					case s[0] < 0:
						disk.full.Store(s[0] == -2 && s[2]%2 == 0)
					default:
						name = randomCommands[s[0]].name
						randomCommands[s[0]].run(w, rel(s[1]), s[2])
					}
					time.Sleep(time.Duration(s[3]) * time.Millisecond)
					w.invariants()
					if t.Failed() && failed == "" {
						failed = fmt.Sprintf("after %s of r%d (%d)", name, s[1], s[2])
					}
				}
				synctest.Wait()
				disk.full.Store(false)
			})
		})
		if !ok {
			rt.Fatal(failed)
		}
	})
}

// restartAtRandom restarts a world and checks that nobody's share has grown.
func restartAtRandom(w *world, disk *faultyStore) {
	w.t.Helper()
	w.stopRoughly()
	disk.full.Store(false)
	bolt, err := store.Open(w.path, store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.bolt = bolt
	committed := committedNow(w)
	if err := bolt.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start()
	synctest.Wait()
	if app, _ := w.e.AppNamed("shop"); app.Split.String() != committed {
		w.t.Errorf("committed was %q, after the restart it is %q", committed, app.Split)
	}
}

// TestRandomCommandsKeepTheInvariants sends random calls, traffic and faults
// to one app and checks after each that shares sum to the whole, that at most
// one rollout is live, that the edge has what the engine says, and (by the
// engine's own panics) that states move along their tables only.
func TestRandomCommandsKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// The commands are drawn outside of the bubble, which rapid cannot enter.
		type step struct{ command, release, number, millis int }
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.IntRange(0, len(randomCommands)-1).Draw(rt, "command"),
				rapid.IntRange(1, 4).Draw(rt, "release"),
				rapid.IntRange(0, 200).Draw(rt, "number"),
				rapid.SampledFrom([]int{0, 0, 1, 500, 1000, 31000, 700000}).Draw(rt, "millis"),
			}
		}), 1, 40).Draw(rt, "steps")
		failed := ""
		ok := t.Run("", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.host.DrainFunc = drainTakes(2 * time.Second)
				w.host.StopFunc = func(ctx context.Context, _ muru.ReleaseID) (muru.Drained, error) {
					return muru.Drained{}, Sleep(ctx, RealClock{}, time.Second)
				}
				w.deploy(false)
				w.deploy(true)
				for _, s := range steps {
					c := randomCommands[s.command]
					c.run(w, rel(s.release), s.number)
					time.Sleep(time.Duration(s.millis) * time.Millisecond)
					w.invariants()
					if t.Failed() && failed == "" {
						failed = fmt.Sprintf("after %s of r%d (%d)", c.name, s.release, s.number)
					}
				}
				synctest.Wait()
			})
		})
		if !ok {
			rt.Fatal(failed)
		}
	})
}

var randomCommands = []struct {
	name string
	run  func(w *world, id muru.ReleaseID, n int)
}{
	{"deploy", func(w *world, _ muru.ReleaseID, n int) {
		go w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: n%2 == 0})
	}},
	{"deploy that fails", func(w *world, _ muru.ReleaseID, n int) {
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		w.e.Deploy(ctx, DeployRequest{Caller: ana, App: "shop", Hold: n%2 == 0})
	}},
	{"canary", func(w *world, id muru.ReleaseID, n int) {
		w.e.Canary(w.ctx, plan(func(q *CanaryRequest) {
			q.Release = id
			q.Approve, q.OnNoData = muru.Approve(n%4), muru.NoData(n%2)
			if n%3 == 0 {
				q.Steps = []muru.Step{{Share: 0, Hold: time.Second}, {Share: muru.Share(n + 1), Hold: time.Second}, {Share: 10000, Hold: time.Second}}
			}
		}))
	}},
	{"canary with policies", func(w *world, id muru.ReleaseID, n int) {
		w.e.Canary(w.ctx, plan(func(q *CanaryRequest) {
			q.Release = id
			q.OnFail, q.OnConflict, q.Until = OnFail(n%2), OnConflict(n%3), Until(n/2%2)
			q.Shield = n%5 == 0
			if n%4 == 0 {
				q.Steps = []muru.Step{{Share: muru.Share(n + 1), Shadow: true, Hold: time.Second}, {Share: 1000, Hold: time.Second}}
			}
		}))
	}},
	{"retry", func(w *world, _ muru.ReleaseID, n int) {
		w.e.Retry(w.ctx, RetryRequest{Caller: ana, Rollout: 1 + n%5, FromStep: n % 3})
	}},
	{"abort any", func(w *world, _ muru.ReleaseID, n int) {
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1 + n%5})
	}},
	{"deploy that supersedes", func(w *world, _ muru.ReleaseID, n int) {
		go w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", OnConflict: OnConflict(1 + n%2)})
	}},
	{"copies", func(w *world, _ muru.ReleaseID, n int) {
		if r, ok := w.edge.Routing("shop"); ok && r.Shadow != nil {
			for i := range n {
				user := w.edge.Begin(r.Split.Baseline())
				user.Status, user.Duration = 200, time.Millisecond
				shadow := user
				if shadow.Release = r.Shadow.Release; i%9 == 8 {
					shadow.Status = 500
				}
				w.edge.Sink("shop").Pair(user, shadow)
			}
		}
	}},
	{"good traffic", func(w *world, _ muru.ReleaseID, n int) {
		if r, ok := w.edge.Routing("shop"); ok {
			for _, arm := range r.Split.Arms {
				w.edge.Send(arm.Release, n, 200, time.Millisecond)
			}
		}
	}},
	{"good traffic", func(w *world, _ muru.ReleaseID, n int) {
		if r, ok := w.edge.Routing("shop"); ok {
			for _, arm := range r.Split.Arms {
				w.edge.Send(arm.Release, 100+n, 200, time.Millisecond)
			}
		}
	}},
	{"bad traffic", func(w *world, id muru.ReleaseID, n int) { w.edge.Send(id, n, 500, time.Millisecond) }},
	{"crash", func(w *world, id muru.ReleaseID, _ int) { w.e.Harm(id, muru.HarmCrash) }},
	{"split", func(w *world, id muru.ReleaseID, n int) {
		w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: id, Share: muru.Share(n * 60)}}})
	}},
	{"unsplit", func(w *world, _ muru.ReleaseID, _ int) {
		w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop"})
	}},
	{"promote", func(w *world, id muru.ReleaseID, _ int) {
		w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: id})
	}},
	{"rollback app", func(w *world, _ muru.ReleaseID, _ int) {
		go w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"})
	}},
	{"rollback release", func(w *world, id muru.ReleaseID, _ int) {
		go w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, Release: id})
	}},
	{"rollback to", func(w *world, id muru.ReleaseID, _ int) {
		go w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop", To: id})
	}},
	{"stop release", func(w *world, id muru.ReleaseID, _ int) {
		go w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: id})
	}},
	{"stop app", func(w *world, _ muru.ReleaseID, n int) {
		if n%4 == 0 {
			go w.e.StopApp(w.ctx, ana, "shop")
		}
	}},
	{"sticky", func(w *world, _ muru.ReleaseID, n int) {
		w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{{"sticky",
			func(r *muru.Route) { r.Sticky = time.Duration(n%3) * time.Minute },
			func(r muru.Route) string { return r.Sticky.String() }}}})
	}},
	{"pause", func(w *world, _ muru.ReleaseID, n int) { onLatest(w, w.e.Pause) }},
	{"resume", func(w *world, _ muru.ReleaseID, n int) { onLatest(w, w.e.Resume) }},
	{"abort", func(w *world, _ muru.ReleaseID, n int) { onLatest(w, w.e.Abort) }},
	{"observe", func(w *world, _ muru.ReleaseID, n int) {
		until := time.Now().Add(time.Duration(n) * time.Second)
		go w.e.Observe(w.ctx, ObserveRequest{Release: rel(1), Hold: time.Until(until)}, nil)
	}},
}

func onLatest(w *world, call func(context.Context, RolloutRequest) (muru.Rollout, Report, error)) {
	if r, err := w.e.LiveOrLatest("shop"); err == nil {
		call(w.ctx, RolloutRequest{Caller: ana, Rollout: r.Number})
	}
}
