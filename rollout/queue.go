package rollout

import (
	"fmt"
	"slices"

	"muru"
)

// resolve settles what a rollout asked for does while another change of the
// app is under way: it is refused, takes the place of the live rollout, or
// waits behind it, for which it returns the queued rollout.
func (a *actor) resolve(q CanaryRequest, gates []muru.Gate) (queued *live, err error) {
	busy := a.refuseWhileBusy(hintConflict)
	switch {
	case busy == nil && (len(a.queue) == 0 || q.OnConflict != ConflictQueue):
		return nil, nil
	case q.OnConflict == ConflictQueue && (a.live != nil || len(a.queue) > 0):
		if _, err := a.mayBeTried(q.Release); err != nil {
			return nil, err
		}
		return a.enqueue(q, gates)
	case q.OnConflict == ConflictSupersede && a.live != nil:
		if _, err := a.mayBeTried(q.Release); err != nil {
			return nil, err
		}
		return nil, nil
	}
	return nil, busy
}

// enqueue puts a rollout behind the live one and those that wait already.
func (a *actor) enqueue(q CanaryRequest, gates []muru.Gate) (*live, error) {
	l := a.newLive(q, gates)
	before := a.live
	if n := len(a.queue); n > 0 {
		before = a.queue[n-1]
	}
	l.State, l.Message = muru.Queued, messageBehind(before.Number)
	a.queue = append(slices.Clip(a.queue), l)
	a.dirty.rollouts[l.Number] = l
	e := a.event(muru.LevelNotice, muru.RolloutQueued, l.Candidate.String(), q.Caller, eventQueued(l.Number, before.Number))
	e.Data = map[string]any{"rollout": l.Number}
	if err := a.commit(change{events: []muru.Event{e}}); err != nil {
		return nil, err
	}
	return l, nil
}

// startNext starts the rollout that waits, if none is live any more. One that
// cannot be tried now ends aborted, and the next has its turn.
func (a *actor) startNext() {
	for len(a.queue) > 0 && a.live == nil && a.changing == nil && a.e.log.failure() == nil {
		l := a.queue[0]
		a.queue = a.queue[1:]
		if _, err := a.mayBeTried(l.Candidate); err != nil {
			a.endQueued(l, muruItself, err.Error())
			continue
		}
		_ = a.begin(l) // nobody asks now
	}
}

// queued returns the waiting rollout of a number, nil if there is none.
func (a *actor) queued(number int) *live {
	for _, l := range a.queue {
		if l.Number == number {
			return l
		}
	}
	return nil
}

// endQueued aborts a rollout that never started.
func (a *actor) endQueued(l *live, by Caller, reason string) {
	a.queue = slices.DeleteFunc(slices.Clone(a.queue), func(o *live) bool { return o == l })
	l.State, l.Message, l.Ended = muru.Aborted, messageBy(by.who(), 0, reason), a.e.clock.Now()
	a.ended = append(slices.Clip(a.ended), l.Rollout)
	a.past[l.Number] = l
	a.dirty.rollouts[l.Number] = l
	e := a.event(muru.LevelWarning, muru.RolloutAborted, l.Candidate.String(), by, eventRollout(l.Number, l.Message))
	e.Data = map[string]any{"rollout": l.Number}
	_ = a.commit(change{events: []muru.Event{e}})
}

// endQueue aborts all that wait.
func (a *actor) endQueue(by Caller, reason string) {
	for len(a.queue) > 0 {
		a.endQueued(a.queue[0], by, reason)
	}
}

// supersede takes the live rollout's candidate out because something else is
// to be tried.
func (a *actor) supersede(by Caller, what string) error {
	l := a.live
	message := messageSuperseded(what)
	return a.takeOutCandidate(&ending{muru.Superseded, message, 0}, []muru.Event{
		a.rolloutEvent(muru.LevelWarning, muru.RolloutSuperseded, by, eventRollout(l.Number, message)),
	})
}

func messageBehind(number int) string      { return fmt.Sprintf("behind rollout %d", number) }
func messageSuperseded(what string) string { return "by " + what }
func eventQueued(number, behind int) string {
	return fmt.Sprintf("rollout %d behind rollout %d", number, behind)
}
func reportQueued(r muru.Rollout) Report { return Report(fmt.Sprintf("%s queued %s", r, r.Message)) }
