package rollout

import (
	"context"
	"errors"

	"muru"
)

// detailMax is how many lines of its log a release that failed to start shows.
const detailMax = 10

// Deploy starts an app's next release and returns when it is ready: held, or
// serving everything with the old one drained in the background and kept warm.
// An unknown app is created with the default route. While a release starts
// the app goes on as it was and takes other calls.
//
// Errors: not_ready (it did not start; the message says what serves), refused
// (a rollout is live, or another release is about to take all traffic;
// neither matters to a release that is held; or the app was rolled back while
// the release started, which is held then), usage. When ctx ends first the
// start is given up and the release has failed.
func (e *Engine) Deploy(ctx context.Context, q DeployRequest) (muru.Release, Report, error) {
	r, ok := again[*release](e, q.Caller)
	var a *actor
	var err error
	if ok {
		a, err = e.actorOf(r.ID.App)
	} else if a, _, err = e.create(q.App, q.Caller, nil); err == nil {
		r, err = a.deployInTurn(ctx, q)
	}
	if err != nil {
		return muru.Release{}, "", err
	}
	return a.awaitStart(ctx, r, true)
}

// deployInTurn deploys, after the rollouts that are live or wait if the
// request says so.
func (a *actor) deployInTurn(ctx context.Context, q DeployRequest) (r *release, err error) {
	for {
		var ahead <-chan struct{}
		err = a.ask(ctx, func() (err error) {
			if q.OnConflict == ConflictQueue && !q.Hold && (a.live != nil || len(a.queue) > 0) {
				ahead = a.view.Load().changed
				return nil
			}
			r, err = a.deploy(q)
			return err
		})
		if err != nil || ahead == nil {
			return r, err
		}
		if err := a.waitFor(ctx, ahead); err != nil {
			return nil, err
		}
	}
}

// awaitStart waits until a release has started or failed to. When ctx ends
// first, giveUp ends the start too.
func (a *actor) awaitStart(ctx context.Context, r *release, giveUp bool) (muru.Release, Report, error) {
	var started <-chan struct{}
	var cancel context.CancelFunc
	if err := a.do(ctx, func() error {
		started, cancel = r.started, r.cancel
		return nil
	}); err != nil {
		return muru.Release{}, "", err
	}
	if err := a.waitFor(ctx, started); err != nil {
		if giveUp {
			cancel()
		}
		return muru.Release{}, "", err
	}
	var snapshot muru.Release
	var report Report
	err := a.do(ctx, func() error {
		snapshot, report = a.snapshotOf(r), r.report
		if r.err != nil {
			return r.err
		}
		return a.ahead()
	})
	if err != nil {
		return snapshot, "", err
	}
	return snapshot, report, nil
}

// deploy makes the next release and begins to start it.
func (a *actor) deploy(q DeployRequest) (*release, error) {
	if !q.Hold {
		if q.OnConflict == ConflictSupersede && a.live != nil {
			next := muru.ReleaseID{App: a.name, Number: a.last + 1}
			if err := a.supersede(q.Caller, next.String()); err != nil {
				return nil, err
			}
		}
		if err := a.refuseWhileBusy(hintConflict); err != nil {
			return nil, err
		}
	}
	r := &release{
		Release: muru.Release{
			ID:          muru.ReleaseID{App: a.name, Number: a.last + 1},
			ReleasePlan: q.Plan, Created: a.e.clock.Now(), By: q.who(),
		},
		hold: q.Hold, caller: q.Caller,
	}
	a.releases = append(a.releases, r)
	a.last = r.ID.Number
	if !q.Hold {
		a.changing = r
	}
	if err := a.start(r, q.Caller, change{made: r}, func() { a.takeUp(r) }); err != nil {
		return nil, err
	}
	remember(a.e, q.Caller, r)
	return r, nil
}

// refuseWhileBusy refuses what would change the split while a rollout is live
// or a release is about to take all traffic; hint says what helps against a
// rollout.
func (a *actor) refuseWhileBusy(hint func(app string) string) error {
	if a.live != nil {
		return muru.Errorf(muru.KindRefused, "%s", textLive(a.name, a.live.Rollout)).WithHint("%s", hint(a.name))
	}
	if a.changing != nil {
		return muru.Errorf(muru.KindRefused, "%s is starting and takes all traffic of %s when it is ready: refused", a.changing.ID, a.name)
	}
	return nil
}

// start begins to start a release, new or stopped, as a part of change c; ready
// runs on the actor's goroutine when it is.
func (a *actor) start(r *release, by Caller, c change, ready func()) error {
	c.events = append(c.events, a.event(muru.LevelNotice, muru.ReleaseStarting, r.ID.String(), by, eventStarting(r.ReleasePlan)))
	if err := a.commit(c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.e.ctx)
	r.cancel, r.started, r.err, r.report, r.overtaken = cancel, make(chan struct{}), nil, "", ""
	plan := a.snapshotOf(r)
	started := r.started
	a.e.spawn(func() {
		defer cancel()
		backend, err := a.e.host.Start(ctx, plan)
		if err == nil && ctx.Err() != nil {
			// It started in the moment it was given up: nobody wants it.
			_, _ = a.e.host.Stop(a.e.ctx, r.ID)
			err = ctx.Err()
		}
		a.tell(func() {
			defer close(started)
			if a.changing == r {
				a.changing = nil
			}
			if err != nil {
				a.startFailed(r, by, err)
				return
			}
			r.backend = backend
			a.off = false
			ready()
		})
	})
	return nil
}

// startFailed files a release that did not start.
func (a *actor) startFailed(r *release, by Caller, err error) {
	cause := err.Error()
	if errors.Is(err, context.Canceled) {
		cause = "it was cancelled"
	}
	baseline := a.split.Baseline()
	failed := muru.Errorf(muru.KindNotReady, "%s", textFailedToStart(r.ID, cause, baseline))
	failed.Err, failed.Hint = err, hintOf(err)
	if told, ok := errors.AsType[*muru.Error](err); ok {
		failed.Detail = told.Detail[max(0, len(told.Detail)-detailMax):]
	}
	r.err = failed
	_ = a.commit(change{ // nobody asked
		moves: []move{{release: r, to: muru.FailedToStart, message: eventFailedToStart(cause)}},
		events: []muru.Event{
			a.event(muru.LevelError, muru.ReleaseFailed, r.ID.String(), by, eventFailedToStart(cause)),
		},
	})
}

// hintOf returns the way out that an error, or the nearest of its causes with
// one, shows.
func hintOf(err error) string {
	for err != nil {
		told, ok := errors.AsType[*muru.Error](err)
		if !ok {
			break
		}
		if told.Hint != "" {
			return told.Hint
		}
		err = told.Err
	}
	return ""
}

// takeUp holds a release that is ready, or gives it all traffic.
func (a *actor) takeUp(r *release) {
	if r.overtaken != "" {
		a.heldBack(r, r.caller)
		return
	}
	if r.hold {
		r.report = reportHeld(r.ID)
		_ = a.commit(change{ // nobody asks now
			moves:  []move{{release: r, to: muru.Held}},
			events: []muru.Event{a.event(muru.LevelNotice, muru.ReleaseHeld, r.ID.String(), r.caller, eventHeld)},
		})
		return
	}
	old, _ := a.serveAll(r, r.caller, "", nil) // nobody asks now
	r.report = reportServing(r.ID, old)
}
