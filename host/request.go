package host

import (
	"errors"
	"io"
	"sync"
	"time"

	"muru"
	"muru/host/wire"
)

// class is what a request counts as when its release drains.
type class uint8

const (
	plain    class = iota
	stream         // its answer's head was sent and it is a stream
	upgraded       // upgraded, to whatever protocol
)

// request is one call of [release.Do] on its way.
type request struct {
	x    *muru.Exchange
	send *muru.Exchange  // x, or a copy with another body
	left <-chan struct{} // closed when the client has gone
	turn chan turn       // capacity 1; nil unless it had to wait

	patience patience
	life     life      // at a server that speaks HTTP
	relay    relay     // likewise
	gather   gather    // at a Python worker
	entered  time.Time // the queue

	// Guarded by the release's mu.
	prev, next *request // in the queue
	queued     bool
	slot       *slot      // it is on; nil while queued
	link       *wire.Link // of the slot, for python
	id         uint32     // on that link
	class      class
	cut        error       // why muru ended it; nil if it did not
	drains     []*drain    // that wait for it
	hard, soft *time.Timer // nil when off
	began      time.Time   // dispatched
	tries      int         // workers that had it before
}

// turn ends a request's wait: it got a slot, or err says why not.
type turn struct {
	slot    *slot
	sent    bool  // it was already sent on the slot's link
	sendErr error // by whoever sent it
	err     error
}

// patience adds up the time a request was blocked on its client: on reading
// its body, on writing to it, or on both at once, which counts once. That time
// does not count against timeouts. It is safe for concurrent use.
type patience struct {
	mu      sync.Mutex // guards all below
	total   time.Duration
	blocked int       // in how many ways, now
	since   time.Time // when it became blocked in the first of them
}

func (p *patience) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked++; p.blocked == 1 {
		p.since = time.Now()
	}
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked--; p.blocked == 0 {
		p.total += time.Since(p.since)
	}
}

// reset forgets what was before the request was dispatched.
func (p *patience) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.since = 0, time.Now()
}

// ran is how long a request that began then has run at now.
func (p *patience) ran(began, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := now.Sub(began) - p.total
	if p.blocked > 0 {
		ran -= now.Sub(p.since)
	}
	return max(0, ran)
}

// patientBody is a request's body whose reads are waits for the client.
type patientBody struct {
	io.Reader
	patience *patience
}

// SetReadDeadline lets an upstream client interrupt a blocked Read, if the
// edge's body can be interrupted.
func (b patientBody) SetReadDeadline(t time.Time) error {
	if body, ok := b.Reader.(interface{ SetReadDeadline(time.Time) error }); ok {
		return body.SetReadDeadline(t)
	}
	return errors.ErrUnsupported
}

func (b patientBody) Read(p []byte) (int, error) {
	b.patience.begin()
	defer b.patience.end()
	return b.Reader.Read(p)
}

// slot is a place for one request at a time: a thread of a python worker, or
// one of the requests a command worker or external server may have at once.
type slot struct {
	w     *worker // nil for an external server
	index int

	// Guarded by the release's mu.
	req    *request   // on it now
	link   *wire.Link // nil: the thread is not connected
	ident  uint64     // of the thread
	lastID uint32
	stuck  *onSlot // the request that ran past the hard timeout on it
}

// onSlot is what is told of a request on a slot.
type onSlot struct {
	id, method, path string
	began            time.Time
}

// load is how many requests its worker has. The release's mu is held.
func (s *slot) load() int {
	if s.w == nil {
		return 0
	}
	return s.w.busy
}

// usable reports whether a request can be given to it. The release's mu is
// held.
func (s *slot) usable() bool {
	if s.w == nil {
		return true
	}
	return s.w.state == muru.WorkerReady && !s.w.resting && (s.link != nil || s.w.client != nil)
}

// queue is the requests that wait, first come first served, linked through
// themselves so that any of them can leave.
type queue struct {
	first, last *request
	len         int
}

func (q *queue) pushBack(r *request) {
	r.queued, r.prev, r.next = true, q.last, nil
	if q.last != nil {
		q.last.next = r
	} else {
		q.first = r
	}
	q.last = r
	q.len++
}

func (q *queue) pushFront(r *request) {
	r.queued, r.prev, r.next = true, nil, q.first
	if q.first != nil {
		q.first.prev = r
	} else {
		q.last = r
	}
	q.first = r
	q.len++
}

func (q *queue) remove(r *request) {
	if !r.queued {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.last = r.prev
	}
	r.queued, r.prev, r.next = false, nil, nil
	q.len--
}
