package rollout

import (
	"slices"

	"muru"
)

// handSalt is the salt of splits made by hand: always the same, so that
// raising a share moves nobody back.
const handSalt = "split"

// leaving returns the moves to a new split: who gets a share serves, and who
// loses theirs is held for inspection, except the baseline, which becomes
// what it is to become (draining after a promotion, held after a rollback).
// The baseline of a 100% step has no share but stays serving: everything goes
// back to it at once if the candidate fails.
func (a *actor) leaving(next muru.Split, baselineTo muru.ReleaseState, message string) []move {
	old := a.split.Baseline()
	var moves []move
	for _, r := range a.releases {
		share, _ := next.Share(r.ID)
		serves := share > 0 || r.ID == next.Baseline()
		switch {
		case serves && r.State != muru.Serving:
			moves = append(moves, move{release: r, to: muru.Serving})
		case !serves && r.State == muru.Serving && r.ID == old:
			moves = append(moves, move{release: r, to: baselineTo, message: message})
		case !serves && r.State == muru.Serving:
			moves = append(moves, move{release: r, to: muru.Held, message: message})
		}
	}
	return moves
}

// serveAll gives a release all traffic. What served before is drained in the
// background and kept warm; it is returned, zero if nothing served. The live
// rollout, if any, must be r's and ends with end, which has the reason then;
// before are events that come before its own.
func (a *actor) serveAll(r *release, by Caller, reason string, end *ending, before ...muru.Event) (old muru.ReleaseID, err error) {
	if b := a.split.Baseline(); b != r.ID {
		old = b
	}
	next, _ := muru.NewSplit("", r.ID) // one arm alone cannot be wrong
	c := change{split: &next, moves: a.leaving(next, muru.Draining, ""), ended: end, events: before}
	a.splitRun = 0
	a.noteServing(r.ID.Number)
	a.endGrace(c.moves)
	if !old.IsZero() && a.route.Sticky > 0 {
		a.honoured[old.Number] = a.e.clock.Now().Add(a.route.Sticky)
	}
	if end != nil {
		number := a.live.Number
		c.events = append(c.events, a.rolloutEvent(muru.LevelNotice, muru.RolloutPromoted, by, eventRollout(number, end.message)))
	} else {
		c.events = append(c.events, a.event(muru.LevelNotice, muru.ReleasePromoted, r.ID.String(), by, eventPromoted(r.ID, old, by.who(), reason)))
	}
	if !old.IsZero() {
		c.events = append(c.events, a.event(muru.LevelNotice, muru.ReleaseDraining, old.String(), by, eventDraining(a.e.host.InFlight(old))))
	}
	if err := a.commit(c); err != nil {
		return old, err
	}
	if !old.IsZero() {
		a.drain(a.numbered(old.Number))
	}
	return old, nil
}

// noteServing puts a release at the end of the history of baselines.
func (a *actor) noteServing(n int) {
	delete(a.regretted, n)
	if len(a.history) == 0 || a.history[len(a.history)-1] != n {
		a.history = append(a.history, n)
	}
}

// endGrace ends the grace of releases that serve again.
func (a *actor) endGrace(moves []move) {
	for _, m := range moves {
		if m.to == muru.Serving {
			delete(a.honoured, m.release.ID.Number)
		}
	}
}

// previous returns the release that served before the present baseline and
// was not rolled back from; nil if there is none. While nothing serves it is
// the last that did.
func (a *actor) previous() *release {
	present := a.split.Baseline().Number
	for _, n := range slices.Backward(a.history) {
		r := a.numbered(n)
		if r != nil && n != present && !a.regretted[n] && r.State != muru.FailedToStart {
			return r
		}
	}
	return nil
}

// keepOnlyPrevious stops the warm releases but the one that a rollback would
// go back to: one release is kept warm, because each takes the memory of a
// whole pool.
func (a *actor) keepOnlyPrevious() {
	keep := a.previous()
	for _, r := range a.releases {
		tried := a.live != nil && a.live.Candidate == r.ID
		if r.State == muru.Warm && r != keep && !tried && r.stopping == nil {
			a.stopRelease(r, muruItself)
		}
	}
}

// forgetDrains gives up every drain and grace, for an app that stops.
func (a *actor) forgetDrains() {
	for n, cancel := range a.drains {
		cancel()
		delete(a.drains, n)
	}
	clear(a.honoured)
}
