package rollout

import (
	"context"
	"time"

	"muru"
)

// drain waits for what is in a release that has left the split and keeps it
// warm afterwards. On a sticky route it begins when the release's grace is
// over. It runs in the background and reports by events; a release that
// serves again before its end ends it.
func (a *actor) drain(r *release) {
	ctx, cancel := context.WithCancel(a.e.ctx)
	until, sticky := a.honoured[r.ID.Number]
	a.drains[r.ID.Number] = cancel
	a.e.spawn(func() {
		defer cancel()
		if sticky {
			if Sleep(ctx, a.e.clock, until.Sub(a.e.clock.Now())) != nil {
				return
			}
			a.tell(func() {
				if ctx.Err() == nil {
					delete(a.honoured, r.ID.Number)
					_ = a.commit(change{route: true}) // nobody asked
				}
			})
		}
		if ctx.Err() != nil {
			return
		}
		began := a.e.clock.Now()
		drained, err := a.e.host.Drain(ctx, r.ID)
		a.tell(func() {
			if ctx.Err() == nil {
				a.drained(r, drained, err, a.e.clock.Now().Sub(began))
			}
		})
	})
}

// drained files a release whose drain has ended as warm. A drain that could
// not be carried out leaves the release as it is for all we know: also warm.
func (a *actor) drained(r *release, d muru.Drained, err error, took time.Duration) {
	delete(a.drains, r.ID.Number)
	level, message := muru.LevelNotice, ""
	if d.Cut() {
		level = muru.LevelWarning
	}
	if err != nil {
		level, message = muru.LevelWarning, "drain: "+err.Error()
	}
	if d.Took > 0 {
		took = d.Took
	}
	_ = a.commit(change{ // nobody asked
		moves: []move{{release: r, to: muru.Warm, message: message}},
		events: []muru.Event{
			a.event(level, muru.ReleaseWarm, r.ID.String(), muruItself, eventWarm(took, d)),
		},
	})
	a.keepOnlyPrevious()
}
