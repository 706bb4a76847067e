package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muru"
)

// mend turns what an app was when muru stopped into what it can be now, and
// tells the edge. It returns what is to be started again: what serves, and the
// rest. Nothing else runs yet, so it may touch the actor from outside.
func (a *actor) mend() (serving, others []restart, err error) {
	if err := a.checkWhole(); err != nil {
		return nil, nil, err
	}
	now := a.e.clock.Now()
	var moves []move
	var events []muru.Event
	for _, r := range a.releases {
		to, message := a.mendRelease(r, now)
		if to == r.State {
			continue
		}
		moves = append(moves, move{release: r, to: to, message: message, restart: true})
		if to == muru.FailedToStart {
			events = append(events, a.event(muru.LevelError, muru.ReleaseFailed, r.ID.String(), muruItself, message))
		}
	}
	if l := a.live; l != nil {
		events = append(events, a.mendRollout(now)...)
		// Serving is a share above 0: it waits for its share, held.
		c := a.numbered(l.Candidate.Number)
		if c.State == muru.Serving {
			c.State = muru.Held // as on disk again when it has its share
		}
		a.split, _ = muru.NewSplit("", l.Baseline)
		delete(a.honoured, l.Baseline.Number)
	}
	for n, until := range a.honoured {
		if !until.After(now) {
			delete(a.honoured, n)
		}
	}
	a.feed.recent.follow(a.split.Baseline())
	if err := a.commit(change{moves: moves, table: true, events: events}); err != nil {
		return nil, nil, err
	}
	a.stopSpare()
	for _, r := range a.releases {
		if r.State == muru.FailedToStart {
			r.err = muru.Errorf(muru.KindNotReady, "release %s %s", r.ID, r.Message)
		}
		switch s := (restart{a, r}); {
		case !r.State.Live():
			continue
		case r.State == muru.Serving:
			serving = append(serving, s)
		case a.tries(r.ID):
			others = slices.Insert(others, 0, s)
		default:
			others = append(others, s)
		}
		var ctx context.Context
		ctx, r.cancel = context.WithCancel(a.e.ctx)
		r.again, r.started = ctx, make(chan struct{})
	}
	return serving, others, nil
}

// checkWhole refuses an app whose records do not fit each other.
func (a *actor) checkWhole() error {
	for _, arm := range a.split.Arms {
		if a.numbered(arm.Release.Number) == nil {
			return fmt.Errorf("its split has %s, which there is not", arm.Release.Name())
		}
	}
	for _, l := range a.queue {
		if a.numbered(l.Candidate.Number) == nil {
			return fmt.Errorf("rollout %d has %s, which there is not", l.Number, l.Candidate.Name())
		}
	}
	if l := a.live; l != nil {
		for _, id := range []muru.ReleaseID{l.Candidate, l.Baseline} {
			if a.numbered(id.Number) == nil {
				return fmt.Errorf("rollout %d has %s, which there is not", l.Number, id.Name())
			}
		}
		if a.split.Baseline() != l.Baseline {
			return fmt.Errorf("rollout %d is against %s, and %q serves", l.Number, l.Baseline.Name(), a.split)
		}
	}
	return nil
}

// mendRelease says what a release is after a restart.
func (a *actor) mendRelease(r *release, now time.Time) (to muru.ReleaseState, message string) {
	switch {
	case r.State == muru.Starting:
		return muru.FailedToStart, eventFailedToStart(causeStoppedWhileStarting)
	case a.off && r.State != muru.Serving && r.State != muru.Stopped:
		return muru.Stopped, "" // the app was being stopped
	case r.State == muru.Draining && !a.honoured[r.ID.Number].After(now):
		return muru.Warm, messageStoppedWhileDrain
	}
	return r.State, r.Message
}

// stopSpare files the warm releases that would have been stopped, since only
// the previous one is kept, without starting them for it.
func (a *actor) stopSpare() {
	keep := a.previous()
	var moves []move
	for _, r := range a.releases {
		if r.State == muru.Warm && r != keep && !a.tries(r.ID) {
			moves = append(moves, move{release: r, to: muru.Stopped})
		}
	}
	if moves != nil {
		_ = a.commit(change{moves: moves}) // nobody asked
	}
}

// mendRollout makes the live rollout ready to go on and says that it does.
func (a *actor) mendRollout(now time.Time) []muru.Event {
	l := a.live
	l.seen, l.savedAt, l.before, l.Share = now, now, l.held, 0
	a.lookAt = now.Add(askEvery)
	l.examiner = a.e.newExaminer(arms{l.Candidate, l.Baseline}, l.plan.judging(), l.Gates, a.nudge)
	l.examiner.judge.Recall(l.memory)
	a.feed.attach(l.examiner.judge)
	events := []muru.Event{
		a.rolloutEvent(muru.LevelNotice, muru.RolloutRestored, muruItself, eventRestored(l.Number, *l.Step)),
	}
	for _, g := range l.Gates {
		if g.Kind == muru.GateCheck {
			events = append(events, a.rolloutEvent(muru.LevelWarning, muru.RolloutUnbound, muruItself, eventUnbound(l.Number, g.Name, l.Run)))
		}
	}
	return events
}

// The waits between two tries to start what served before a restart.
const (
	firstStartRetry = 10 * time.Second
	lastStartRetry  = time.Minute
)

// startedAgain starts a release's workers again and files how that went. What
// everybody is served by is tried again and again: a machine that boots slowly,
// or a disk that is mounted late, must not end the app for good.
func (a *actor) startedAgain(r *release) { a.tryStart(r, firstStartRetry) }

// tryStart is one try of startedAgain; retry is the wait before the next.
func (a *actor) tryStart(r *release, retry time.Duration) {
	var plan muru.Release
	_ = a.do(a.e.ctx, func() error { plan = a.snapshotOf(r); return nil })
	backend, err := muru.Backend(nil), r.again.Err()
	if err == nil {
		backend, err = a.e.host.Start(r.again, plan)
	}
	a.tell(func() {
		if err != nil && r.again.Err() == nil && a.servesAlone(r) {
			a.e.log.Append(a.event(muru.LevelError, muru.ReleaseFailed, r.ID.String(), muruItself,
				eventFailedToStart(fmt.Sprintf("%v; next try in %s", err, muru.FormatDuration(retry)))))
			a.e.spawn(func() {
				_ = Sleep(r.again, a.e.clock, retry) // if it is being stopped, the next try sees that
				a.tryStart(r, min(2*retry, lastStartRetry))
			})
			return
		}
		defer close(r.started)
		defer r.cancel()
		switch {
		case r.again.Err() != nil || !r.State.Live():
			// It is being stopped: who does that waits for started.
			if err == nil && r.stopping == nil {
				a.e.spawn(func() { _, _ = a.e.host.Stop(a.e.ctx, r.ID) })
			}
		case err != nil:
			a.lost(r, err.Error())
		default:
			r.backend = backend
			_ = a.commit(change{table: true})
			if r.State == muru.Draining {
				a.drain(r)
			}
			a.nudge()
		}
	})
}

// servesAlone reports whether there is nothing to serve instead of r: it is the
// baseline, and no rollout is live that could end.
func (a *actor) servesAlone(r *release) bool {
	return r.State == muru.Serving && r.ID == a.split.Baseline() && a.live == nil
}

// lost takes a release out that did not start again. Traffic goes back to the
// baseline from a candidate or a hand-made share; if the baseline of a live
// rollout is lost, nothing serves until somebody decides what shall.
func (a *actor) lost(r *release, cause string) {
	next, base := a.split, a.split.Baseline()
	switch {
	case a.tries(r.ID):
		a.rollBackLive(messageArmFailed("candidate", r.ID, cause))
		next = a.split
	case r.ID == base && a.live != nil:
		l, message := a.live, messageArmFailed("baseline", r.ID, cause)
		_ = a.takeOutCandidate(&ending{muru.Aborted, message, 0}, []muru.Event{
			a.rolloutEvent(muru.LevelWarning, muru.RolloutAborted, muruItself, eventRollout(l.Number, message)),
		})
		next = muru.Split{}
	default:
		var rest []muru.SplitArm
		for _, arm := range a.split.Arms[:max(0, len(a.split.Arms)-1)] {
			if arm.Release != r.ID {
				rest = append(rest, arm)
			}
		}
		if !base.IsZero() {
			next, _ = muru.NewSplit(a.split.Salt, base, rest...) // fewer arms of a split that was right
		}
	}
	moves := []move{{release: r, to: muru.FailedToStart, message: eventFailedToStart(cause), restart: true}}
	for _, m := range a.leaving(next, muru.Held, "") {
		if m.release != r {
			moves = append(moves, m)
		}
	}
	_ = a.commit(change{split: &next, moves: moves, events: []muru.Event{ // nobody asked
		a.event(muru.LevelError, muru.ReleaseFailed, r.ID.String(), muruItself, eventFailedToStart(cause)),
	}})
}
