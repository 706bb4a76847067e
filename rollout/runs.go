package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muru"
	"muru/store"
)

// run is what the engine knows of a recipe's run.
type run struct {
	started time.Time
	by      string
}

// A CancelledError is the cause of the end of a run that somebody cancelled,
// for [Engine.EndRun].
type CancelledError struct{ By string }

func (e *CancelledError) Error() string { return "cancelled by " + e.By }

// BeginRun numbers a run and says that it has started. Calls made for it
// carry the number, so that [Engine.EndRun] can release what it owns.
func (e *Engine) BeginRun(file, args, by string) int {
	number := e.runCounter.next(e, func(number int) muru.Event {
		return runEvent(number, muru.LevelNotice, muru.RunStarted, by, eventRunStarted(file, args, by))
	})
	e.mu.Lock()
	e.runs[number] = &run{started: e.clock.Now(), by: by}
	e.mu.Unlock()
	return number
}

// A runCounter numbers the runs.
type runCounter struct {
	mu   sync.Mutex // held while a number is written; guards what is below
	last int
	mod  store.Rev // when it was written last
}

// next takes a number, which is on disk before anybody sees it: it will not
// be given again after a crash. A disk that takes nothing does not keep a run
// from starting; its first change will be refused.
func (c *runCounter) next(e *Engine, started func(number int) muru.Event) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	event := started(c.last)
	if e.log.disk == nil {
		e.log.Append(event)
		return c.last
	}
	w := write{keyRunCounter, encodeCounter(c.last), c.mod}
	rev, err := e.log.commit([]write{w}, []muru.Event{event})
	if err != nil {
		e.log.Append(event)
		if errors.Is(err, store.ErrUnknown) {
			c.find(e)
		}
		return c.last
	}
	c.mod = rev
	return c.last
}

func runEvent(number int, level muru.Level, kind, by, message string) muru.Event {
	return muru.Event{
		Level: level, Kind: kind, Subject: fmt.Sprintf("run %d", number), Message: message, By: by,
		Data: map[string]any{"run": number},
	}
}

// find reads when the counter was written last. If that cannot be found out,
// the next number is not written either.
func (c *runCounter) find(e *Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	if kv, _, err := e.log.disk.store.Get(ctx, keyRunCounter); err == nil || errors.Is(err, store.ErrNotFound) {
		c.mod = kv.Mod
	}
}

// EndRun ends a run and releases what it owns. One that finished waits for
// the live rollouts it started, until ctx ends. One that failed or was
// cancelled leaves no share behind: its live rollouts are aborted and its
// split() shares put back; held releases stay, and a promotion is not undone.
// err is why it failed; a [CancelledError] in it names who cancelled it, without
// one it was who started it. Ending a run twice does nothing; one whose wait was
// ended by ctx has not ended and is to be ended as cancelled. ctx must not be
// the run's own, which may have ended.
func (e *Engine) EndRun(ctx context.Context, number int, how RunEnd, err error) error {
	if how == RunFinished {
		if err := e.awaitRollouts(ctx, number); err != nil {
			return err
		}
	}
	r := e.forgetRun(number)
	if r == nil {
		return nil
	}
	if how == RunFinished {
		e.log.Append(runEvent(number, muru.LevelNotice, muru.RunFinished, r.by, eventRunFinished(e.clock.Now().Sub(r.started))))
		return nil
	}
	released, failed := e.putBack(ctx, number, how)
	kind, level, by, why := muru.RunFailed, muru.LevelError, r.by, "it ended without saying why"
	if err != nil {
		why = err.Error()
	}
	if how == RunCancelled {
		if cancelled, ok := errors.AsType[*CancelledError](err); ok {
			by = cancelled.By
		}
		kind, level, why = muru.RunCancelled, muru.LevelWarning, "by "+Caller{By: by}.who()
	}
	e.log.Append(runEvent(number, level, kind, by, eventRunEnded(why, released)))
	return failed
}

// forgetRun returns a run and forgets it and what its calls have made; nil if
// it has ended before.
func (e *Engine) forgetRun(number int) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[number]
	delete(e.runs, number)
	for key := range e.made {
		if key.run == number {
			delete(e.made, key)
		}
	}
	return r
}

// awaitRollouts waits until the rollouts of a run have ended, however.
func (e *Engine) awaitRollouts(ctx context.Context, number int) error {
	for _, a := range e.all() {
		for _, r := range a.view.Load().rollouts {
			if r.Run != number || !r.Live() {
				continue
			}
			if _, err := e.WaitRollout(ctx, r.Number, nil); err != nil && ctx.Err() != nil {
				return fmt.Errorf("wait for rollout %d of run %d: %w", r.Number, number, err)
			}
		}
	}
	return nil
}

// putBack aborts a run's rollouts and puts its shares back, and says what it
// did. It goes on past an app that cannot be reached and returns the first
// such error.
func (e *Engine) putBack(ctx context.Context, number int, how RunEnd) (released []string, failed error) {
	by := Caller{Run: number, By: fmt.Sprintf("run %d", number)}
	reason := "the run failed"
	if how == RunCancelled {
		reason = "the run was cancelled"
	}
	for _, a := range e.all() {
		err := a.do(ctx, func() error {
			if a.live != nil && a.live.Run == number {
				n := a.live.Number
				if a.live.plan.OnFail == OnFailFreeze {
					a.freeze(reason)
					released = append(released, frozenRollout(n))
				} else {
					a.abortLive(by, reason)
					released = append(released, releasedRollout(n))
				}
			}
			for _, l := range slices.Clone(a.queue) {
				if l.Run == number {
					a.endQueued(l, by, reason)
					released = append(released, releasedRollout(l.Number))
				}
			}
			if a.splitRun == number && a.live == nil && len(a.split.Arms) > 1 {
				next, _ := muru.NewSplit("", a.split.Baseline())
				if err := a.setSplit(next, by); err != nil {
					return err
				}
				released = append(released, releasedSplit(a.name))
			}
			return nil
		})
		if err != nil && failed == nil {
			failed = fmt.Errorf("release what run %d owns of %s: %w", number, a.name, err)
		}
	}
	return released, failed
}
