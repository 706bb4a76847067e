package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muru"
	"muru/store"
)

// A Policy says what [Engine.GC] keeps. A field that is 0 keeps everything.
type Policy struct {
	Events   int           // this many of the newest events
	EventAge time.Duration // and none that is older
	Releases int           // of each app, this many of the newest that have stopped or failed
	Rollouts int           // this many of the newest that have ended
}

// A GCReport is what [Engine.GC] has removed. The files of the releases, such
// as their logs, are still there: the caller knows where.
type GCReport struct {
	Events   int
	Releases []muru.ReleaseID
	Rollouts []int
}

// GC removes old records, from memory and from the store, for good. It touches
// nothing that serves, is held, is kept warm or starts, and no live rollout;
// numbers are never given again. The error is of a store that cannot be
// written or ctx's cause; the report says what was removed before it.
func (e *Engine) GC(ctx context.Context, p Policy) (report GCReport, err error) {
	for _, a := range e.all() {
		ids, err := a.removeReleases(ctx, p.Releases)
		report.Releases = append(report.Releases, ids...)
		if err != nil {
			return report, fmt.Errorf("remove releases of %s: %w", a.name, err)
		}
	}
	if report.Rollouts, err = e.removeRollouts(ctx, p.Rollouts); err != nil {
		return report, fmt.Errorf("remove rollouts: %w", err)
	}
	if report.Events, err = e.log.remove(ctx, p); err != nil {
		return report, fmt.Errorf("remove events: %w", err)
	}
	return report, nil
}

// removeReleases removes the oldest releases that have stopped or failed, but
// for the newest keep of them and those that something refers to. The actor
// does not wait for the disk: while their records are deleted the releases are
// out of its hands, and come back if they cannot be.
func (a *actor) removeReleases(ctx context.Context, keep int) (gone []muru.ReleaseID, err error) {
	if keep <= 0 {
		return nil, nil
	}
	var old []*release
	if err := a.do(ctx, func() error {
		if old = a.oldReleases(keep); old != nil {
			a.releases = slices.DeleteFunc(slices.Clone(a.releases), func(r *release) bool { return slices.Contains(old, r) })
			a.publish()
		}
		return nil
	}); err != nil || old == nil {
		return nil, err
	}
	var ops []store.Op
	for _, r := range old {
		ops = append(ops, store.Del(releaseKey(r.ID)))
		gone = append(gone, r.ID)
	}
	failed := a.e.log.delete(ctx, ops)
	a.tell(func() {
		if failed != nil {
			a.dirty.unsure = a.dirty.unsure || errors.Is(failed, store.ErrUnknown)
			a.releases = append(slices.Clone(a.releases), old...)
			slices.SortFunc(a.releases, func(x, y *release) int { return x.ID.Number - y.ID.Number })
			a.publish()
			return
		}
		for _, r := range old {
			delete(a.dirty.mods, releaseKey(r.ID))
		}
	})
	if failed != nil {
		return nil, failed
	}
	return gone, nil
}

// oldReleases returns the releases that are to be removed. One that is still
// to be written waits for the next time.
func (a *actor) oldReleases(keep int) (old []*release) {
	for _, r := range a.releases {
		_, split := a.split.Share(r.ID)
		over := r.State == muru.Stopped || r.State == muru.FailedToStart
		unsaved := a.dirty.releases[r.ID.Number] != nil || a.later != nil && a.later.releases[r.ID.Number] != nil
		if over && !split && r.stopping == nil && r != a.changing && !a.tries(r.ID) && !unsaved {
			old = append(old, r)
		}
	}
	if len(old) <= keep {
		return nil
	}
	return old[:len(old)-keep]
}

// removeRollouts removes the oldest rollouts that have ended, but for the
// newest keep of all apps. The newest of all stays in any case: the numbers go
// on from it.
func (e *Engine) removeRollouts(ctx context.Context, keep int) (gone []int, err error) {
	if keep <= 0 {
		return nil, nil
	}
	all, err := e.Rollouts("")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, muru.Rollout.Live)
	for _, r := range all[:max(0, len(all)-keep)] {
		a := e.rolloutOf(r.Number)
		if a == nil {
			continue
		}
		removed, err := a.removeRollout(ctx, r.Number)
		if err != nil {
			return gone, err
		}
		if removed {
			gone = append(gone, r.Number)
		}
	}
	return gone, nil
}

// removeRollout removes a rollout that has ended, as removeReleases does. One
// that is still to be written waits for the next time.
func (a *actor) removeRollout(ctx context.Context, number int) (removed bool, err error) {
	var l *live
	var r muru.Rollout
	if err := a.do(ctx, func() error {
		unsaved := a.dirty.rollouts[number] != nil || a.later != nil && a.later.rollouts[number] != nil
		i := slices.IndexFunc(a.ended, func(r muru.Rollout) bool { return r.Number == number })
		if unsaved || i < 0 {
			return nil
		}
		removed, l, r = true, a.past[number], a.ended[i]
		delete(a.past, number)
		a.ended = slices.Delete(slices.Clone(a.ended), i, i+1)
		a.e.setRollout(number, nil)
		a.publish()
		return nil
	}); err != nil || !removed {
		return false, err
	}
	failed := a.e.log.delete(ctx, []store.Op{store.Del(rolloutKey(number))})
	a.tell(func() {
		if failed != nil {
			a.dirty.unsure = a.dirty.unsure || errors.Is(failed, store.ErrUnknown)
			a.past[number] = l
			a.ended = slices.SortedFunc(slices.Values(append(slices.Clip(a.ended), r)), byNumber)
			a.publish()
			a.e.setRollout(number, a)
			return
		}
		delete(a.dirty.mods, rolloutKey(number))
	})
	return failed == nil, failed
}

// delete removes records, a transaction's worth at a time. A store in memory
// has none.
func (l *Log) delete(ctx context.Context, ops []store.Op) error {
	if l.disk == nil {
		return nil
	}
	for part := range slices.Chunk(ops, store.MaxOps) {
		var err error
		for range tries { // a second deletion does no harm
			if _, err = l.disk.store.Txn(ctx, nil, part, nil); !errors.Is(err, store.ErrUnknown) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes the events that a policy does not keep.
func (l *Log) remove(ctx context.Context, p Policy) (n int, err error) {
	l.mu.Lock()
	// By number: the few that a crash skips are taken for events.
	cut := 0
	if p.Events > 0 {
		cut = l.seq - p.Events
	}
	if p.EventAge > 0 {
		young := l.clock.Now().Add(-p.EventAge)
		i := slices.IndexFunc(l.events, func(e kept) bool { return !e.Time.Before(young) })
		switch {
		case i < 0:
			cut = l.seq
		case i > 0:
			cut = max(cut, l.events[i].Seq-1)
		case l.disk != nil && len(l.events) > 0:
			// All in memory are young enough: the store decides about the rest.
			first := l.events[0].Seq
			l.mu.Unlock()
			old, err := l.disk.newestBefore(ctx, first, young)
			if err != nil {
				return 0, err
			}
			cut = max(cut, old)
			l.mu.Lock()
		}
	}
	before := len(l.events)
	l.events = slices.Clone(l.events[min(len(l.events), l.indexLocked(cut+1)):])
	n = before - len(l.events)
	if l.disk != nil {
		l.disk.removed = max(l.disk.removed, cut) // also what is being read just now
	}
	l.mu.Unlock()
	if l.disk == nil || cut <= 0 {
		return n, nil
	}
	return l.disk.removeUpTo(ctx, cut)
}

// indexLocked finds where the event of that number or the next is in memory.
func (l *Log) indexLocked(seq int) int { return indexOf(l.events, seq) }

// newestBefore finds the newest event on disk that is older than a time,
// among those numbered below first; 0: none.
func (d *logDisk) newestBefore(ctx context.Context, first int, young time.Time) (int, error) {
	for first > 1 {
		events, more, err := d.page(ctx, keyEvents, eventKey(first), pageSize)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			if e.Time.Before(young) {
				return e.Seq, nil
			}
			first = e.Seq
		}
		if !more {
			break
		}
	}
	return 0, nil
}

// removeUpTo removes the events up to a number from the store.
func (d *logDisk) removeUpTo(ctx context.Context, last int) (n int, err error) {
	to := eventKey(last + 1)
	for {
		page, err := d.store.Range(ctx, keyEvents, to, store.RangeOpt{Limit: pageSize, Keys: true})
		if err != nil || len(page.KVs) == 0 {
			return n, err
		}
		_, end := store.Only(page.KVs[len(page.KVs)-1].Key)
		for range tries {
			if _, err = d.store.Txn(ctx, nil, []store.Op{store.DelRange(keyEvents, end)}, nil); !errors.Is(err, store.ErrUnknown) {
				break
			}
		}
		if err != nil {
			return n, err
		}
		n += len(page.KVs)
		if !page.More {
			return n, nil
		}
	}
}
