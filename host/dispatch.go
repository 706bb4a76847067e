package host

import (
	"context"
	"errors"
	"time"

	"muru"
)

// maxTries is how often a request is offered again, beyond once for each
// worker there is (all may have been killed at once), when the ones before
// provably did not start it.
const maxTries = 4

var _ muru.BusyBackend = (*release)(nil)

// Do implements [muru.Backend].
//
// The request's own goroutine does everything: it claims a slot or waits for
// one, sends the request, receives the answer and, before it writes that to
// its client, gives the slot to the next request in the queue and sends that
// one if it has no body. A request so costs one wake-up when a slot is free,
// and two when it had to wait.
func (r *release) Do(ctx context.Context, x *muru.Exchange) muru.Outcome {
	q := &request{x: x, send: x, left: ctx.Done()}
	if x.Body != nil {
		held, err := r.prepareBody(q)
		defer r.ahead.Add(-held)
		if err != nil {
			return muru.Outcome{Err: err, Worker: -1}
		}
	}
	t, waits := r.enter(q)
	if t.err != nil {
		return muru.Outcome{Err: t.err, Worker: -1}
	}
	defer r.leave(q)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { r.depart(q, context.Cause(ctx)) })
		defer stop()
	}
	for {
		if waits {
			t = r.wait(q)
		}
		if t.err != nil {
			return muru.Outcome{Err: t.err, Worker: -1}
		}
		var out muru.Outcome
		var again bool
		if t.slot == nil || r.plan.Kind != muru.Python {
			out, again = r.serveHTTP(q, t.slot)
		} else {
			out, again = r.serveLink(q, t)
		}
		if !again {
			return out
		}
		waits = true
		r.enterAgain(q)
	}
}

// Busy implements [muru.BusyBackend].
func (r *release) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.len > 0 || !r.unbounded && len(r.idle) == 0
}

// depart is called when a request's context ends: its client has left, or,
// with the cause [muru.ErrDrainCut], whoever gave it to us wants it ended.
// When the client has left, a plain request keeps its place and its slot until
// the worker answers, because the worker works on it until then; a stream or
// upgraded connection ends at the worker at once, and so does a plain request
// to an external server, whose capacity we do not manage.
func (r *release) depart(q *request, cause error) {
	if errors.Is(cause, muru.ErrDrainCut) {
		r.cut(q, muru.ErrDrainCut)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.class == plain && r.plan.Kind != muru.External {
		return
	}
	switch {
	case r.plan.Kind != muru.Python:
		q.life.end(muru.ErrClientGone)
	case q.slot != nil && q.link != nil:
		go r.cancelStream(q, q.link, q.id)
	}
}

// enter registers a request and claims a slot for it, or queues it.
func (r *release) enter(q *request) (t turn, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return turn{err: muru.ErrDraining}, false
	case r.unbounded:
		r.claim(q, nil)
	case r.queue.len == 0 && len(r.idle) > 0:
		t.slot = r.popIdle()
		r.claim(q, t.slot)
	case r.queue.len >= r.plan.Limits.Queue:
		return turn{err: muru.ErrQueueFull}, false
	default:
		q.turn, q.entered = make(chan turn, 1), time.Now()
		r.queue.pushBack(q)
		waits = true
	}
	r.inside[q] = struct{}{}
	r.count[q.class]++
	return t, waits
}

// enterAgain puts a request that a worker provably did not start in front of
// the queue, or gives it an idle slot.
func (r *release) enterAgain(q *request) {
	r.mu.Lock()
	if q.turn == nil {
		q.turn, q.entered = make(chan turn, 1), time.Now()
	}
	if q.cut != nil || r.ending {
		err := q.cut
		if err == nil {
			err = muru.ErrWorkerDied // and no other will come
		}
		q.turn <- turn{err: err}
		r.mu.Unlock()
		return
	}
	r.queue.pushFront(q)
	next, s := r.matchIdle()
	r.mu.Unlock()
	hand(next, s)
}

// matchIdle claims an idle slot for the front of the queue, if there are both.
// mu is held; the caller hands the slot over after unlocking.
func (r *release) matchIdle() (*request, *slot) {
	if len(r.idle) == 0 {
		return nil, nil
	}
	next := r.popQueue()
	if next == nil {
		return nil, nil
	}
	s := r.popIdle()
	r.claim(next, s)
	return next, s
}

// popIdle takes the idle slot that was used last among those of the worker
// with the fewest requests: hot threads stay hot, but two requests at once go
// to two processes and do not share one interpreter. mu is held, and there is
// an idle slot.
func (r *release) popIdle() *slot {
	best := len(r.idle) - 1
	for i := best; i >= 0 && r.idle[best].load() > 0; i-- {
		if r.idle[i].load() < r.idle[best].load() {
			best = i
		}
	}
	s := r.idle[best]
	r.idle = append(r.idle[:best], r.idle[best+1:]...)
	return s
}

// wait waits for a queued request's turn, at most the queue timeout. A
// request whose client leaves goes on waiting as a tombstone: its wait is
// then as exact as anyone's, and dropped at its turn.
func (r *release) wait(q *request) turn {
	timer := time.NewTimer(r.plan.Timeouts.Queue - time.Since(q.entered))
	defer timer.Stop()
	select {
	case t := <-q.turn:
		return t
	case <-timer.C:
	}
	r.mu.Lock()
	if !q.queued {
		r.mu.Unlock()
		return <-q.turn // it came at the same moment
	}
	r.queue.remove(q)
	r.mu.Unlock()
	select {
	case <-q.left:
		return turn{err: muru.ErrClientGone}
	default:
		return turn{err: muru.ErrQueueTimeout}
	}
}

// claim puts q on s, which may be nil where nothing bounds an external
// server. mu is held.
func (r *release) claim(q *request, s *slot) {
	q.slot, q.link = s, nil
	q.began = time.Now()
	q.x.Start(q.began)
	q.patience.reset()
	if s != nil {
		s.req, s.stuck = q, nil
		q.link = s.link
		s.lastID++
		q.id = s.lastID
		if s.w != nil {
			s.w.busy++
			s.w.remember(q.x.Path)
		}
	}
	r.arm(q)
}

// popQueue takes the first live request out of the queue; tombstones before
// it have had their turn. mu is held.
func (r *release) popQueue() *request {
	for {
		q := r.queue.first
		if q == nil {
			return nil
		}
		r.queue.remove(q)
		select {
		case <-q.left:
			q.x.Start(time.Now())
			q.turn <- turn{err: muru.ErrClientGone}
		default:
			return q
		}
	}
}

// free takes q off its slot, for good or to be tried again, and claims the
// slot for the next request. The caller hands it over with [hand], before it
// does anything that may block. It is fine if q has no slot any more.
func (r *release) free(q *request) (*request, *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disarm(q)
	s := q.slot
	if s == nil {
		return nil, nil
	}
	q.slot, q.link = nil, nil
	s.req = nil
	if s.w != nil {
		s.w.busy--
		s.w.served++
		if s.w.state != muru.WorkerReady && s.w.busy == 0 {
			s.w.tellIdle()
		}
	}
	return r.offer(s)
}

// offer gives a slot without a request to the queue's first, or makes it
// idle. mu is held.
func (r *release) offer(s *slot) (*request, *slot) {
	if !s.usable() || s.req != nil {
		return nil, nil
	}
	if next := r.popQueue(); next != nil {
		r.claim(next, s)
		return next, s
	}
	r.idle = append(r.idle, s)
	return nil, nil
}

// gifts are requests that were each given a slot.
type gifts []turnOf

type turnOf struct {
	q *request
	s *slot
}

func (all gifts) hand() {
	for _, g := range all {
		hand(g.q, g.s)
	}
}

// offerAll offers all slots of a worker that waited for nothing so far. mu is
// held.
func (r *release) offerAll(w *worker) (given gifts) {
	for _, s := range w.slots {
		if s.req != nil || r.isIdle(s) {
			continue
		}
		if q, s := r.offer(s); q != nil {
			given = append(given, turnOf{q, s})
		}
	}
	return given
}

// hand wakes a request that was given a slot. A request whose client is not
// needed for it is sent here and now: the thread gets it one wake-up earlier.
// Not to a thread that is still at work in its iterable's close(): whoever
// hands it over would wait for that.
func hand(next *request, s *slot) {
	if next == nil {
		return
	}
	t := turn{slot: s}
	if next.link != nil && next.inMemory() && !next.link.Busy() {
		t.sent, t.sendErr = true, next.link.Send(next.send, next.id)
	}
	next.turn <- t
}

// leave forgets a request that has ended.
func (r *release) leave(q *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, q)
	r.count[q.class]--
	for _, d := range q.drains {
		d.left(q)
	}
}

// reclass makes q a stream or an upgraded connection: its timeouts end.
func (r *release) reclass(q *request, c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disarm(q)
	r.count[q.class]--
	q.class = c
	r.count[c]++
	for _, d := range q.drains {
		d.poke()
	}
	select {
	case <-q.left: // it left before there was anything to end
		go r.depart(q, muru.ErrClientGone)
	default:
	}
}

// cut ends q for cause, wherever it is; the first cause counts. Its Do
// returns as soon as it is not blocked on its client.
func (r *release) cut(q *request, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutLocked(q, cause)
}

func (r *release) cutLocked(q *request, cause error) {
	if q.cut != nil {
		return
	}
	q.cut = cause
	switch {
	case q.queued:
		r.queue.remove(q)
		q.turn <- turn{err: cause}
	case r.plan.Kind != muru.Python:
		q.life.end(cause)
	case q.slot != nil && q.link != nil:
		// The thread finds its connection closed when it answers, and
		// connects again; until then its slot is not usable.
		if q.slot.link == q.link {
			q.slot.link = nil
		}
		_ = q.link.Close()
	}
}

// ended returns why muru ended q, nil if it did not.
func (r *release) ended(q *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return q.cut
}
