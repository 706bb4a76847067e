package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muru"
	"muru/rollout/rollouttest"
)

func TestPlanWithoutAHoldHasTheDefaultOneAndSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary() // steps are all that a plan must have, and NewCanary gives them holds
		w.good(200)
		time.Sleep(29 * time.Second)
		if r := w.rollout(1); r.Step.Number != 1 || r.Step.String() != "step 1 of 2: 10% for 30s" {
			t.Errorf("after 29 s it is in %s", r.Step)
		}
		w.good(20)
		time.Sleep(2 * time.Second)
		if r := w.rollout(1); r.Step == nil || r.Step.Number != 2 {
			t.Errorf("after 31 s it is in %s", r.Step)
		}
		if got := w.events("rollout.started"); len(got) != 1 || !strings.Contains(got[0], "10% for 30s") {
			t.Errorf("the plan is told as %q", got)
		}
	})
}

func TestStepWithoutAHoldStillNeedsItsRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.MinRequests, q.Steps = 10, []muru.Step{{Share: 1000}, {Share: 5000}}
		})
		time.Sleep(time.Minute)
		if r := w.rollout(1); r.State != muru.Running || r.Step.Number != 1 {
			t.Fatalf("%s in %v with no request at all", r.State, r.Step)
		}
		w.good(9)
		time.Sleep(5 * time.Second)
		if r := w.rollout(1); r.Step.Number != 1 {
			t.Errorf("in %v with 9 of 10 requests", r.Step)
		}
		w.good(1)
		time.Sleep(2 * time.Second)
		if r := w.rollout(1); r.Step.Number != 2 {
			t.Errorf("in %v with all its requests", r.Step)
		}
	})
}

func TestDefaultGatesNeedNoStoreAndNoFunction(t *testing.T) {
	inWorld(t, func(w *world) {
		var asked atomic.Int32
		w.e.query = func(context.Context, string, string) (float64, bool, error) {
			asked.Add(1)
			return 0, false, nil
		}
		w.baseAndCandidate()
		w.canary()
		for range 80 {
			w.good(20)
			time.Sleep(900 * time.Millisecond)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
		if n := asked.Load(); n != 0 {
			t.Errorf("a store was asked %d times", n)
		}
		for _, g := range w.rollout(1).Gates {
			if g.Kind != muru.GateBuiltin {
				t.Errorf("%s is a %s gate", g.Name, g.Kind)
			}
		}
	})
}

// sticky makes shop's clients keep their release for ten minutes.
func (w *world) sticky() {
	w.t.Helper()
	change := RouteChange{"sticky", func(r *muru.Route) { r.Sticky = 10 * time.Minute }, func(r muru.Route) string { return muru.FormatDuration(r.Sticky) }}
	must[muru.App](w.t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{change}}))
}

// honours reports whether the edge sends anybody to a release: by its share,
// or because a cookie names it.
func (w *world) honours(id muru.ReleaseID) bool {
	r, _ := w.edge.Routing(id.App)
	share, _ := r.Split.Share(id)
	return share > 0 || slices.ContainsFunc(r.Honoured, func(h muru.Honoured) bool { return h.Release == id })
}

// TestNoCookieOutlivesACandidateThatWasTakenOut: however it is taken out, also
// after a step with all traffic and after its promotion.
func TestNoCookieOutlivesACandidateThatWasTakenOut(t *testing.T) {
	all := func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: muru.Buckets, Hold: time.Minute}} }
	for _, tt := range []struct {
		name string
		plan func(*CanaryRequest)
		out  func(w *world)
	}{
		{"abort", nil, func(w *world) { w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}) }},
		{"abort at 100%", all, func(w *world) { w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}) }},
		{"crash", nil, func(w *world) { w.e.Harm(rel(2), muru.HarmCrash) }},
		{"crash at 100%", all, func(w *world) { w.e.Harm(rel(2), muru.HarmCrash) }},
		{"rollback after promotion", nil, func(w *world) {
			must[muru.Release](w.t)(w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)}))
			must[muru.Release](w.t)(w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"}))
		}},
		{"another rollout takes its place", nil, func(w *world) {
			w.deploy(true)
			must[muru.Rollout](w.t)(w.e.Canary(w.ctx, plan(func(q *CanaryRequest) { q.Release, q.OnConflict = rel(3), ConflictSupersede })))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.sticky()
				w.baseAndCandidate()
				if tt.plan == nil {
					tt.plan = func(*CanaryRequest) {}
				}
				w.canary(tt.plan)
				time.Sleep(time.Second)
				if !w.honours(rel(2)) {
					t.Fatal("it was never in")
				}
				tt.out(w)
				w.state(2)
				if w.honours(rel(2)) {
					t.Error("its clients stay on it")
				}
			})
		})
	}
}

// TestCandidateLeavesTheTableBeforeItsProcessesAreTouched: an abort leaves
// them alone, and who stops them afterwards stops what nobody is sent to.
func TestCandidateLeavesTheTableBeforeItsProcessesAreTouched(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		var touched []string
		touch := func(what string) func(context.Context, muru.ReleaseID) (muru.Drained, error) {
			return func(_ context.Context, id muru.ReleaseID) (muru.Drained, error) {
				r, _ := w.edge.Routing("shop")
				_, routed := r.Backends[id]
				mu.Lock()
				defer mu.Unlock()
				touched = append(touched, fmt.Sprintf("%s %s, in the table: %t", what, id.Name(), routed))
				return muru.Drained{}, nil
			}
		}
		w.host.StopFunc, w.host.DrainFunc = touch("stop"), touch("drain")
		w.baseAndCandidate()
		w.canary()
		time.Sleep(time.Second)
		must[muru.Rollout](t)(w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}))
		time.Sleep(time.Hour)
		if w.state(2) != muru.Held || len(touched) > 0 {
			t.Errorf("r2 is %s after %q", w.state(2), touched)
		}
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)}))
		if got := strings.Join(touched, "; "); got != "stop r2, in the table: false" {
			t.Error(got)
		}
	})
}

// TestAbortIsAcceptedInEveryStateARolloutCanLiveIn, also while the candidate
// is not ready, and takes the candidate out in the same instant.
func TestAbortIsAcceptedInEveryStateARolloutCanLiveIn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state muru.RolloutState
		enter func(w *world)
		says  string
	}{
		{"first step", muru.Running, func(w *world) { w.canary() }, "by ana at 10%"},
		{"dark step", muru.Running, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 0, Hold: time.Hour}} })
		}, "by ana at 0%"},
		{"step with all traffic", muru.Running, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: muru.Buckets, Hold: time.Hour}} })
		}, "by ana at 100%"},
		{"candidate never ready", muru.Running, func(w *world) {
			w.host.ReadyFunc = func(id muru.ReleaseID) bool { return id != rel(2) }
			w.canary()
		}, "by ana at 0%"},
		{"candidate not ready any more", muru.Running, func(w *world) {
			var down atomic.Bool
			w.host.ReadyFunc = func(id muru.ReleaseID) bool { return id != rel(2) || !down.Load() }
			w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: muru.Buckets, Hold: time.Hour}} })
			down.Store(true)
		}, "by ana at 100%"},
		{"paused", muru.Paused, func(w *world) {
			w.canary()
			must[muru.Rollout](w.t)(w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}))
		}, "by ana at 10%"},
		{"frozen", muru.Paused, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.OnFail = OnFailFreeze })
			w.e.Harm(rel(2), muru.HarmCrash)
		}, "by ana at 10%"},
		{"awaiting approval", muru.AwaitingApproval, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.Approve = muru.ApproveAll })
			w.good(100)
			time.Sleep(31 * time.Second)
		}, "by ana at 10%"},
		{"without data", muru.AwaitingApproval, func(w *world) {
			w.canary()
			time.Sleep(time.Hour)
		}, "by ana at 10%"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.baseAndCandidate()
				tt.enter(w)
				if got := w.rollout(1).State; got != tt.state {
					t.Fatalf("it is %s", got)
				}
				now := time.Now()
				must[muru.Rollout](t)(w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1}))
				if r, _ := w.edge.Routing("shop"); r.Split.String() != "r1 100%" || !time.Now().Equal(now) {
					t.Errorf("the edge has %s after %s", r.Split, time.Since(now))
				}
				w.expect(1, muru.Aborted, tt.says)
			})
		})
	}
	t.Run("queued", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.deploy(true)
			w.canary()
			w.canary(func(q *CanaryRequest) { q.Release, q.OnConflict = rel(3), ConflictQueue })
			must[muru.Rollout](t)(w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 2}))
			w.expect(2, muru.Aborted, "by ana at 0%")
			w.expect(1, muru.Running, "")
		})
	})
}

// TestBaselineKeepsEveryWorkerUntilItIsWarm: it could take all traffic back at
// any moment of a rollout, and does not start anew for it after the promotion.
func TestBaselineKeepsEveryWorkerUntilItIsWarm(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		var touched []string
		touch := func(what string) func(context.Context, muru.ReleaseID) (muru.Drained, error) {
			return func(_ context.Context, id muru.ReleaseID) (muru.Drained, error) {
				mu.Lock()
				defer mu.Unlock()
				touched = append(touched, what+" "+id.Name())
				return muru.Drained{}, nil
			}
		}
		w.host.StopFunc, w.host.DrainFunc = touch("stop"), touch("drain")
		var started []string
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, fmt.Sprintf("%s with %d workers", r.ID.Name(), r.Workers))
			return rollouttest.Answering(200, ""), nil
		}
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 5000, Hold: 30 * time.Second}, {Share: muru.Buckets, Hold: 30 * time.Second}}
		})
		for range 100 {
			r := w.rollout(1)
			if !r.Live() {
				break
			}
			routing, _ := w.edge.Routing("shop")
			if w.state(1) != muru.Serving || routing.Backends[rel(1)] == nil || len(touched) > 0 {
				t.Fatalf("in %v r1 is %s, %q", r.Step, w.state(1), touched)
			}
			w.edge.Send(rel(2), 20, 200, time.Millisecond)
			if routing.Split.Divided() {
				w.edge.Send(rel(1), 20, 200, time.Millisecond)
			}
			time.Sleep(900 * time.Millisecond)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
		time.Sleep(24 * time.Hour)
		if got := strings.Join(touched, ", "); w.state(1) != muru.Warm || got != "drain r1" {
			t.Errorf("r1 is %s after %s", w.state(1), got)
		}
		must[muru.Release](t)(w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"}))
		if got := strings.Join(started, ", "); w.state(1) != muru.Serving || got != "r1 with 2 workers, r2 with 2 workers" {
			t.Errorf("r1 is %s; started were %s", w.state(1), got)
		}
	})
}

func TestRollbackAfterAPromotionAsksNoGateAndStartsNoRollout(t *testing.T) {
	inWorld(t, func(w *world) {
		var asked atomic.Int32
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "carts", Kind: muru.GateCheck, Check: func(context.Context, muru.Window) (bool, string, error) {
				asked.Add(1)
				return true, "", nil
			}}}
		})
		for range 80 {
			w.good(20)
			time.Sleep(900 * time.Millisecond)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
		before, now := asked.Load(), time.Now()
		serving, _, err := w.rollback(RollbackRequest{})
		routing, _ := w.edge.Routing("shop")
		if err != nil || serving != rel(1) || routing.Split.String() != "r1 100%" || !time.Now().Equal(now) {
			t.Errorf("%s serves, the edge has %s, %v, after %s", serving, routing.Split, err, time.Since(now))
		}
		time.Sleep(time.Minute)
		rollouts, _ := w.e.Rollouts("shop")
		if before == 0 || asked.Load() != before || len(rollouts) != 1 {
			t.Errorf("the gate was asked %d times before and %d times after; %d rollouts", before, asked.Load(), len(rollouts))
		}
	})
}

func TestRollbackToAStoppedReleaseSwitchesWhenItIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false)
		time.Sleep(time.Second)
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(1)}))
		startsTake(w, 5*time.Second)
		end := inBackground(func() (Report, error) {
			_, report, err := w.rollback(RollbackRequest{})
			return report, err
		})
		time.Sleep(4 * time.Second)
		if r, _ := w.edge.Routing("shop"); r.Split.String() != "r2 100%" || w.state(2) != muru.Serving {
			t.Errorf("while r1 starts the edge has %s, r2 is %s", r.Split, w.state(2))
		}
		if _, err := end(); err != nil {
			t.Error(err)
		}
		if r, _ := w.edge.Routing("shop"); r.Split.String() != "r1 100%" || w.state(1) != muru.Serving || w.state(2) != muru.Held {
			t.Errorf("the edge has %s, r1 is %s, r2 %s", r.Split, w.state(1), w.state(2))
		}
	})
}
