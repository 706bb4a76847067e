package rollout

import (
	"maps"
	"slices"

	"muru"
)

// A change is one change of an app: what the edge gets, what the states
// become and what is said of it.
type change struct {
	split  *muru.Split // nil: as it is
	moves  []move
	ended  *ending // of the live rollout
	state  *rolloutMove
	route  bool     // the edge and the store get the app even if split and releases are as they were
	table  bool     // only the edge does: who judges has changed, or whose backend is there
	made   *release // a new release
	step   bool     // the live rollout is at another step, or new
	events []muru.Event
}

// move is a release's next state.
type move struct {
	release *release
	to      muru.ReleaseState
	message string
	// restart marks what became of a release because muru was started again:
	// the table of moves is about one life of it.
	restart bool
}

// rolloutMove is the live rollout's next state while it stays live.
type rolloutMove struct {
	to      muru.RolloutState
	message string
}

// ending is how the live rollout ended.
type ending struct {
	state   muru.RolloutState
	message string
	share   muru.Share // the candidate's after it
}

// commit makes a change, in this order: the edge's table, then state and
// events in one transaction of the store, then those who wait and watch. Every
// change of an app comes through here.
//
// If it cannot be written, a change that somebody asked for (see ask) is
// undone, the edge's table too, and the error says so. What the engine does by
// itself, and what takes a release out of traffic, stays in force and is
// written as soon as it can be; then there is no error. A crash before that
// brings the older state back.
func (a *actor) commit(c change) error {
	if err := a.check(c); err != nil {
		if a.before != nil {
			a.undo()
		}
		return err
	}
	var out []*release // of the traffic
	for _, m := range c.moves {
		if m.release.State == muru.Serving && m.to == muru.Held {
			out = append(out, m.release)
		}
		m.release.State, m.release.Message = m.to, m.message
	}
	l := a.live
	if c.state != nil {
		l.State, l.Message = c.state.to, c.state.message
	}
	if c.ended != nil {
		l.State, l.Message = c.ended.state, c.ended.message
		l.Ended, l.Share, l.Step = a.e.clock.Now(), c.ended.share, nil
		a.ended = append(slices.Clip(a.ended), l.Rollout)
		a.past[l.Number] = l
		a.live = nil
		a.feed.detach(l.examiner.judge)
	}
	if c.split != nil {
		a.split = *c.split
		a.off = a.off && len(a.split.Arms) == 0
		a.feed.recent.follow(a.split.Baseline())
	}
	if c.split != nil || c.moves != nil || c.ended != nil || c.route || c.table {
		a.swap()
	}
	for _, r := range out {
		a.e.host.Recall(r.ID) // what waits there is served by what serves now
	}
	if err := a.save(c, l); err != nil {
		a.undo()
		return err
	}
	if c.ended != nil {
		l.examiner.end()
		if a.before == nil || a.before.live != l {
			l.examiner = nil // its counts are of no use any more
		}
	}
	a.endDrains(c.moves)
	a.publish()
	if a.before != nil {
		a.before = a.image() // this much is written
	}
	return nil
}

// check refuses a change against the tables of legal moves, which is a bug.
func (a *actor) check(c change) error {
	for _, m := range c.moves {
		if !m.restart && !m.release.State.CanBecome(m.to) {
			return a.e.bug("release %s cannot move from %s to %s", m.release.ID, m.release.State, m.to)
		}
	}
	var to muru.RolloutState
	switch {
	case c.state != nil:
		to = c.state.to
	case c.ended != nil:
		to = c.ended.state
	default:
		return nil
	}
	if a.live == nil {
		return a.e.bug("%s has no rollout that could be %s", a.name, to)
	}
	if !a.live.State.CanBecome(to) {
		return a.e.bug("rollout %d cannot move from %s to %s", a.live.Number, a.live.State, to)
	}
	return nil
}

// endDrains gives up the drains of releases that serve again.
func (a *actor) endDrains(moves []move) {
	for _, m := range moves {
		if n := m.release.ID.Number; m.to == muru.Serving && a.drains[n] != nil {
			a.drains[n]()
			delete(a.drains, n)
		}
	}
}

// swap hands the edge a new table with what the app has now. Judges are named
// first: they are in force from this table on.
func (a *actor) swap() {
	a.generation++
	if a.off {
		return
	}
	r := muru.Routing{Route: a.route, Generation: a.generation, Split: a.split, Backends: map[muru.ReleaseID]muru.Backend{}}
	for _, rel := range a.releases {
		if rel.State.Live() && rel.stopping == nil && rel.backend != nil {
			r.Backends[rel.ID] = rel.backend
		}
	}
	if a.live != nil {
		r.Rollout, r.Shield = a.live.Number, a.live.plan.Shield
		if l := a.live; l.swapped && l.Step != nil && l.Step.Shadow {
			r.Shadow = &muru.Shadow{Release: l.Candidate, Share: l.Step.Share}
		}
	}
	r.Marks = a.feed.marks()
	r.Honoured = a.honouredNow()
	listens := a.listens()
	a.feed.recent.listen(listens, a.e.clock.Now())
	if listens {
		a.e.edge.Judge(a.name, a.feed.thresholds(), a.feed)
	} else {
		a.e.edge.Judge(a.name, nil, nil)
	}
	a.e.edge.Route(r)
}

// honouredNow returns the releases whose clients keep them, by number.
func (a *actor) honouredNow() []muru.Honoured {
	var all []muru.Honoured
	for _, n := range slices.Sorted(maps.Keys(a.honoured)) {
		all = append(all, muru.Honoured{Release: muru.ReleaseID{App: a.name, Number: n}, Until: a.honoured[n]})
	}
	return all
}

// listens reports whether the app's requests are worth hearing of: something
// judges them, or a release is held and may be tried next, which then starts
// from its baseline's last minute. Otherwise the edge is spared the work.
func (a *actor) listens() bool {
	if len(*a.feed.judges.Load()) > 0 {
		return true
	}
	for _, r := range a.releases {
		if r.State == muru.Held && r.stopping == nil {
			return true
		}
	}
	return false
}

// publish puts a new view in the place of the last one and wakes those who
// wait for it.
func (a *actor) publish() {
	v := &view{app: a.snapshot(), last: a.last, rollouts: a.ended, changed: make(chan struct{})}
	for _, r := range a.releases {
		v.releases = append(v.releases, a.snapshotOf(r))
	}
	if a.live != nil {
		v.rollouts = append(slices.Clip(a.ended), a.live.snapshot())
	}
	for _, l := range a.queue {
		v.rollouts = append(slices.Clip(v.rollouts), l.snapshot())
	}
	if !slices.IsSortedFunc(v.rollouts, byNumber) {
		v.rollouts = slices.SortedFunc(slices.Values(v.rollouts), byNumber)
	}
	close(a.view.Swap(v).changed)
}

// byNumber orders rollouts as they were asked for.
func byNumber(x, y muru.Rollout) int { return x.Number - y.Number }

// snapshotOf returns a release's public part.
func (a *actor) snapshotOf(r *release) muru.Release {
	s := r.Release
	s.Share, _ = a.split.Share(r.ID)
	return s
}

// snapshot returns the app's public part.
func (a *actor) snapshot() muru.App {
	app := muru.App{Name: a.name, URL: a.e.edge.URL(a.route), Route: a.route, Split: a.split}
	if b := a.baseline(); b != nil {
		app.Baseline = b.ID.Number
	}
	if len(a.split.Arms) > 1 {
		app.Candidate = a.split.Arms[0].Release.Number
	}
	if a.live != nil {
		app.Rollout, app.Candidate = a.live.Number, a.live.Candidate.Number
	}
	for _, r := range a.releases {
		switch {
		case r.State == muru.Held && r.ID.Number != app.Candidate:
			app.Held = append(app.Held, r.ID.Number)
		case r.State == muru.Warm && r.ID.Number != app.Candidate:
			app.Warm = append(app.Warm, r.ID.Number)
		}
	}
	return app
}
