package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
	"muru/store"
)

func TestRestartBringsBackWhatServesIsHeldAndKeptWarm(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false) // r1 is warm
		w.deploy(true)
		must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{{"path",
			func(r *muru.Route) { r.Path = "/shop" }, func(r muru.Route) string { return r.Path }}}}))
		must[muru.App](t)(w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(3), Share: 1500}}}))
		before, _ := w.e.AppNamed("shop")
		was, _ := w.e.Releases("shop")
		w.restart()
		synctest.Wait()
		after, _ := w.e.AppNamed("shop")
		if fmt.Sprint(before) != fmt.Sprint(after) || after.Split.String() != "r2 85%, r3 15%" || after.Route.Path != "/shop" {
			t.Errorf("was %+v\nis  %+v", before, after)
		}
		is, _ := w.e.Releases("shop")
		for i := range was {
			if w, i := fmt.Sprintf("%+v", was[i].ReleasePlan)+was[i].State.String(), fmt.Sprintf("%+v", is[i].ReleasePlan)+is[i].State.String(); w != i {
				t.Errorf("was %s\nis  %s", w, i)
			}
		}
		routing, _ := w.edge.Routing("shop")
		if len(routing.Backends) != 3 || routing.Split.String() != after.Split.String() {
			t.Errorf("the edge has %+v", routing)
		}
		for n := 1; n <= 3; n++ {
			if !w.host.Running(rel(n)) {
				t.Errorf("r%d does not run", n)
			}
		}
		if id := w.deploy(true); id != rel(4) {
			t.Errorf("the next release is %s", id)
		}
	})
}

func TestServingReleasesStartFirstAndTwoAtOnce(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		for _, app := range []string{"a", "b", "c"} {
			path := RouteChange{"path", func(r *muru.Route) { r.Path = "/" + app }, func(r muru.Route) string { return r.Path }}
			must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: app, Change: []RouteChange{path}}))
			for _, hold := range []bool{true, false} {
				must[muru.Release](t)(w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: app, Hold: hold}))
			}
		}
		w.stop()
		var mu sync.Mutex
		began, starts := time.Now(), map[string]time.Duration{}
		w.host.StartFunc = func(ctx context.Context, r muru.Release) (muru.Backend, error) {
			mu.Lock()
			starts[r.ID.String()] = time.Since(began)
			mu.Unlock()
			return rollouttest.Answering(200, ""), Sleep(ctx, RealClock{}, time.Second)
		}
		w.start()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("ready to listen after %s", took)
		}
		time.Sleep(10 * time.Second)
		want := map[string]time.Duration{
			"a@r2": 0, "b@r2": 0, "c@r2": time.Second, "a@r1": time.Second, "b@r1": 2 * time.Second, "c@r1": 2 * time.Second,
		}
		mu.Lock()
		defer mu.Unlock()
		if !maps.Equal(starts, want) {
			t.Errorf("they start at %v, want %v", starts, want)
		}
	})
}

func TestStartingReleaseHasFailedAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(false)
		w.host.StartFunc = func(ctx context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return rollouttest.Answering(200, ""), nil
		}
		go w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		synctest.Wait()
		w.restart()
		r, _ := w.e.Release(rel(2))
		if r.State != muru.FailedToStart || r.Message != "failed to start: muru stopped while it started" {
			t.Errorf("r2 is %s: %s", r.State, r.Message)
		}
		w.expectEvents("release.failed", "shop@r2 failed to start: muru stopped while it started")
		w.deploy(false) // nothing is in the way
	})
}

func TestDrainingReleaseIsWarmAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.host.DrainFunc = drainTakes(time.Hour)
		w.deploy(false)
		w.deploy(false)
		if w.state(1) != muru.Draining {
			t.Fatal(w.state(1))
		}
		w.restart()
		if w.state(1) != muru.Warm || !w.host.Running(rel(1)) {
			t.Errorf("r1 is %s", w.state(1))
		}
	})
}

func TestBaselineThatDoesNotStartAgainIsTriedAgain(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		mounted := time.Now().Add(25 * time.Second)
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 2 && time.Now().Before(mounted) {
				return nil, errors.New("no such directory")
			}
			return rollouttest.Answering(200, ""), nil
		}
		w.restart()
		app, _ := w.e.AppNamed("shop")
		if w.state(2) != muru.Serving || app.Baseline != 2 {
			t.Errorf("r2 is %s, the baseline r%d", w.state(2), app.Baseline)
		}
		time.Sleep(31 * time.Second)
		w.expectEvents("release.failed",
			"shop@r2 failed to start: no such directory; next try in 10s",
			"shop@r2 failed to start: no such directory; next try in 20s")
		if r, _ := w.edge.Routing("shop"); r.Backends[rel(2)] == nil {
			t.Error("r2 does not answer although it could start")
		}
	})
}

func TestBaselineThatDoesNotStartAgainCanBeReplaced(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 2 {
				return nil, errors.New("port taken")
			}
			return rollouttest.Answering(200, ""), nil
		}
		w.restart()
		time.Sleep(time.Second) // r1 is warm and starts in the background
		if _, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"}); err != nil || w.state(1) != muru.Serving {
			t.Error(err, w.state(1))
		}
		time.Sleep(time.Minute)
		if w.state(2) != muru.FailedToStart {
			t.Errorf("r2 is %s", w.state(2))
		}
	})
}

func TestLiveRolloutGoesOnInItsStepAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.MinRequests = 10 })
		time.Sleep(time.Second)
		w.good(20)
		time.Sleep(30 * time.Second) // step 2
		synctest.Wait()
		w.good(20)
		time.Sleep(20500 * time.Millisecond)
		if r := w.rollout(1); r.Step.Number != 2 || r.Step.Elapsed < 19*time.Second {
			t.Fatal(r.Step)
		}
		ready := make(chan struct{})
		w.host.StartFunc = func(ctx context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 2 {
				<-ready
			}
			return rollouttest.Answering(200, ""), nil
		}
		w.stop()
		time.Sleep(time.Hour) // not counted
		w.start()
		r := w.rollout(1)
		if r.State != muru.Running || r.Step.Number != 2 || r.Step.Elapsed < 19*time.Second || r.Step.Elapsed > 21*time.Second {
			t.Errorf("%s in %v, %s served", r.State, r.Step, r.Step.Elapsed)
		}
		w.expectEvents("rollout.restored", "shop@r2 rollout 1 goes on after a restart: step 2 of 2: 50% for 30s, 20 s of 30s served")
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 100%" {
			t.Errorf("a candidate that is not ready has a share: %s", routing.Split)
		}
		close(ready)
		synctest.Wait()
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 50%, r2 50%" || routing.Split.Salt != "rollout 1" {
			t.Errorf("the split is %s", routing.Split)
		}
		w.good(5) // not enough in this window
		time.Sleep(15 * time.Second)
		w.expect(1, muru.Running, "")
		w.good(5)
		time.Sleep(2 * time.Second)
		w.expect(1, muru.Promoted, "every step passed its gates")
		w.restart()
		w.expect(1, muru.Promoted, "every step passed its gates")
		if r := w.rollout(1); len(r.Verdicts) != 3 || r.Verdicts[0].Result != muru.Pass || r.Share != muru.Buckets {
			t.Errorf("what its gates said: %v", r.Verdicts)
		}
	})
}

func TestGatesActAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.restart()
		synctest.Wait()
		w.edge.Send(rel(1), 900, 200, time.Millisecond)
		w.edge.Send(rel(2), 100, 500, time.Millisecond)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 5xx rate 100.00% over the limit of 1.00% (baseline 0.00%)")
		w.restart()
		w.expect(1, muru.RolledBack, "gate failed at 10%: 5xx rate 100.00% over the limit of 1.00% (baseline 0.00%)")
		if w.state(2) != muru.Held || w.state(1) != muru.Serving {
			t.Errorf("r1 is %s, r2 %s", w.state(1), w.state(2))
		}
	})
}

func TestRolloutThatWaitsStaysSoAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.MinRequests, q.Approve = 10, muru.ApproveEachStep })
		time.Sleep(time.Second)
		w.good(20)
		time.Sleep(31 * time.Second)
		const message = "step 2 of 2: 50% for 30s awaits approval: muru rollout resume shop"
		w.expect(1, muru.AwaitingApproval, message)
		w.restart()
		w.expect(1, muru.AwaitingApproval, message)
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 90%, r2 10%" {
			t.Errorf("the split is %s", routing.Split)
		}
		w.good(20)
		time.Sleep(time.Second)
		if _, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2}); err != nil {
			t.Fatal(err)
		}
		w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Reason: "lunch"})
		w.restart()
		w.expect(1, muru.Paused, "by ana at 50%: lunch")
		time.Sleep(time.Hour)
		w.expect(1, muru.Paused, "by ana at 50%: lunch")
		if routing, _ := w.edge.Routing("shop"); routing.Split.String() != "r1 50%, r2 50%" {
			t.Errorf("the split is %s", routing.Split)
		}
	})
}

func TestGateWithoutItsFunctionSaysNoData(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		run := w.e.BeginRun("a.star", "", "ana")
		w.canary(func(q *CanaryRequest) {
			q.Caller, q.MinRequests = Caller{Run: run, By: "run 1"}, 10
			q.Gates = []muru.Gate{{Name: "carts", Kind: muru.GateCheck, Check: func(context.Context, muru.Window) (bool, string, error) {
				return true, "", nil
			}}}
		})
		w.restart()
		w.expectEvents("rollout.unbound", "shop@r2 rollout 1: gate carts waits for its recipe, run 1")
		time.Sleep(time.Second)
		w.good(20)
		time.Sleep(time.Minute)
		r := w.rollout(1)
		if v := r.Verdicts[len(r.Verdicts)-1]; r.State != muru.Running || v.Gate != "carts" || v.Result != muru.NoDataYet {
			t.Errorf("%s, %v", r.State, v)
		}
		time.Sleep(10 * time.Minute)
		if r := w.rollout(1); r.State != muru.AwaitingApproval {
			t.Errorf("%s at its deadline", r.State)
		}
		if n := w.e.BeginRun("a.star", "", "ana"); n != 2 {
			t.Errorf("the next run is %d", n)
		}
	})
}

func TestCandidateThatDoesNotStartAgainIsRolledBack(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 2 {
				return nil, errors.New("port taken")
			}
			return rollouttest.Answering(200, ""), nil
		}
		w.restart()
		w.expect(1, muru.RolledBack, "candidate r2 did not start again: port taken")
		if w.state(2) != muru.FailedToStart || w.state(1) != muru.Serving {
			t.Errorf("r1 is %s, r2 %s", w.state(1), w.state(2))
		}
	})
}

func TestBaselineOfARolloutThatDoesNotStartAgainEndsIt(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			if r.ID.Number == 1 {
				return nil, errors.New("port taken")
			}
			return rollouttest.Answering(200, ""), nil
		}
		w.restart()
		w.expect(1, muru.Aborted, "baseline r1 did not start again: port taken")
		app, _ := w.e.AppNamed("shop")
		if w.state(1) != muru.FailedToStart || w.state(2) != muru.Held || len(app.Split.Arms) != 0 {
			t.Errorf("r1 is %s, r2 %s, %v", w.state(1), w.state(2), app.Split)
		}
	})
}

func TestStoppedAppStaysStopped(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		if _, _, err := w.e.StopApp(w.ctx, ana, "shop"); err != nil {
			t.Fatal(err)
		}
		w.restart()
		if _, ok := w.edge.Routing("shop"); ok || w.state(1) != muru.Stopped || w.host.Running(rel(1)) {
			t.Errorf("r1 is %s", w.state(1))
		}
		w.deploy(false)
		if _, ok := w.edge.Routing("shop"); !ok {
			t.Error("no route after the next deploy")
		}
	})
}

func TestStickyGraceGoesOnAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		sticky := RouteChange{"sticky", func(r *muru.Route) { r.Sticky = 10 * time.Minute }, func(r muru.Route) string { return muru.FormatDuration(r.Sticky) }}
		must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{sticky}}))
		w.deploy(false)
		w.deploy(false)
		w.stop()
		time.Sleep(5 * time.Minute)
		w.start()
		synctest.Wait()
		if r, _ := w.edge.Routing("shop"); len(r.Honoured) != 1 || r.Backends[rel(1)] == nil || w.state(1) != muru.Draining {
			t.Errorf("honoured %v, r1 is %s", r.Honoured, w.state(1))
		}
		time.Sleep(6 * time.Minute)
		if r, _ := w.edge.Routing("shop"); len(r.Honoured) != 0 || w.state(1) != muru.Warm {
			t.Errorf("honoured %v, r1 is %s", r.Honoured, w.state(1))
		}
	})
}

func TestCallWithAKeyFindsWhatItMadeBeforeTheRestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.deploy(false)
		by := Caller{Run: 7, Key: "7/0/1", By: "run 7"}
		q := DeployRequest{Caller: by, App: "shop", Hold: true}
		r := must[muru.Release](t)(w.e.Deploy(w.ctx, q))
		c := plan(func(q *CanaryRequest) { q.Caller = Caller{Run: 7, Key: "7/0/2", By: "run 7"} })
		must[muru.Rollout](t)(w.e.Canary(w.ctx, c))
		w.restart()
		if again := must[muru.Release](t)(w.e.Deploy(w.ctx, q)); again.ID != r.ID {
			t.Errorf("the call made %s again", again.ID)
		}
		if again := must[muru.Rollout](t)(w.e.Canary(w.ctx, c)); again.Number != 1 {
			t.Errorf("the call made rollout %d again", again.Number)
		}
	})
}

// TestStateThatDoesNotFitIsRefusedAsItIs: a start on it fails with a sentence
// and changes nothing.
func TestStateThatDoesNotFitIsRefusedAsItIs(t *testing.T) {
	for _, tt := range []struct{ name, key, old, new, want string }{
		{"garbage", "/muru/local/app/shop", `{`, `[`, `the state's record /muru/local/app/shop cannot be read: `},
		{"a newer form", "/muru/local/release/shop/00000002", `"v":1`, `"v":9`,
			"the state's record /muru/local/release/shop/00000002 cannot be read: its form is 9, and this muru knows forms up to 1"},
		{"a split of nobody", "/muru/local/app/shop", `"release":1`, `"release":7`,
			"the state's record /muru/local/app/shop cannot be read: its split has r7, which there is not"},
		{"a release from nowhere", "/muru/local/release/shop/00000002", "", "/muru/local/release/blog/00000001",
			"the state's record /muru/local/release/blog/00000001 cannot be read: there is no app that it could be of"},
		{"a number that is none", "/muru/local/meta/runs", `"last":1`, `"last":-1`,
			"the state's record /muru/local/meta/runs cannot be read: -1 is not a number there can be"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inDurableWorld(t, func(w *world) {
				w.baseAndCandidate()
				w.e.BeginRun("a.star", "", "ana")
				w.e.Close(w.ctx)
				w.log.Close(w.ctx)
				kv, _, err := w.bolt.Get(w.ctx, tt.key)
				if err != nil {
					t.Fatal(err)
				}
				put := store.Put(tt.key, []byte(strings.Replace(string(kv.Value), tt.old, tt.new, 1)), 0)
				if tt.old == "" {
					put = store.Put(tt.new, kv.Value, 0)
				}
				if _, err := w.bolt.Txn(w.ctx, nil, []store.Op{put}, nil); err != nil {
					t.Fatal(err)
				}
				log, err := OpenLog(w.ctx, w.bolt, LogOptions{})
				if err != nil {
					t.Fatal(err)
				}
				e := New(Options{Edge: &rollouttest.Edge{}, Host: &rollouttest.Host{}, Log: log, Bug: panicked})
				err = e.Restore(w.ctx)
				told, ok := errors.AsType[*muru.Error](err)
				if !ok || !strings.HasPrefix(told.Message, tt.want) || told.Hint == "" {
					t.Errorf("error is %v", err)
				}
				e.Close(w.ctx)
				log.Close(w.ctx)
				// As it was before, so that the world can be closed.
				undo := store.Put(tt.key, kv.Value, 0)
				if tt.old == "" {
					undo = store.Del(tt.new)
				}
				if _, err := w.bolt.Txn(w.ctx, nil, []store.Op{undo}, nil); err != nil {
					t.Fatal(err)
				}
				w.bolt.Close()
				w.start()
				if w.state(1) != muru.Serving || w.state(2) != muru.Held {
					t.Errorf("r1 is %s, r2 %s", w.state(1), w.state(2))
				}
			})
		})
	}
}

func TestWhatWasShieldedIsStillCountedAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Shield = true })
		w.good(200)
		fail := func(shielded bool) {
			f := w.edge.Begin(rel(2))
			f.Status, f.Duration, f.Shielded = 500, time.Millisecond, shielded
			w.edge.End(f)
		}
		fail(false)
		fail(true)
		for range 2 {
			w.restart()
			w.expect(1, muru.Running, "")
		}
		fail(true)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 5xx rate 1.48% over the limit of 1.00% (baseline 0.00%)")
		got := w.events("rollout.rolled_back")
		if len(got) != 1 || !strings.HasSuffix(got[0], "; 2 of 3 failures shielded") {
			t.Errorf("%q", got)
		}
	})
}

func TestThatBothAreBadIsSaidOnceForAStepAlsoAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		for n := range 30 {
			time.Sleep(900 * time.Millisecond)
			w.edge.Send(rel(1), 9, 503, time.Millisecond) // as many of each as the share says
			w.edge.Send(rel(1), 81, 200, time.Millisecond)
			w.edge.Send(rel(2), 1, 503, time.Millisecond)
			w.edge.Send(rel(2), 9, 200, time.Millisecond)
			if n == 12 {
				if said := w.events("rollout.both_bad"); len(said) != 1 {
					t.Fatalf("before the restart: %q", said)
				}
				w.restart()
				w.expect(1, muru.Running, "")
			}
		}
		if said := w.events("rollout.both_bad"); len(said) != 1 {
			t.Errorf("%q", said)
		}
	})
}
