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
	route  bool // tell the edge even if split and releases are as they were
	events []muru.Event
}

// move is a release's next state.
type move struct {
	release *release
	to      muru.ReleaseState
	message string
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
// events, then those who wait and watch. Every change of an app comes through
// here; a durable store writes state and events between the table and the
// watchers, in one transaction.
func (a *actor) commit(c change) {
	for _, m := range c.moves {
		if !m.release.State.CanBecome(m.to) {
			panic("BUG: release " + m.release.ID.String() + " cannot move from " + m.release.State.String() + " to " + m.to.String())
		}
		m.release.State, m.release.Message = m.to, m.message
	}
	if c.state != nil {
		a.moveRollout(c.state.to, c.state.message)
	}
	if c.ended != nil {
		a.moveRollout(c.ended.state, c.ended.message)
		a.endRollout(c.ended.share)
	}
	if c.split != nil {
		a.split = *c.split
		a.off = a.off && len(a.split.Arms) == 0
		a.feed.recent.follow(a.split.Baseline())
	}
	if c.split != nil || c.moves != nil || c.ended != nil || c.route {
		a.swap()
	}
	for _, e := range c.events {
		a.e.log.Append(e)
	}
	a.publish()
}

// moveRollout moves the live rollout along its table.
func (a *actor) moveRollout(to muru.RolloutState, message string) {
	r := a.live
	if !r.State.CanBecome(to) {
		panic("BUG: rollout cannot move from " + r.State.String() + " to " + to.String())
	}
	r.State, r.Message = to, message
}

// endRollout files the live rollout away.
func (a *actor) endRollout(share muru.Share) {
	r := a.live
	r.examiner.end()
	a.feed.detach(r.examiner.judge)
	r.Ended, r.Share, r.Step = a.e.clock.Now(), share, nil
	a.ended = append(a.ended, r.Rollout)
	a.live = nil
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
		if rel.State.Live() && rel.stopping == nil {
			r.Backends[rel.ID] = rel.backend
		}
	}
	if a.live != nil {
		r.Rollout = a.live.Number
	}
	for _, n := range slices.Sorted(maps.Keys(a.honoured)) {
		r.Honoured = append(r.Honoured, muru.Honoured{Release: a.releases[n-1].ID, Until: a.honoured[n]})
	}
	if a.listens() {
		a.e.edge.Judge(a.name, a.feed.thresholds(), a.feed)
	} else {
		a.e.edge.Judge(a.name, nil, nil)
	}
	a.e.edge.Route(r)
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
	v := &view{app: a.snapshot(), rollouts: a.ended, changed: make(chan struct{})}
	for _, r := range a.releases {
		v.releases = append(v.releases, a.snapshotOf(r))
	}
	if a.live != nil {
		v.rollouts = append(slices.Clip(a.ended), a.live.snapshot())
	}
	close(a.view.Swap(v).changed)
}

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
