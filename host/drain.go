package host

import (
	"context"
	"slices"
	"time"

	"muru"
)

// cutGrace is how long requests that were cut may take to leave. A WebSocket
// takes a second to say goodbye; others may be blocked on writing to their
// client, which only the edge can end.
const cutGrace = 2 * time.Second

// drain waits for the requests that were in a release when it began.
//
// Each class has its deadline from the start of the drain; what is still
// there at the deadline of the class it then has is cut with
// [muru.ErrDrainCut]. A WebSocket then gets a close frame with the status 1001
// and a second to answer it (by the upstream client, which knows where its
// frames end); other upgraded connections are closed.
type drain struct {
	r      *release
	begun  time.Time
	done   chan struct{} // closed when all have left
	poked  chan struct{} // capacity 1: a request changed its class
	inside map[*request]struct{}
	cut    map[*request]bool
	result muru.Drained
}

// startDrain registers a drain with all that is in the release.
func (r *release) startDrain() *drain {
	d := &drain{
		r: r, begun: time.Now(), done: make(chan struct{}), poked: make(chan struct{}, 1),
		cut: make(map[*request]bool),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.inside = make(map[*request]struct{}, len(r.inside))
	for q := range r.inside {
		d.inside[q] = struct{}{}
		q.drains = append(q.drains, d)
	}
	if len(d.inside) == 0 {
		close(d.done)
	}
	return d
}

// left is called when a request has ended. The release's mu is held.
func (d *drain) left(q *request) {
	delete(d.inside, q)
	if len(d.inside) == 0 {
		close(d.done)
	}
}

// poke is called when a request has changed its class.
func (d *drain) poke() {
	select {
	case d.poked <- struct{}{}:
	default:
	}
}

// wait waits until all have left, cutting each class at its deadline. It ends
// early with ctx's cause.
func (d *drain) wait(ctx context.Context) (muru.Drained, error) {
	limits := d.r.plan.Timeouts
	deadlines := []time.Duration{limits.Drain, limits.Stream, limits.WebSocket}
	slices.Sort(deadlines)
	timer := time.NewTimer(deadlines[0])
	defer timer.Stop()
	var err error
	for next := 0; ; {
		select {
		case <-d.done:
			return d.finish(), nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-d.poked:
			d.cutLate()
			continue
		case <-timer.C:
			d.cutLate()
			next++
		}
		if err != nil {
			return d.finish(), err
		}
		if next == len(deadlines) {
			break
		}
		timer.Reset(time.Until(d.begun.Add(deadlines[next])))
	}
	grace := time.NewTimer(cutGrace)
	defer grace.Stop()
	select {
	case <-d.done:
	case <-grace.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return d.finish(), err
}

// finish leaves the requests that are still there alone.
func (d *drain) finish() muru.Drained {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	for q := range d.inside {
		q.drains = slices.DeleteFunc(q.drains, func(other *drain) bool { return other == d })
	}
	d.result.Took = time.Since(d.begun)
	return d.result
}

// cutLate cuts what is past the deadline of its class.
func (d *drain) cutLate() {
	r, after := d.r, time.Since(d.begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := range d.inside {
		if d.cut[q] || q.cut != nil {
			continue
		}
		limit := r.plan.Timeouts.Drain
		switch q.class {
		case stream:
			limit = r.plan.Timeouts.Stream
		case upgraded:
			limit = r.plan.Timeouts.WebSocket
		}
		if after >= limit {
			d.cut[q] = true
			d.count(q)
			r.cutLocked(q, muru.ErrDrainCut)
		}
	}
}

// count counts a request that is cut. The release's mu is held.
func (d *drain) count(q *request) {
	switch q.class {
	case stream:
		d.result.Streams++
	case upgraded:
		d.result.WebSockets++
	default:
		d.result.Requests++
	}
}

// Drain waits for the requests that are in the release at the call, cuts each
// class of them at its deadline (the release's timeouts drain, stream and
// websocket) and says what it cut. New requests are answered meanwhile. A
// release the host does not have has nothing to drain. When ctx ends first,
// its cause is returned and the requests go on.
func (h *Host) Drain(ctx context.Context, id muru.ReleaseID) (muru.Drained, error) {
	r := h.release(id)
	if r == nil {
		return muru.Drained{}, nil
	}
	return r.startDrain().wait(ctx)
}

// InFlight counts what is in the release now, the queue included.
func (h *Host) InFlight(id muru.ReleaseID) (requests, streams, websockets int) {
	r := h.release(id)
	if r == nil {
		return 0, 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[plain], r.count[stream], r.count[upgraded]
}
