package rollout

import (
	"muru"
	"muru/store"
)

// dirty is what of an app the store has not got yet, and what it has.
type dirty struct {
	app      bool
	releases map[int]*release
	rollouts map[int]*live // also one that has ended

	mods   map[string]store.Rev // when each record was written last
	unsure bool                 // a write may have been made or not: mods may be old
}

func newDirty() dirty {
	return dirty{releases: map[int]*release{}, rollouts: map[int]*live{}, mods: map[string]store.Rev{}}
}

func (d *dirty) any() bool { return d.app || len(d.releases) > 0 || len(d.rollouts) > 0 }

func (d *dirty) clear() {
	d.app = false
	clear(d.releases)
	clear(d.rollouts)
}

// save writes what a change changes, with its events. l is the rollout that
// was live before it. An error means that nothing is written and somebody is
// there to be told, see commit.
func (a *actor) save(c change, l *live) error {
	if c.split != nil || c.moves != nil || c.ended != nil || c.route || c.made != nil {
		a.dirty.app = true
	}
	for _, m := range c.moves {
		a.dirty.releases[m.release.ID.Number] = m.release
	}
	if c.made != nil {
		a.dirty.releases[c.made.ID.Number] = c.made
	}
	if l != nil && (c.ended != nil || c.state != nil || c.step || c.split != nil) {
		a.dirty.rollouts[l.Number] = l
	}
	if !a.dirty.any() && len(c.events) == 0 {
		return nil
	}
	err := a.saveDirty(c.events)
	if err == nil {
		return nil
	}
	if a.before != nil {
		return unwritten(err)
	}
	for _, e := range c.events {
		a.e.log.Append(e)
	}
	return nil
}

// unwritten is what somebody is told whose change could not be written.
func unwritten(cause error) error {
	err := muru.Errorf(muru.KindFailed, "nothing was changed: %w", cause)
	err.Hint = hintOf(cause)
	return err
}

// saveDirty writes what is dirty, with events, in one transaction, and waits
// for it. What is being written in the background comes first.
func (a *actor) saveDirty(events []muru.Event) error {
	if a.e.log.disk == nil {
		for _, e := range events {
			a.e.log.Append(e)
		}
		a.dirty.clear()
		return nil
	}
	a.settle()
	p := a.takeDirty(events)
	p.write(a.e.log)
	a.written(p)
	return p.err
}

// saveLater has what is dirty written in the background, unless something of
// the app is being written there: then it stays dirty, and the newest is
// written after that.
func (a *actor) saveLater() {
	if a.e.log.disk == nil {
		a.dirty.clear()
		return
	}
	if a.later == nil {
		if p := a.takeDirty(nil); a.e.scribe.add(a.e, p) {
			a.later = p
		} else {
			a.putBack(p) // muru stops: close writes it
		}
	}
}

// settle waits until nothing of the app is written in the background, and
// notes what became of it. What has not begun yet is dirty again.
func (a *actor) settle() {
	p := a.later
	switch {
	case p == nil:
		return
	case a.e.scribe.withdraw(p):
		a.putBack(p)
	default:
		<-p.done // held for writeWithin at most
		a.written(p)
	}
	a.later = nil
}

// saveProgress keeps how far the live rollout is in its step: a restart goes
// on from there. Nobody is told of it and nothing waits for it, least of all a
// verdict for a disk that hangs. It is tried again by itself when it cannot be
// written.
func (a *actor) saveProgress() {
	l := a.live
	a.dirty.rollouts[l.Number] = l
	l.savedAt = a.e.clock.Now()
	a.saveLater()
}
