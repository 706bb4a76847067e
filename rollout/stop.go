package rollout

import (
	"context"

	"muru"
)

// StopRelease drains and ends a held, warm or failed release and returns when
// it has stopped. Errors: not_found; refused for a release that serves,
// drains, starts or is being tried.
func (e *Engine) StopRelease(ctx context.Context, q ReleaseRequest) (muru.Release, Report, error) {
	return once(e, q.Caller, func() (muru.Release, Report, error) {
		a, err := e.actorOf(q.Release.App)
		if err != nil {
			return muru.Release{}, "", err
		}
		report := reportStopped(q.Release.String())
		var gone <-chan struct{}
		err = a.ask(ctx, func() error {
			r, err := a.release(q.Release)
			if err != nil {
				return err
			}
			if r.State == muru.Stopped {
				report = reportStoppedAlready(q.Release.String())
				return nil
			}
			if err := a.mayStop(r); err != nil {
				return err
			}
			if r.stopping == nil {
				a.stopRelease(r, q.Caller)
			}
			gone = r.stopping
			return nil
		})
		if err != nil {
			return muru.Release{}, "", err
		}
		if err := a.waitFor(ctx, gone); err != nil {
			return muru.Release{}, "", err
		}
		if err := a.do(ctx, a.ahead); err != nil {
			return muru.Release{}, "", err
		}
		r, err := e.Release(q.Release)
		return r, report, err
	})
}

// waitFor waits until ch is closed; a nil ch is closed already.
func (a *actor) waitFor(ctx context.Context, ch <-chan struct{}) error {
	if ch == nil {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.e.ctx.Done():
		return errClosed
	}
}

// mayStop refuses to stop what is in use.
func (a *actor) mayStop(r *release) error {
	if a.live != nil && a.live.Candidate == r.ID {
		return muru.Errorf(muru.KindRefused, "%s is being tried by rollout %d", r.ID, a.live.Number).
			WithHint("muru rollout abort %s", a.name)
	}
	for _, l := range a.queue {
		if l.Candidate == r.ID {
			return muru.Errorf(muru.KindRefused, "%s is to be tried by rollout %d", r.ID, l.Number).
				WithHint("muru rollout abort %d", l.Number)
		}
	}
	switch r.State {
	case muru.Serving:
		return muru.Errorf(muru.KindRefused, "%s is serving", r.ID).WithHint("promote or roll back to another release first, or stop the app: muru stop %s", a.name)
	case muru.Draining, muru.Starting:
		return muru.Errorf(muru.KindRefused, "%s is %s: stop it when it is done", r.ID, r.State)
	}
	return nil
}

// stopRelease takes a release out of the table and stops it in the
// background.
func (a *actor) stopRelease(r *release, by Caller) {
	stopping := make(chan struct{})
	r.stopping = stopping
	started := r.started
	if r.backend == nil && r.cancel != nil {
		r.cancel() // it was being started again after a restart
	} else {
		started = nil
	}
	_ = a.commit(change{table: true})
	a.e.spawn(func() {
		_ = a.waitFor(a.e.ctx, started)
		_, err := a.e.host.Stop(a.e.ctx, r.ID)
		a.tell(func() {
			defer close(stopping)
			message := ""
			if err != nil {
				message = "stop: " + err.Error()
			}
			r.stopping, r.backend = nil, nil
			_ = a.commit(change{ // the workers are gone, whatever can be written
				moves:  []move{{release: r, to: muru.Stopped, message: message}},
				events: []muru.Event{a.event(muru.LevelNotice, muru.ReleaseStopped, r.ID.String(), by, eventStopped(by.who()))},
			})
		})
	})
}

// StopApp stops every release of an app and takes its route away until the
// next deploy; a live rollout is aborted. It returns when all have stopped.
func (e *Engine) StopApp(ctx context.Context, by Caller, app string) (muru.App, Report, error) {
	return once(e, by, func() (muru.App, Report, error) {
		a, err := e.actorOf(app)
		if err != nil {
			return muru.App{}, "", err
		}
		report := reportStoppedAlready(app)
		var starts, stops []<-chan struct{}
		err = a.urge(ctx, func() error {
			if a.running() {
				report = reportStopped(app)
				starts = a.switchOff(by)
				stops = a.stopIdle(by)
			}
			return nil
		})
		if err == nil {
			err = a.waitForAll(ctx, starts)
		}
		if err == nil {
			// What was starting has failed by now.
			err = a.do(ctx, func() error {
				if a.off {
					stops = append(stops, a.stopIdle(by)...)
				}
				return nil
			})
		}
		if err == nil {
			err = a.waitForAll(ctx, stops)
		}
		var snapshot muru.App
		if err == nil {
			err = a.do(ctx, func() error {
				if len(stops) > 0 {
					_ = a.commit(change{route: true, events: []muru.Event{
						a.event(muru.LevelNotice, muru.AppStopped, app, by, eventAppStopped(by.who(), len(stops))),
					}})
				}
				snapshot = a.snapshot()
				return a.ahead()
			})
		}
		return snapshot, report, err
	})
}

// waitForAll waits until every channel is closed.
func (a *actor) waitForAll(ctx context.Context, all []<-chan struct{}) error {
	for _, ch := range all {
		if err := a.waitFor(ctx, ch); err != nil {
			return err
		}
	}
	return nil
}

// running reports whether anything of the app runs, starts or has failed.
func (a *actor) running() bool {
	for _, r := range a.releases {
		if r.State != muru.Stopped {
			return true
		}
	}
	return false
}

// switchOff takes an app out of traffic, gives up what starts, and returns
// what to wait for until every release can be stopped.
func (a *actor) switchOff(by Caller) (starts []<-chan struct{}) {
	a.endQueue(by, "the app is stopped")
	if a.live != nil {
		a.abortLive(by, "the app is stopped")
	}
	a.off = true
	a.e.edge.Remove(a.name)
	a.forgetDrains()
	none := muru.Split{}
	c := change{split: &none}
	for _, r := range a.releases {
		switch r.State {
		case muru.Serving:
			c.moves = append(c.moves, move{release: r, to: muru.Held})
		case muru.Draining:
			c.moves = append(c.moves, move{release: r, to: muru.Warm})
		case muru.Starting:
			r.cancel()
			starts = append(starts, r.started)
		}
	}
	a.splitRun = 0
	_ = a.commit(c) // in urge
	return starts
}

// stopIdle begins to stop every release that neither serves nor starts, and
// returns what to wait for.
func (a *actor) stopIdle(by Caller) (stops []<-chan struct{}) {
	for _, r := range a.releases {
		if r.stopping == nil && (r.State == muru.Held || r.State == muru.Warm || r.State == muru.FailedToStart) {
			a.stopRelease(r, by)
			stops = append(stops, r.stopping)
		}
	}
	return stops
}
