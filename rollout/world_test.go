package rollout

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
	"muru/store"
)

// A world is an engine with fakes around it, in a synctest bubble.
type world struct {
	t    *testing.T
	ctx  context.Context
	edge *rollouttest.Edge
	host *rollouttest.Host
	log  *Log
	e    *Engine

	path  string // of the state file; empty: everything is in memory
	bolt  *store.Bolt
	wraps func(store.Store) store.Store // between engine and file; nil: nothing
}

// inWorld runs fn in a bubble whose time is virtual.
func inWorld(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ctx: t.Context(), edge: &rollouttest.Edge{}, host: &rollouttest.Host{}}
		w.log = NewLog(nil, 0)
		reporter := NewReporter(w.log)
		w.e = New(Options{Edge: w.edge, Host: w.host, Log: w.log, Reporter: reporter, Bug: panicked})
		fn(w)
		w.invariants()
		if err := w.e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// panicked is what tests do about illegal moves.
func panicked(message string) { panic(message) }

// invariants checks what must hold at all times.
func (w *world) invariants() {
	w.t.Helper()
	synctest.Wait()
	for _, app := range w.e.Apps() {
		live := 0
		rollouts, _ := w.e.Rollouts(app.Name)
		for _, r := range rollouts {
			if why, err := w.e.Why(context.Background(), r.Number); err != errClosed && (err != nil || !why.Reproduced()) {
				w.t.Errorf("why rollout %d: %v %s\n%s", r.Number, err, why.Head(), why.Foot())
			}
			if r.Live() && r.State != muru.Queued {
				live++
			}
		}
		if live > 1 {
			w.t.Errorf("%s has %d live rollouts", app.Name, live)
		}
		sum := muru.Share(0)
		for _, arm := range app.Split.Arms {
			sum += arm.Share
		}
		if len(app.Split.Arms) > 0 && sum != muru.Buckets {
			w.t.Errorf("%s: shares sum to %s", app.Name, sum)
		}
		routing, ok := w.edge.Routing(app.Name)
		if ok && fmt.Sprint(routing.Split) != fmt.Sprint(app.Split) {
			w.t.Errorf("the edge has %s of %s, the engine %s", routing.Split, app.Name, app.Split)
		}
		if !ok && len(app.Split.Arms) > 0 {
			w.t.Errorf("the edge lacks %s", app.Name)
		}
		releases, _ := w.e.Releases(app.Name)
		for _, r := range releases {
			if _, has := routing.Backends[r.ID]; ok && has && !r.State.Live() {
				w.t.Errorf("the edge has %s, which is %s", r.ID, r.State)
			}
			if r.Share > 0 && r.State != muru.Serving {
				w.t.Errorf("%s has %s and is %s", r.ID, r.Share, r.State)
			}
		}
	}
}

// drainTakes is a host whose drains take d.
func drainTakes(d time.Duration) func(context.Context, muru.ReleaseID) (muru.Drained, error) {
	return func(ctx context.Context, _ muru.ReleaseID) (muru.Drained, error) {
		return muru.Drained{Took: d}, Sleep(ctx, RealClock{}, d)
	}
}

// must fails the test at the first error.
func must[T any](t *testing.T) func(v T, report Report, err error) T {
	return func(v T, _ Report, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func rel(n int) muru.ReleaseID { return muru.ReleaseID{App: "shop", Number: n} }

var ana = Caller{By: "ana"}

// deploy deploys the next release of shop.
func (w *world) deploy(hold bool) muru.ReleaseID {
	w.t.Helper()
	plan := muru.ReleasePlan{Source: "/srv/shop", Workers: 2, Threads: 4, Timeouts: muru.DefaultTimeouts()}
	return must[muru.Release](w.t)(w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Plan: plan, Hold: hold})).ID
}

// baseAndCandidate leaves r1 serving and r2 held.
func (w *world) baseAndCandidate() {
	w.t.Helper()
	w.deploy(false)
	w.deploy(true)
}

// plan returns the plan of a rollout of r2: 10% and 50% for 30 s each.
func plan(change ...func(*CanaryRequest)) CanaryRequest {
	q := NewCanary(rel(2))
	q.Caller = ana
	for _, c := range change {
		c(&q)
	}
	return q
}

// canary starts a rollout.
func (w *world) canary(change ...func(*CanaryRequest)) muru.Rollout {
	w.t.Helper()
	return must[muru.Rollout](w.t)(w.e.Canary(w.ctx, plan(change...)))
}

// rollout returns a rollout after everything has come to rest.
func (w *world) rollout(n int) muru.Rollout {
	w.t.Helper()
	synctest.Wait()
	r, err := w.e.Rollout(n)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// expect checks a rollout's state and message.
func (w *world) expect(n int, state muru.RolloutState, message string) {
	w.t.Helper()
	r := w.rollout(n)
	if r.State != state || r.Message != message {
		w.t.Errorf("rollout %d is %s: %q, want %s: %q", n, r.State, r.Message, state, message)
	}
	w.invariants()
}

// state returns a release's state.
func (w *world) state(n int) muru.ReleaseState {
	w.t.Helper()
	synctest.Wait()
	r, err := w.e.Release(rel(n))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.State
}

// good sends well-answered requests to both arms.
func (w *world) good(n int) {
	w.edge.Send(rel(1), 9*n, 200, 10*time.Millisecond)
	w.edge.Send(rel(2), n, 200, 10*time.Millisecond)
}

// events returns "kind subject message" of every event of a kind.
func (w *world) events(kind string) []string {
	var all []string
	for _, e := range w.e.Events(EventQuery{Kind: kind}) {
		all = append(all, e.Subject+" "+e.Message)
	}
	return all
}

// expectEvents checks the events of a kind.
func (w *world) expectEvents(kind string, want ...string) {
	w.t.Helper()
	got := w.events(kind)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("%s:\ngot  %s\nwant %s", kind, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// expectError checks an error's kind and text.
func expectError(t *testing.T, err error, kind muru.ErrorKind, text string) {
	t.Helper()
	if err == nil || muru.KindOf(err) != kind || err.Error() != text {
		t.Errorf("error is %v (%v), want %v (%v)", err, muru.KindOf(err), text, kind)
	}
}

// byThreshold has the plain judge judge.
func byThreshold(q *CanaryRequest) { q.Judge = "threshold" }
