package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
)

func TestDeploySaysWhatServes(t *testing.T) {
	inWorld(t, func(w *world) {
		_, report, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Plan: muru.ReleasePlan{Source: "/srv/v5", Workers: 2, Threads: 4}})
		if err != nil || report != "release shop@r1 is ready and serving: 100% of shop" {
			t.Error(report, err)
		}
		_, report, err = w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
		if err != nil || report != "release shop@r2 is ready and held: not serving" {
			t.Error(report, err)
		}
		_, report, err = w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		if err != nil || report != "release shop@r3 is ready and serving: 100% of shop; r1 is kept warm" {
			t.Error(report, err)
		}
		w.expectEvents("app.created", "shop */")
		w.expectEvents("release.promoted", "shop@r1 100% of shop by ana", "shop@r3 100% of shop by ana, r1 is kept warm")
		w.expectEvents("release.held", "shop@r2 ready and held: not serving")
		if e := w.e.Events(EventQuery{Kind: "release.starting"})[0]; e.Message != "python from /srv/v5: 2 workers x 4 threads" {
			t.Error(e.Message)
		}
	})
}

func TestReleaseThatDoesNotStartLeavesTheBaselineAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		fail := func(context.Context, muru.Release) (muru.Backend, error) {
			e := muru.Errorf(muru.KindNotReady, "ModuleNotFoundError: No module named 'app'")
			for i := range 30 {
				e.Detail = append(e.Detail, fmt.Sprint("line ", i))
			}
			return nil, e
		}
		w.host.StartFunc = fail
		_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		expectError(t, err, muru.KindNotReady, "release shop@r1 failed to start: ModuleNotFoundError: No module named 'app'; nothing serves shop")
		w.host.StartFunc = nil
		w.deploy(false)
		w.host.StartFunc = fail
		_, _, err = w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		expectError(t, err, muru.KindNotReady, "release shop@r3 failed to start: ModuleNotFoundError: No module named 'app'; r2 keeps serving")
		if e, _ := errors.AsType[*muru.Error](err); len(e.Detail) != 10 || e.Detail[9] != "line 29" {
			t.Errorf("detail %q", e.Detail)
		}
		w.expectEvents("release.failed",
			"shop@r1 failed to start: ModuleNotFoundError: No module named 'app'",
			"shop@r3 failed to start: ModuleNotFoundError: No module named 'app'")
		if w.state(2) != muru.Serving || w.state(3) != muru.FailedToStart {
			t.Errorf("r2 is %s, r3 %s", w.state(2), w.state(3))
		}
	})
}

func TestAppTakesOtherCallsWhileAReleaseStarts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			return rollouttest.Answering(200, ""), Sleep(ctx, RealClock{}, 30*time.Second)
		}
		done := make(chan error)
		go func() {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
			done <- err
		}()
		synctest.Wait()
		now := time.Now()
		if _, _, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}); err != nil {
			t.Error(err)
		}
		if r, err := w.e.Release(rel(3)); err != nil || r.State != muru.Starting {
			t.Error(r, err)
		}
		if !time.Now().Equal(now) {
			t.Error("abort waited for the start")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDeployThatIsGivenUpFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithCancel(w.ctx)
		time.AfterFunc(time.Second, cancel)
		if _, _, err := w.e.Deploy(ctx, DeployRequest{Caller: ana, App: "shop"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		w.expectEvents("release.failed", "shop@r2 failed to start: it was cancelled")
		w.host.StartFunc = nil
		w.deploy(false) // and nothing is in the way of the next
	})
}

func TestPlainDeployIsRefusedWhileAnotherTakesOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			return rollouttest.Answering(200, ""), Sleep(ctx, RealClock{}, 30*time.Second)
		}
		go w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		synctest.Wait()
		const text = "shop@r3 is starting and takes all traffic of shop when it is ready: refused"
		_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		expectError(t, err, muru.KindRefused, text)
		_, _, err = w.e.Canary(w.ctx, plan())
		expectError(t, err, muru.KindRefused, text)
		time.Sleep(31 * time.Second)
		if w.state(3) != muru.Serving {
			t.Errorf("r3 is %s", w.state(3))
		}
	})
}

func TestOnlyTheLastReleaseIsKeptWarm(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.DrainFunc = drainTakes(10 * time.Second)
		for range 4 {
			w.deploy(false)
			time.Sleep(time.Minute)
		}
		var states []string
		for n := range 4 {
			states = append(states, w.state(n+1).String())
		}
		if got := fmt.Sprint(states); got != "[stopped stopped warm serving]" {
			t.Error(got)
		}
		w.expectEvents("release.stopped", "shop@r1 by muru", "shop@r2 by muru")
		if w.host.Running(rel(1)) || !w.host.Running(rel(3)) {
			t.Error("the host disagrees")
		}
	})
}

func TestDrainThatCutsSomethingWarns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.InFlightFunc = func(muru.ReleaseID) (int, int, int) { return 3, 2, 1 }
		w.host.DrainFunc = func(ctx context.Context, _ muru.ReleaseID) (muru.Drained, error) {
			return muru.Drained{Took: 30 * time.Second, Requests: 3}, Sleep(ctx, RealClock{}, 30*time.Second)
		}
		w.deploy(false)
		w.deploy(false)
		w.expectEvents("release.draining", "shop@r1 3 requests, 2 streams, 1 websockets open")
		time.Sleep(31 * time.Second)
		w.expectEvents("release.warm", "shop@r1 drained in 30 s, cut 3 requests, 0 streams, 0 websockets")
		if e := w.e.Events(EventQuery{Kind: "release.warm"})[0]; e.Level != muru.LevelWarning {
			t.Errorf("level %s", e.Level)
		}
	})
}

func TestStickyRouteHonoursAPromotedOutReleaseForItsGrace(t *testing.T) {
	inWorld(t, func(w *world) {
		var drained atomic.Int32
		w.host.DrainFunc = func(context.Context, muru.ReleaseID) (muru.Drained, error) {
			drained.Add(1)
			return muru.Drained{}, nil
		}
		sticky := RouteChange{"sticky", func(r *muru.Route) { r.Sticky = 10 * time.Minute }, func(r muru.Route) string { return muru.FormatDuration(r.Sticky) }}
		must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{sticky}}))
		w.baseAndCandidate()
		w.canary()
		time.Sleep(time.Second)
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if r, _ := w.edge.Routing("shop"); len(r.Honoured) != 0 {
			t.Errorf("a candidate that was taken out is honoured: %v", r.Honoured)
		}
		w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
		until := time.Now().Add(10 * time.Minute)
		r, _ := w.edge.Routing("shop")
		if len(r.Honoured) != 1 || r.Honoured[0] != (muru.Honoured{Release: rel(1), Until: until}) || r.Backends[rel(1)] == nil {
			t.Errorf("honoured: %v", r.Honoured)
		}
		time.Sleep(10*time.Minute - time.Second)
		if drained.Load() != 0 || w.state(1) != muru.Draining {
			t.Errorf("drained in its grace; r1 is %s", w.state(1))
		}
		time.Sleep(2 * time.Second)
		if r, _ := w.edge.Routing("shop"); drained.Load() != 1 || w.state(1) != muru.Warm || len(r.Honoured) != 0 {
			t.Errorf("%d drains, r1 is %s, honoured %v", drained.Load(), w.state(1), r.Honoured)
		}
	})
}

func TestStickyRouteHonoursTheBaselineOfAStepAt100Percent(t *testing.T) {
	inWorld(t, func(w *world) {
		sticky := RouteChange{"sticky", func(r *muru.Route) { r.Sticky = 10 * time.Minute }, func(r muru.Route) string { return muru.FormatDuration(r.Sticky) }}
		must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{sticky}}))
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 10000, Hold: time.Minute}} })
		if r, _ := w.edge.Routing("shop"); len(r.Honoured) != 1 || r.Honoured[0].Release != rel(1) {
			t.Errorf("honoured: %v", r.Honoured)
		}
		w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if r, _ := w.edge.Routing("shop"); len(r.Honoured) != 0 {
			t.Errorf("honoured after the abort: %v", r.Honoured)
		}
	})
}

func TestEdgeIsSparedFactsThatNobodyWants(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		if w.edge.Sink("shop") != nil {
			t.Error("facts of an app that serves one release")
		}
		w.deploy(true) // may be tried next
		if w.edge.Sink("shop") == nil {
			t.Error("no facts for the minute before a rollout")
		}
		w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
		if w.edge.Sink("shop") != nil {
			t.Error("facts after the promotion")
		}
	})
}

func TestRoutesThatCannotBeToldApartAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		set := func(app string, hosts []string, path string) error {
			_, _, err := w.e.App(w.ctx, AppRequest{Caller: ana, Name: app, Change: []RouteChange{
				{"hosts", func(r *muru.Route) { r.Hosts = hosts }, func(r muru.Route) string { return fmt.Sprint(r.Hosts) }},
				{"path", func(r *muru.Route) { r.Path = path }, func(r muru.Route) string { return r.Path }},
			}})
			return err
		}
		w.deploy(false)
		_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "blog"})
		expectError(t, err, muru.KindRefused, "blog at */ overlaps shop at */")
		if _, err := w.e.AppNamed("blog"); muru.KindOf(err) != muru.KindNotFound {
			t.Errorf("the app was made all the same: %v", err)
		}
		if err := set("blog", []string{"blog.example"}, "/"); err != nil {
			t.Error(err)
		}
		if err := set("api", nil, "/api"); err != nil {
			t.Error(err)
		}
		expectError(t, set("api", []string{"BLOG.example"}, "/"), muru.KindRefused, "api at BLOG.example/ overlaps blog at blog.example/")
		if app, _ := w.e.AppNamed("api"); app.Route.Path != "/api" {
			t.Errorf("a refused change is in force: %v", app.Route)
		}
		if err := set("blog", []string{"b.example"}, "/"); err != nil {
			t.Error(err)
		}
		w.expectEvents("app.changed", "blog hosts: [blog.example] to [b.example] by ana")
		if err := set("Blog", nil, ""); muru.KindOf(err) != muru.KindUsage {
			t.Error(err)
		}
	})
}

func TestStopAppEndsEverythingUntilTheNextDeploy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.StopFunc = func(ctx context.Context, _ muru.ReleaseID) (muru.Drained, error) {
			return muru.Drained{}, Sleep(ctx, RealClock{}, 5*time.Second)
		}
		w.host.DrainFunc = drainTakes(time.Hour)
		w.deploy(false)
		w.deploy(false)
		w.deploy(true)
		w.canary(func(q *CanaryRequest) { q.Release = rel(3) })
		w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		go w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
		synctest.Wait()
		app, report, err := w.e.StopApp(w.ctx, ana, "shop")
		if err != nil || report != "shop stopped" || app.Baseline != 0 || len(app.Split.Arms) != 0 {
			t.Fatal(app, report, err)
		}
		if _, ok := w.edge.Routing("shop"); ok {
			t.Error("the edge still has its route")
		}
		w.expectEvents("app.stopped", "shop by ana: 4 releases")
		for n := range 4 {
			if w.state(n+1) != muru.Stopped {
				t.Errorf("r%d is %s", n+1, w.state(n+1))
			}
		}
		_, report, _ = w.e.StopApp(w.ctx, ana, "shop")
		if report != "shop is stopped already" {
			t.Error(report)
		}
		w.host.StartFunc = nil
		if id := w.deploy(false); id != rel(5) {
			t.Errorf("the next release is %s", id)
		}
		if _, ok := w.edge.Routing("shop"); !ok {
			t.Error("the edge has no route after the next deploy")
		}
	})
}

func TestSplitByHand(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		split := func(shares ...muru.SplitArm) (Report, error) {
			_, report, err := w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: shares})
			return report, err
		}
		report, err := split(muru.SplitArm{Release: rel(2), Share: 1000})
		if err != nil || report != "shop split: r1 90%, r2 10%" || w.state(2) != muru.Serving {
			t.Error(report, err, w.state(2))
		}
		_, err = split(muru.SplitArm{Release: rel(2), Share: 10100})
		expectError(t, err, muru.KindRefused, "the shares add up to 101%, over 100%")
		report, err = split(muru.SplitArm{Release: rel(2), Share: 0})
		if err != nil || report != "shop split: r1 100%, r2 0%" || w.state(2) != muru.Held {
			t.Error(report, err, w.state(2))
		}
		report, err = split()
		if err != nil || report != "shop split: r1 100%" {
			t.Error(report, err)
		}
		w.expectEvents("split.changed", "shop r1 90%, r2 10% by ana", "shop r1 100%, r2 0% by ana", "shop r1 100% by ana")
	})
}

func TestDeployThatFailsShowsTheWayOutThatTheHostKnows(t *testing.T) {
	inner := muru.Errorf(muru.KindNotReady, "no port is free").WithHint("set $PORT")
	for _, err := range []error{
		inner, fmt.Errorf("start worker 0: %w", inner),
		&muru.Error{Kind: muru.KindNotReady, Message: inner.Message, Detail: []string{"the end of its log"}, Err: inner},
	} {
		inWorld(t, func(w *world) {
			w.host.StartFunc = func(context.Context, muru.Release) (muru.Backend, error) { return nil, err }
			_, _, got := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
			expectHint(t, got, "set $PORT")
		})
	}
}
