package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
)

// startsTake makes every release take d to start.
func startsTake(w *world, d time.Duration) {
	w.host.StartFunc = func(ctx context.Context, _ muru.Release) (muru.Backend, error) {
		if err := Sleep(ctx, RealClock{}, d); err != nil {
			return nil, err
		}
		return rollouttest.Answering(200, ""), nil
	}
}

// inBackground makes a call that takes a while and returns how it will end.
func inBackground(call func() (Report, error)) (end func() (Report, error)) {
	var report Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = call()
	}()
	synctest.Wait()
	return func() (Report, error) { <-done; return report, err }
}

// deployIn begins to deploy the next release of shop.
func (w *world) deployIn() (end func() (Report, error)) {
	return inBackground(func() (Report, error) {
		_, report, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		return report, err
	})
}

const overtaken = "release shop@r3 is ready and held, not serving: shop was rolled back by ana while it started"

func TestRollbackIsNotUndoneByADeployThatIsStarting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		startsTake(w, 10*time.Second)
		deployed := w.deployIn() // r3
		now := time.Now()
		serving, report, err := w.rollback(RollbackRequest{Reason: "locks the database"})
		const want = "shop rolled back from r2 to r1: r1 serves 100%, r2 is kept for inspection\nrelease shop@r3 is starting still: it is held when it is ready"
		if err != nil || serving != rel(1) || report != want || !time.Now().Equal(now) {
			t.Error(serving, report, err)
		}
		report, err = deployed()
		expectError(t, err, muru.KindRefused, overtaken)
		expectHint(t, err, "muru promote shop@r3")
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 100%" || w.state(3) != muru.Held || report != "" {
			t.Errorf("%s, r3 is %s, %q", app.Split, w.state(3), report)
		}
		w.expectEvents("release.held", "shop@r3 ready and held: not serving: shop was rolled back by ana while it started")
		if _, _, err := w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(3)}); err != nil {
			t.Error(err)
		}
	})
}

func TestRollbackToAStoppedReleaseWaitsForNoDeploy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(1)}))
		startsTake(w, 10*time.Second)
		deployed := w.deployIn() // r3
		w.host.StartFunc = nil
		now := time.Now()
		serving, report, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(1) || !time.Now().Equal(now) {
			t.Error(serving, report, err, time.Since(now))
		}
		_, err = deployed()
		expectError(t, err, muru.KindRefused, overtaken)
		if w.state(1) != muru.Serving {
			t.Errorf("r1 is %s", w.state(1))
		}
	})
}

func TestRollbackOfAReleaseThatIsStartingHasItHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		startsTake(w, 10*time.Second)
		deployed := w.deployIn() // r3
		serving, report, err := w.rollback(RollbackRequest{Release: rel(3)})
		if err != nil || serving != rel(2) || report != "release shop@r3 is starting still: it is held when it is ready" {
			t.Error(serving, report, err)
		}
		_, err = deployed()
		expectError(t, err, muru.KindRefused, overtaken)
		if w.state(2) != muru.Serving || w.state(3) != muru.Held {
			t.Errorf("r2 is %s, r3 %s", w.state(2), w.state(3))
		}
	})
}

func TestRollbackThatChangesNothingLeavesADeployAlone(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    RollbackRequest
		ok   bool
	}{
		{"of a release that does not serve", RollbackRequest{Release: rel(1)}, true},
		{"to a release that there is none of", RollbackRequest{To: rel(9)}, false},
		{"with nothing to go back to", RollbackRequest{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deploy(true)
				w.deploy(false)
				startsTake(w, 10*time.Second)
				deployed := w.deployIn() // r3
				if _, report, err := w.rollback(tt.q); (err == nil) != tt.ok {
					t.Error(report, err)
				}
				if _, err := deployed(); err != nil || w.state(3) != muru.Serving {
					t.Errorf("r3 is %s, %v", w.state(3), err)
				}
			})
		})
	}
}

func TestRollbackOfSharesSetByHandIsNotUndoneByADeployThatIsStarting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		must[muru.App](t)(w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(2), Share: 2000}}}))
		startsTake(w, 10*time.Second)
		deployed := w.deployIn() // r3
		if serving, report, err := w.rollback(RollbackRequest{}); err != nil || serving != rel(1) {
			t.Error(serving, report, err)
		}
		_, err := deployed()
		expectError(t, err, muru.KindRefused, overtaken)
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 100%" {
			t.Error(app.Split)
		}
	})
}

func TestTwoRollbacksToAStoppedReleaseShareItsStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(1)}))
		startsTake(w, 10*time.Second)
		rollback := func(ctx context.Context) func() (Report, error) {
			return inBackground(func() (Report, error) {
				_, report, err := w.e.Rollback(ctx, RollbackRequest{Caller: ana, App: "shop"})
				return report, err
			})
		}
		first := rollback(w.ctx)
		hurried, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		second, third := rollback(hurried), rollback(w.ctx)
		if _, err := second(); err == nil {
			t.Error("it waited on")
		}
		for _, end := range []func() (Report, error){first, third} {
			if report, err := end(); err != nil || report != "shop rolled back from r2 to r1: r1 serves 100%, r2 is kept for inspection" {
				t.Error(report, err)
			}
		}
		w.expectEvents("app.rolled_back", "shop from r2 to r1 by ana")
	})
}

func TestNewerRollbackWinsOverOneThatIsStartingItsRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 3 {
			w.deploy(false)
			time.Sleep(time.Second)
		}
		w.state(1) // r2 is warm, r1 has been stopped
		startsTake(w, 10*time.Second)
		older := inBackground(func() (Report, error) {
			_, report, err := w.rollback(RollbackRequest{To: rel(1)})
			return report, err
		})
		serving, report, err := w.rollback(RollbackRequest{})
		if err != nil || serving != rel(2) {
			t.Error(serving, report, err)
		}
		_, err = older()
		expectError(t, err, muru.KindRefused, "release shop@r1 is ready and held, not serving: shop was rolled back by ana while it started")
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r2 100%" {
			t.Error(app.Split)
		}
	})
}

// expectHint checks the way out that an error shows.
func expectHint(t *testing.T, err error, hint string) {
	t.Helper()
	if told, ok := err.(*muru.Error); !ok || told.Hint != hint {
		t.Errorf("the hint of %#v is not %q", err, hint)
	}
}
