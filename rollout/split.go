package rollout

import (
	"context"

	"muru"
)

// Split sets shares by hand; the rest is the baseline's, and no shares give
// everything back. A release with a share of 0 is reachable by preview only.
// Releases that lose their share are held. Errors: not_found; refused while a
// rollout is live, for a release that is not ready, for shares over 100%.
func (e *Engine) Split(ctx context.Context, q SplitRequest) (muru.App, Report, error) {
	return once(e, q.Caller, func() (muru.App, Report, error) {
		a, err := e.actorOf(q.App)
		if err != nil {
			return muru.App{}, "", err
		}
		var app muru.App
		err = a.ask(ctx, func() error {
			err := a.splitByHand(q)
			app = a.snapshot()
			return err
		})
		if err != nil {
			return app, "", err
		}
		return app, reportSplit(q.App, app.Split), nil
	})
}

func (a *actor) splitByHand(q SplitRequest) error {
	if err := a.refuseWhileBusy(hintLive); err != nil {
		return err
	}
	base := a.baseline()
	if base == nil {
		return muru.Errorf(muru.KindRefused, "nothing serves %s: there is nothing to split", a.name).
			WithHint("promote a release first: muru promote %s@rN", a.name)
	}
	for _, arm := range q.Shares {
		r, err := a.release(arm.Release)
		if err != nil {
			return err
		}
		if err := mayServe(r); err != nil {
			return err
		}
	}
	next, err := muru.NewSplit(handSalt, base.ID, q.Shares...)
	if err != nil {
		return asRefused(err)
	}
	if next.String() == a.split.String() {
		return nil
	}
	return a.setSplit(next, q.Caller)
}

// setSplit puts shares made by hand in force.
func (a *actor) setSplit(next muru.Split, by Caller) error {
	a.splitRun = by.Run
	if len(next.Arms) == 1 {
		a.splitRun, next.Salt = 0, ""
	}
	moves := a.leaving(next, muru.Held, "")
	a.endGrace(moves)
	return a.commit(change{split: &next, moves: moves, events: []muru.Event{
		a.event(muru.LevelNotice, muru.SplitChanged, a.name, by, eventSplitChanged(next, by.who())),
	}})
}

// mayServe refuses traffic to a release without workers.
func mayServe(r *release) error {
	if !r.State.Live() || r.stopping != nil || r.backend == nil {
		state := r.State.String()
		hint := "deploy its source again: muru deploy " + r.ID.App + " DIRECTORY --hold"
		switch {
		case r.stopping != nil:
			state = "being stopped"
		case r.State.Live():
			state, hint = "starting again", "ask again in a moment: muru status "+r.ID.App
		}
		return muru.Errorf(muru.KindRefused, "%s is %s: it is not ready to serve", r.ID, state).
			WithHint("%s", hint)
	}
	return nil
}

// Promote gives a release all traffic now: routing only, no gates. A live
// rollout of that release ends promoted. Errors: not_found; refused while
// another release's rollout is live or for a release that is not ready.
func (e *Engine) Promote(ctx context.Context, q ReleaseRequest) (muru.Release, Report, error) {
	return once(e, q.Caller, func() (muru.Release, Report, error) {
		a, err := e.actorOf(q.Release.App)
		if err != nil {
			return muru.Release{}, "", err
		}
		var serving muru.Release
		var report Report
		err = a.ask(ctx, func() error {
			r, err := a.release(q.Release)
			if err == nil {
				report, err = a.promote(r, q)
				serving = a.snapshotOf(r)
			}
			return err
		})
		return serving, report, err
	})
}

func (a *actor) promote(r *release, q ReleaseRequest) (Report, error) {
	if a.live != nil && a.live.Candidate != r.ID {
		return "", a.refuseWhileBusy(hintLive)
	}
	if err := mayServe(r); err != nil {
		return "", err
	}
	if a.live == nil {
		if a.split.Baseline() == r.ID && len(a.split.Arms) == 1 {
			return reportServesAlready(r.ID), nil
		}
		old, err := a.serveAll(r, q.Caller, q.Reason, nil)
		if err != nil {
			return "", err
		}
		return reportPromoted(r.ID, old), nil
	}
	l := a.live
	message := messagePromotedBy(q.who(), l.at(), l.Step.Number, l.Step.Of, q.Reason)
	number := l.Number
	if err := a.promoteLive(q.Caller, message); err != nil {
		return "", err
	}
	return reportState(a.view.Load().rollout(number)), nil
}
