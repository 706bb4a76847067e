package rollout

import (
	"context"

	"muru"
)

// Pause keeps a rollout's share and its gates and stops the clock of its
// step. A paused one stays so. Refused: it has ended, or waits for approval,
// which stops its clock already.
func (e *Engine) Pause(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return e.onRollout(ctx, q, false, func(a *actor) (Report, error) {
		l := a.live
		switch l.State {
		case muru.Paused:
			return reportPausedAlready(l.Rollout), nil
		case muru.AwaitingApproval:
			return "", muru.Errorf(muru.KindRefused, "rollout %d awaits approval: nothing moves until it is resumed or aborted", l.Number)
		}
		a.countTime(a.e.clock.Now())
		err := a.commit(change{
			state: &rolloutMove{muru.Paused, messageBy(q.who(), l.at(), q.Reason)},
			events: []muru.Event{a.rolloutEvent(muru.LevelNotice, muru.RolloutPaused, q.Caller,
				eventPaused(l.Number, q.who(), l.at(), q.Reason))},
		})
		return reportState(l.Rollout), err
	})
}

// Abort takes the candidate out of traffic at once. It is legal in every live
// state; a rollout that was taken out already stays as it is. Refused: it was
// promoted (roll back instead).
func (e *Engine) Abort(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return e.onRollout(ctx, q, true, func(a *actor) (Report, error) {
		return a.abortLive(q.Caller, q.Reason), nil
	})
}

// onRollout runs a call on a live rollout's actor. An abort is urgent, and can
// be of a rollout that waits.
func (e *Engine) onRollout(ctx context.Context, q RolloutRequest, abort bool, call func(*actor) (Report, error)) (muru.Rollout, Report, error) {
	return once(e, q.Caller, func() (r muru.Rollout, report Report, err error) {
		a, err := e.actorOfRollout(q.Rollout)
		if err != nil {
			return r, "", err
		}
		do := a.ask
		if abort {
			do = a.urge
		}
		err = do(ctx, func() (err error) {
			if r := a.view.Load().rollout(q.Rollout); !r.Live() {
				report, err = ended(r)
				return err
			}
			if l := a.queued(q.Rollout); l != nil {
				if !abort {
					return muru.Errorf(muru.KindRefused, "rollout %d is queued %s", l.Number, l.Message)
				}
				a.endQueued(l, q.Caller, q.Reason)
				report = reportState(l.Rollout)
				return nil
			}
			report, err = call(a)
			return err
		})
		return a.view.Load().rollout(q.Rollout), report, err
	})
}

// ended answers a wish about a rollout that has ended: one whose candidate is
// out already is fine as it is.
func ended(r muru.Rollout) (Report, error) {
	if r.State != muru.Promoted {
		return reportEndedAlready(r), nil
	}
	return "", muru.Errorf(muru.KindRefused, "rollout %d has ended: %s serves", r.Number, r.Candidate).
		WithHint("muru rollback %s", r.Candidate)
}

// Resume ends a pause, or approves of what a rollout waits for, once. Gates
// are asked again first, functions too: if one fails now, the rollout is
// rolled back and the error (kind rolled_back) says so. Refused: there is
// nothing to resume, q.Step is not the step it waits for, or a gate cannot
// say pass now.
func (e *Engine) Resume(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return once(e, q.Caller, func() (r muru.Rollout, report Report, err error) {
		a, err := e.actorOfRollout(q.Rollout)
		if err != nil {
			return r, "", err
		}
		var answered <-chan struct{}
		var waited string
		err = a.do(ctx, func() error {
			if err := a.mayResume(q); err != nil {
				return err
			}
			waited = a.live.waitsFor()
			answered = a.live.examiner.refresh(a.e.clock.Now())
			return nil
		})
		if err == nil {
			err = a.waitFor(ctx, answered)
		}
		if err == nil {
			err = a.ask(ctx, func() (err error) {
				report, err = a.resume(q, waited)
				return err
			})
		}
		return a.view.Load().rollout(q.Rollout), report, err
	})
}

// waitsFor names what a resume would do, to find that it is still the same
// after the gates were asked.
func (l *live) waitsFor() string { return l.State.String() + " " + l.awaitNext }

// mayResume refuses what cannot be resumed.
func (a *actor) mayResume(q RolloutRequest) error {
	r := a.view.Load().rollout(q.Rollout)
	refused := func(format string, args ...any) error { return muru.Errorf(muru.KindRefused, format, args...) }
	if !r.Live() {
		return refused("rollout %d has ended: %s: %s", r.Number, r.State, r.Message)
	}
	if r.State == muru.Queued {
		return refused("rollout %d is queued %s: it starts by itself", r.Number, r.Message)
	}
	l := a.live
	waits := l.Step.Number
	switch l.State {
	case muru.AwaitingApproval:
		waits++
	case muru.Running:
		return refused("rollout %d is running: there is nothing to resume", l.Number)
	}
	if q.Step != 0 && q.Step != waits {
		what := l.awaitNext
		if what == "" {
			what = l.Step.String()
		}
		return refused("rollout %d waits for %s, not for step %d", l.Number, what, q.Step)
	}
	return nil
}

// resume carries out what mayResume allowed, after the functions have been
// asked again.
func (a *actor) resume(q RolloutRequest, waited string) (Report, error) {
	if r := a.view.Load().rollout(q.Rollout); !r.Live() {
		if e := endError(r); e != nil {
			return "", e
		}
		return reportState(r), nil
	}
	l := a.live
	if l.waitsFor() != waited {
		return "", muru.Errorf(muru.KindRefused, "rollout %d has been resumed meanwhile", l.Number)
	}
	now := a.e.clock.Now()
	a.countTime(now)
	if a.judgeNow(now) {
		return "", endError(a.view.Load().rollout(q.Rollout))
	}
	if failed := rule(l.Verdicts).failed; failed != nil { // it keeps its share
		return "", muru.Errorf(muru.KindGateFailed, "rollout %d is frozen still: %s", l.Number, failed.Message).
			WithHint("muru rollout abort %s, or muru promote %s", a.name, l.Candidate)
	}
	l.frozen = false
	if l.State == muru.Paused {
		if err := a.commit(change{
			state: &rolloutMove{muru.Running, ""},
			events: []muru.Event{a.rolloutEvent(muru.LevelNotice, muru.RolloutResumed, q.Caller,
				eventPaused(l.Number, q.who(), l.at(), q.Reason))},
		}); err != nil {
			return "", err
		}
		a.planLook()
		return reportState(l.Rollout), nil
	}
	return a.approve(q)
}

// approve goes on to what the rollout waited for.
func (a *actor) approve(q RolloutRequest) (Report, error) {
	l := a.live
	ruling := rule(l.Verdicts)
	if !ruling.passed && !l.noData {
		for _, v := range l.Verdicts {
			if v.Result != muru.Pass {
				return "", muru.Errorf(muru.KindGateFailed, "rollout %d still awaits approval: %s says %s", l.Number, v.Gate, because(v.Result.String(), v.Message))
			}
		}
	}
	l.unproven = l.unproven || l.noData && !ruling.passed
	number, k := l.Number, l.Step.Number
	said := a.rolloutEvent(muru.LevelNotice, muru.RolloutApproved, q.Caller,
		eventApproved(number, l.awaitNext, q.who(), ruling.result()))
	var err error
	if l.awaitNext == promotion {
		err = a.promoteLive(q.Caller, l.passedMessage(q.Caller), said)
	} else {
		err = a.beginStep(k+1, change{
			state:  &rolloutMove{muru.Running, ""},
			events: []muru.Event{said, a.stepEvent(k+1, q.Caller)},
		})
	}
	if err != nil {
		return "", err
	}
	return reportState(a.view.Load().rollout(number)), nil
}
