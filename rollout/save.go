package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"

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
	if told, ok := errors.AsType[*muru.Error](cause); ok {
		err.Hint = told.Hint
	}
	return err
}

// saveDirty writes what is dirty, with events, in one transaction.
func (a *actor) saveDirty(events []muru.Event) error {
	d := &a.dirty
	log := a.e.log
	if log.disk == nil {
		for _, e := range events {
			log.Append(e)
		}
		d.app = false
		clear(d.releases)
		clear(d.rollouts)
		return nil
	}
	if d.unsure {
		if err := a.readMods(); err != nil {
			return err
		}
	}
	var writes []write
	add := func(key string, record any) { writes = append(writes, write{key, encode(record), d.mods[key]}) }
	for _, n := range slices.Sorted(maps.Keys(d.releases)) {
		add(releaseKey(d.releases[n].ID), d.releases[n].record())
		if len(writes) == writesMax {
			// A change has a few. These are of a restart, whose parts stand for
			// themselves.
			if err := a.write(writes, nil); err != nil {
				return err
			}
			writes = nil
		}
	}
	if d.app {
		add(appKey(a.name), a.record())
	}
	for _, n := range slices.Sorted(maps.Keys(d.rollouts)) {
		add(rolloutKey(n), d.rollouts[n].record())
	}
	if err := a.write(writes, events); err != nil {
		return err
	}
	d.app = false
	clear(d.releases)
	clear(d.rollouts)
	return nil
}

// writesMax is how many releases are written in one transaction.
const writesMax = 40

// write makes one transaction and notes when its records were written.
func (a *actor) write(writes []write, events []muru.Event) error {
	rev, err := a.e.log.commit(writes, events)
	if err != nil {
		a.dirty.unsure = a.dirty.unsure || errors.Is(err, store.ErrUnknown)
		return err
	}
	for _, w := range writes {
		a.dirty.mods[w.key] = rev
	}
	return nil
}

// readMods finds out how the records are that may have been written.
func (a *actor) readMods() error {
	d := &a.dirty
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	keys := map[string]bool{appKey(a.name): true}
	for key := range d.mods {
		keys[key] = true
	}
	for _, r := range d.releases {
		keys[releaseKey(r.ID)] = true
	}
	for n := range d.rollouts {
		keys[rolloutKey(n)] = true
	}
	for key := range keys {
		kv, _, err := a.e.log.disk.store.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		d.mods[key] = kv.Mod
	}
	d.unsure = false
	return nil
}

// saveProgress keeps how far the live rollout is in its step: a restart goes
// on from there. It is tried again by itself when it cannot be written.
func (a *actor) saveProgress() {
	l := a.live
	a.dirty.rollouts[l.Number] = l
	l.savedAt = a.e.clock.Now()
	_ = a.saveDirty(nil) // stays dirty
}
