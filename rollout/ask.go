package rollout

import (
	"context"
	"maps"
	"slices"
	"time"

	"muru"
)

// ask runs a change that somebody asks for: it is refused, and leaves no
// trace, if it cannot be written. While nothing can be written it is not even
// begun, so that the edge's table does not go back and forth.
func (a *actor) ask(ctx context.Context, fn func() error) error {
	if err := a.e.log.writable(); err != nil { // here: it may take long, and the actor has verdicts to heed
		return unwritten(err)
	}
	return a.do(ctx, func() error {
		a.before = a.image()
		defer func() { a.before = nil }()
		return fn()
	})
}

// urge runs a change that takes something out of traffic, which is not put
// off because of a disk. If it is in force but not written, the error says so:
// nobody is told of a change that a crash would take back.
func (a *actor) urge(ctx context.Context, fn func() error) error {
	return a.do(ctx, func() error {
		if err := fn(); err != nil {
			return err
		}
		return a.ahead()
	})
}

// ahead is an error while the app is ahead of its state file, for those who
// would otherwise be told that something is done.
func (a *actor) ahead() error {
	failure := a.e.log.failure()
	if !a.dirty.any() && a.later == nil || failure == nil {
		return nil
	}
	err := muru.Errorf(muru.KindFailed, "it is in force, but a restart would undo it: %w", failure)
	return err.WithHint("make room for the state file; it is written as soon as it can be")
}

// An image is what an app was before a call that may have to be undone.
type image struct {
	route     muru.Route
	split     muru.Split
	splitRun  int
	off       bool
	last      int
	releases  []*release
	states    []releaseState
	history   []int
	regretted map[int]bool
	reverted  reverted
	honoured  map[int]time.Time
	changing  *release
	live      *live
	was       live // what live pointed to
	queue     []*live
	ended     []muru.Rollout
	lookAt    time.Time
}

type releaseState struct {
	state   muru.ReleaseState
	message string
}

// image remembers the app as it is.
func (a *actor) image() *image {
	i := &image{
		route: a.route, split: a.split, splitRun: a.splitRun, off: a.off, last: a.last,
		releases: slices.Clone(a.releases), history: slices.Clone(a.history), regretted: maps.Clone(a.regretted),
		reverted: a.reverted, honoured: maps.Clone(a.honoured), changing: a.changing, live: a.live,
		queue: a.queue, ended: a.ended, lookAt: a.lookAt,
	}
	for _, r := range a.releases {
		i.states = append(i.states, releaseState{r.State, r.Message})
	}
	if a.live != nil {
		i.was = *a.live
	}
	return i
}

// undo makes the app again what it was before the call, and tells the edge.
func (a *actor) undo() {
	i := a.before
	a.route, a.split, a.splitRun, a.off, a.last = i.route, i.split, i.splitRun, i.off, i.last
	a.releases, a.history, a.regretted, a.reverted = i.releases, i.history, i.regretted, i.reverted
	a.honoured, a.changing, a.ended, a.lookAt = i.honoured, i.changing, i.ended, i.lookAt
	for n, s := range i.states {
		a.releases[n].State, a.releases[n].Message = s.state, s.message
	}
	for _, l := range a.queue {
		if !slices.Contains(i.queue, l) { // it was to be new
			a.e.forgetRollout(l.Number)
		}
	}
	a.queue = i.queue
	if a.live != nil && a.live != i.live { // it was to be new
		a.feed.detach(a.live.examiner.judge)
		a.live.examiner.end()
		a.e.forgetRollout(a.live.Number)
	}
	a.dirty.forget(a)
	if i.live != nil {
		a.undoRollout(i)
	} else {
		a.live = nil
	}
	a.feed.recent.follow(a.split.Baseline())
	a.swap()
	a.publish()
}

// undoRollout makes the live rollout again what it was. A window that had
// ended with its step begins anew, with what was served of the hold.
func (a *actor) undoRollout(i *image) {
	l := i.live
	ended, moved := a.live == nil, l.Step == nil || l.Step.Number != i.was.Step.Number
	*l = i.was
	a.live = l
	delete(a.past, l.Number)
	if ended {
		a.feed.attach(l.examiner.judge)
	}
	if moved && l.swapped {
		a.openWindow(a.e.clock.Now())
	}
}

// forget drops what is dirty of an app that does not have it any more.
func (d *dirty) forget(a *actor) {
	for n := range d.releases {
		if a.numbered(n) == nil {
			delete(d.releases, n)
		}
	}
	for n := range d.rollouts {
		if a.e.rolloutOf(n) == nil {
			delete(d.rollouts, n)
		}
	}
}
