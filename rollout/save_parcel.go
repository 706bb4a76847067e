package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"muru"
	"muru/store"
)

// A parcel is what of an app is to be written, as it was when it was made: it
// can be written without the actor, who takes the result back.
type parcel struct {
	app      bool // what it has, by which it gets dirty again
	releases map[int]*release
	rollouts map[int]*live

	find   []string  // keys whose revisions are in doubt and are read first
	parts  [][]write // transactions; more than one after a restart only
	events []muru.Event

	// The result, to be read when done is closed.
	done   chan struct{}
	mods   map[string]store.Rev // when records were written
	sure   bool                 // the keys of find are known, in mods
	unsure bool                 // a write may have been made or not
	err    error
}

// writesMax is how many releases are written in one transaction.
const writesMax = 40

// takeDirty makes a parcel of what is dirty, which is not dirty then.
func (a *actor) takeDirty(events []muru.Event) *parcel {
	a.triedAt = time.Now()
	d := &a.dirty
	p := &parcel{
		app: d.app, releases: maps.Clone(d.releases), rollouts: maps.Clone(d.rollouts),
		events: events, done: make(chan struct{}), mods: map[string]store.Rev{},
	}
	var writes []write
	add := func(key string, record any) { writes = append(writes, write{key, encode(record), d.mods[key]}) }
	for _, n := range slices.Sorted(maps.Keys(d.releases)) {
		add(releaseKey(d.releases[n].ID), d.releases[n].record())
		if len(writes) == writesMax {
			// A change has a few. These are of a restart, whose parts stand for
			// themselves.
			p.parts = append(p.parts, writes)
			writes = nil
		}
	}
	if d.app {
		add(appKey(a.name), a.record())
	}
	for _, n := range slices.Sorted(maps.Keys(d.rollouts)) {
		add(rolloutKey(n), d.rollouts[n].record())
	}
	p.parts = append(p.parts, writes)
	if d.unsure {
		keys := map[string]bool{appKey(a.name): true}
		for key := range d.mods {
			keys[key] = true
		}
		for _, part := range p.parts {
			for _, w := range part {
				keys[w.key] = true
			}
		}
		p.find = slices.Sorted(maps.Keys(keys))
	}
	d.clear()
	return p
}

// write writes a parcel, the events with its last part, and closes done.
func (p *parcel) write(log *Log) {
	defer close(p.done)
	if p.err = p.findMods(log.disk.store); p.err != nil {
		return
	}
	for i, writes := range p.parts {
		var events []muru.Event
		if i == len(p.parts)-1 {
			events = p.events
		}
		for k, w := range writes {
			if mod, ok := p.mods[w.key]; ok {
				writes[k].mod = mod
			}
		}
		rev, err := log.commit(writes, events)
		if err != nil {
			p.unsure, p.err = errors.Is(err, store.ErrUnknown), err
			return
		}
		for _, w := range writes {
			p.mods[w.key] = rev
		}
	}
}

// findMods finds out how the records are that may have been written.
func (p *parcel) findMods(s store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	for _, key := range p.find {
		kv, _, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		p.mods[key] = kv.Mod
	}
	p.sure = len(p.find) > 0 // a doubt that came since it was made stays
	return nil
}

// written notes what became of a parcel. What it had is dirty again if it
// could not be written.
func (a *actor) written(p *parcel) {
	d := &a.dirty
	maps.Copy(d.mods, p.mods)
	d.unsure = d.unsure && !p.sure || p.unsure
	if p.err != nil {
		a.putBack(p)
	}
}

// putBack makes what a parcel has dirty again.
func (a *actor) putBack(p *parcel) {
	d := &a.dirty
	d.app = d.app || p.app
	maps.Copy(d.releases, p.releases)
	maps.Copy(d.rollouts, p.rollouts)
}

// A scribe writes what nobody waits for, one parcel after the other: on a disk
// that hangs there is one such write before those that somebody waits for.
// The zero value is ready; it is safe for concurrent use.
type scribe struct {
	mu      sync.Mutex // guards what is below
	queue   []*parcel
	writing bool // its goroutine runs
}

// add has a parcel written soon. It reports false, and does nothing, once the
// engine is closing.
func (s *scribe) add(e *Engine, p *parcel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.writing && !e.spawn(func() { s.write(e.log) }) {
		return false
	}
	s.writing = true
	s.queue = append(s.queue, p)
	return true
}

// withdraw takes a parcel back that is not being written yet.
func (s *scribe) withdraw(p *parcel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, p)
	if i < 0 {
		return false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return true
}

// write writes until there is nothing.
func (s *scribe) write(log *Log) {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.writing = false
			s.mu.Unlock()
			return
		}
		p := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		s.mu.Unlock()
		p.write(log)
	}
}
