package rollout

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"muru"
)

// An actor owns one app: its releases, its split and its rollout. All of its
// state below the line belongs to its goroutine; calls are funcs sent to it
// and run one after the other, so "one rollout per app" needs no lock. It
// waits for its mail and, when it has changed something that people are told
// of, for the disk: what else takes time (start, drain, stop, gates' functions,
// writing how far a rollout is) runs elsewhere and comes back as mail.
type actor struct {
	e    *Engine
	name string
	mail chan func()
	wake chan struct{} // capacity 1: look at the rollout now
	quit chan struct{} // closed when the app could not be made
	feed *feed
	view atomic.Pointer[view]

	// ---- owned by the goroutine ----

	route      muru.Route
	generation uint64
	split      muru.Split
	splitRun   int // the run that set the shares by hand, 0: none
	off        bool
	releases   []*release // by number; old ones may be gone
	last       int        // the newest release's number
	history    []int      // baselines in the order they served, the present one last
	regretted  map[int]bool
	reverted   reverted // the last rollback
	honoured   map[int]time.Time
	drains     map[int]context.CancelFunc
	changing   *release // a release whose start will take all traffic
	live       *live
	queue      []*live       // rollouts that wait for the live one to end
	past       map[int]*live // those that have ended: their plans, and what their gates said
	ended      []muru.Rollout
	lookAt     time.Time
	dirty      dirty     // what the store has not got yet
	later      *parcel   // what is being written in the background, nil: nothing
	triedAt    time.Time // when it was last tried to write
	before     *image    // what to go back to if the call of now cannot be written
}

// reverted is the last rollback of the app, which guards the next.
type reverted struct {
	at time.Time
	to int
	by string
}

// A release is the actor's record of one: its public part (Share is filled in
// by snapshots) and what it takes to run it.
type release struct {
	muru.Release
	backend muru.Backend
	hold    bool               // asked to be held
	caller  Caller             // who deployed it
	cancel  context.CancelFunc // of its start
	started chan struct{}      // closed when its start is over
	again   context.Context    // of its start after a restart of muru; cancel ends it
	err     error              // how that went
	report  Report
	// overtaken says why it does not take the traffic it was started for; empty:
	// it does.
	overtaken string
	stopping  chan struct{} // not nil while it is being stopped; closed when it is
}

// view is what can be read of an app without asking its actor. It is
// immutable; changed is closed when the next one is there.
type view struct {
	app      muru.App
	releases []muru.Release // by number
	last     int            // the newest release's number
	rollouts []muru.Rollout // oldest first
	changed  chan struct{}
}

func newActor(e *Engine, route muru.Route) *actor {
	a := &actor{
		e: e, name: route.App, mail: make(chan func()), wake: make(chan struct{}, 1), quit: make(chan struct{}), feed: newFeed(),
		route: route, regretted: map[int]bool{}, honoured: map[int]time.Time{}, drains: map[int]context.CancelFunc{},
		dirty: newDirty(), past: map[int]*live{},
	}
	a.view.Store(&view{app: muru.App{Name: route.App, Route: route}, changed: make(chan struct{})})
	return a
}

// run is the actor's goroutine.
func (a *actor) run() {
	for {
		a.startNext()
		var tick, retry <-chan time.Time
		stop, stopRetry := func() {}, func() {}
		if a.live != nil {
			tick, stop = a.e.clock.After(max(0, a.lookAt.Sub(a.e.clock.Now())))
		}
		var saved <-chan struct{}
		if a.later != nil {
			saved = a.later.done
		} else if a.dirty.any() {
			retry, stopRetry = RealClock{}.After(max(0, retryEvery-time.Since(a.triedAt)))
		}
		select {
		case fn := <-a.mail:
			fn()
		case <-a.wake:
			a.look()
		case <-tick:
			a.look()
		case <-saved:
			a.settle()
		case <-retry:
			a.saveLater()
		case <-a.quit:
			stop()
			stopRetry()
			return
		case <-a.e.ctx.Done():
			stop()
			stopRetry()
			a.close()
			return
		}
		stop()
		stopRetry()
	}
}

// close ends what the actor has started, and writes how far its rollout is.
func (a *actor) close() {
	if a.live != nil {
		a.dirty.rollouts[a.live.Number] = a.live
	}
	a.settle()
	if a.dirty.any() {
		_ = a.saveDirty(nil) // a restart goes on from what is on disk
	}
	if a.live != nil {
		a.live.examiner.end()
	}
	for _, cancel := range a.drains {
		cancel()
	}
}

// nudge makes the actor look at its rollout soon. It never waits.
func (a *actor) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// do runs fn on the actor's goroutine and returns its error. Once fn has been
// taken it runs to its end, whatever becomes of ctx.
func (a *actor) do(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	select {
	case a.mail <- func() { done <- fn() }:
		return <-done
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.quit:
		return muru.Errorf(muru.KindNotFound, "no app is called %q", a.name)
	case <-a.e.ctx.Done():
		return errClosed
	}
}

// tell runs fn on the actor's goroutine, for what comes back from elsewhere.
// It waits until it has run; it does nothing once the engine is closing.
func (a *actor) tell(fn func()) {
	_ = a.do(a.e.ctx, func() error { fn(); return nil })
}

// release returns the record of a release, or an error of kind not_found.
func (a *actor) release(id muru.ReleaseID) (*release, error) {
	if r := a.numbered(id.Number); r != nil {
		return r, nil
	}
	return nil, noRelease(id, a.last)
}

// numbered returns the record of a release; nil if there is none.
func (a *actor) numbered(n int) *release {
	i, ok := slices.BinarySearchFunc(a.releases, n, func(r *release, n int) int { return r.ID.Number - n })
	if !ok {
		return nil
	}
	return a.releases[i]
}

// noRelease says that a release does not exist, and which does.
func noRelease(id muru.ReleaseID, newest int) *muru.Error {
	err := muru.Errorf(muru.KindNotFound, "%s has no release %s", id.App, id.Name())
	switch {
	case id.Number >= 1 && id.Number <= newest:
		return muru.Errorf(muru.KindNotFound, "%s is gone: muru keeps a number of stopped releases only", id)
	case newest == 0:
		return err.WithHint("muru deploy %s DIRECTORY", id.App)
	}
	return err.WithHint("did you mean %q?", muru.ReleaseID{App: id.App, Number: newest}.String())
}

// baseline returns the release that serves the rest; nil when nothing serves.
func (a *actor) baseline() *release {
	return a.numbered(a.split.Baseline().Number)
}

// event makes an event of this app. Data names the run and the rollout.
func (a *actor) event(level muru.Level, kind, subject string, by Caller, message string) muru.Event {
	e := muru.Event{Level: level, Kind: kind, Subject: subject, Message: message, By: by.By}
	if by.Run != 0 {
		e.Data = map[string]any{"run": by.Run}
	}
	return e
}

// who is the caller's name for texts.
func (c Caller) who() string {
	switch {
	case c.By != "":
		return c.By
	case c.Run != 0:
		return "run " + strconv.Itoa(c.Run)
	}
	return muruItself.By
}

// muruItself is who acts when nobody asked.
var muruItself = Caller{By: "muru"}
