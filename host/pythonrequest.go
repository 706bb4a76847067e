package host

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"muru"
	"muru/host/wire"
)

// gatherLimit is how much of a plain answer is gathered before any of it goes
// to the client: a thread whose answer fits is free for the next request
// whatever the client's connection is like.
const gatherLimit = 64 << 10

// cancelGrace is how long a worker's thread may take to end a request that
// was cancelled, before its connection is closed.
const cancelGrace = 5 * time.Second

// serveLink gives q to a python worker's thread and passes on the answer.
// again reports that the thread provably did not start it.
func (r *release) serveLink(q *request, t turn) (out muru.Outcome, again bool) {
	s, link, id := t.slot, q.link, q.id
	out.Worker = s.w.number
	err := t.sendErr
	if !t.sent {
		err = link.Send(q.send, id)
	}
	answer := &q.gather
	*answer = gather{r: r, q: q, link: link, id: id}
	defer answer.recycle()
	var result wire.Result
	if err == nil {
		result, err = link.Receive(id, answer)
	}
	if broken, ok := errors.AsType[*wire.BodyError](err); ok {
		hand(r.free(q))
		out.Err = bodyCause(broken)
		return out, false
	}
	if err != nil {
		r.lose(s, link, err)
		return r.failed(q, s, answer, err)
	}
	hand(r.free(q))
	if cut := r.ended(q); cut != nil {
		out.Err = cut // in the moment the answer was complete: it is told, not passed
		return out, false
	}
	answer.finish(result)
	if result.Surplus {
		s.w.order(func() { s.w.violated("broke the protocol: answered a request twice") })
	}
	return answer.outcome(out, result), false
}

// prepareBody makes q's body one whose reads are waits for the client, once it
// has been read ahead (ahead.go); held is what that takes of aheadTotal. A
// python worker's small one is read so that the request can be given to another
// worker. The time is no part of the queue wait: the queue comes after.
func (r *release) prepareBody(q *request) (held int64, err error) {
	began := time.Now()
	q.send = q.x.Again()
	q.send.Body = patientBody{q.x.Body, &q.patience}
	if r.plan.Kind == muru.Python {
		err = wire.Gather(q.send)
	}
	switch {
	case err != nil:
	case q.inMemory():
		q.x.Body = q.send.Body // whoever gets it when this release is leaving needs it, too
	default:
		held, err = r.readAhead(q)
		q.send.Body = patientBody{q.x.Body, &q.patience}
	}
	q.x.Arrived = q.x.Arrived.Add(time.Since(began))
	q.send.Arrived = q.x.Arrived
	if broken, ok := errors.AsType[*wire.BodyError](err); ok {
		err = bodyCause(broken)
	}
	return held, err
}

// inMemory reports whether all of the request is there, so that sending it
// does not wait for its client.
func (q *request) inMemory() bool {
	if q.send.Body == nil {
		return true
	}
	_, reads := q.send.Body.(patientBody)
	return !reads
}

// bodyCause is the cause of a body that could not be read: what the edge's
// reader said, or else that the client left in the middle of it.
func bodyCause(err *wire.BodyError) error {
	if muru.ClientFault(err) {
		return err
	}
	return errors.Join(muru.ErrClientGone, err)
}

// failed says how q ended on a connection that broke.
func (r *release) failed(q *request, s *slot, answer *gather, err error) (out muru.Outcome, again bool) {
	out = muru.Outcome{Worker: s.w.number}
	cut := r.ended(q)
	// A peer that closes with our bytes unread resets the connection: it
	// never had the whole request. Linux says so on unix sockets.
	notStarted := errors.Is(err, wire.ErrNotSent) ||
		errors.Is(err, syscall.ECONNRESET) && q.inMemory() && !answer.begun
	if cut == nil && notStarted && q.tries < maxTries+len(r.seats) {
		q.tries++
		r.rest(s.w) // its other threads are likely to be as dead
		hand(r.free(q))
		return out, true
	}
	if cut == nil {
		r.casualty(s.w, q.x.Path)
	}
	hand(r.free(q))
	switch {
	case cut != nil:
		out.Err = cut
	case answer.err != nil:
		out.Err = answer.err
	default:
		out.Err = muru.ErrWorkerDied
	}
	return out, false
}

// lose forgets a connection that broke and tells the worker's supervisor. A
// connection that was closed between two requests is no fault: the worker is
// dying, which its supervisor sees, or the thread connects again.
func (r *release) lose(s *slot, link *wire.Link, err error) {
	_ = link.Close()
	r.mu.Lock()
	ours := s.link == link
	if ours {
		s.link = nil
	}
	r.mu.Unlock()
	if !ours {
		return // we closed it ourselves
	}
	if broke, ok := errors.AsType[*wire.ProtocolError](err); ok {
		s.w.order(func() { s.w.violated(broke.Error()) })
	} else if !errors.Is(err, wire.ErrNotSent) {
		s.w.order(s.w.hungUp)
	}
}

// cancelStream ends a stream whose client has left at the worker.
func (r *release) cancelStream(q *request, link *wire.Link, id uint32) {
	link.Cancel(id)
	time.AfterFunc(cancelGrace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if q.link == link && q.id == id {
			r.cutLocked(q, muru.ErrClientGone)
		}
	})
}

// gather takes an answer from the wire. A plain one is kept until it is
// complete or too large; a stream goes to the client as it comes.
type gather struct {
	r    *release
	q    *request
	link *wire.Link
	id   uint32

	begun  bool // the worker sent a head
	passed bool // the head went to the client
	stream bool
	err    error

	status int
	header []muru.Field
	length int64
	body   *[]byte // of bodies
}

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// Head implements [wire.AnswerHandler].
func (g *gather) Head(status int, header []muru.Field, length int64) error {
	g.begun = true
	g.status, g.header, g.length = status, slices.Clone(header), length
	if muru.IsStream(g.q.x.Method, status, header, length) {
		g.stream = true
		g.pass(nil)
		g.r.reclass(g.q, stream)
	}
	return nil
}

// Body implements [wire.AnswerHandler].
func (g *gather) Body(p []byte) error {
	if g.err != nil {
		return nil
	}
	if !g.passed {
		if g.body == nil {
			g.body = bodies.Get().(*[]byte)
		}
		if len(*g.body)+len(p) <= gatherLimit {
			*g.body = append(*g.body, p...)
			return nil
		}
	}
	g.pass(p)
	return nil
}

// pass sends what was gathered and then p to the client.
func (g *gather) pass(p []byte) {
	if g.err != nil {
		return
	}
	g.q.patience.begin()
	defer g.q.patience.end()
	to := g.q.x.Answer
	if !g.passed {
		g.passed = true
		g.err = to.Head(g.status, g.header, g.length)
	}
	if g.body != nil && len(*g.body) > 0 {
		g.write(*g.body)
		*g.body = (*g.body)[:0]
	}
	if len(p) > 0 {
		g.write(p)
	}
	if g.stream && g.err == nil {
		g.err = to.Flush()
	}
	if g.err != nil && g.stream {
		g.link.Cancel(g.id)
	}
}

func (g *gather) write(p []byte) {
	if g.err == nil {
		_, g.err = g.q.x.Answer.Write(p)
	}
}

// finish sends the rest of an answer that is complete. The slot is somebody
// else's by now.
func (g *gather) finish(result wire.Result) {
	if g.begun && !result.Raised && !result.Reset {
		g.pass(nil)
	}
}

// recycle gives the buffer back.
func (g *gather) recycle() {
	if g.body != nil {
		*g.body = (*g.body)[:0]
		bodies.Put(g.body)
		g.body = nil
	}
}

// outcome says how an answer ended that the wire brought to its end.
func (g *gather) outcome(out muru.Outcome, result wire.Result) muru.Outcome {
	left := g.err
	if left == nil {
		select {
		case <-g.q.left:
			left = muru.ErrClientGone
		default:
		}
	}
	switch {
	case left != nil && (g.err != nil || !g.passed || result.Reset):
		out.Err, out.Answered = left, !result.Reset
	case result.Raised, result.Reset:
		out.Err = muru.ErrApp
	default:
		out.Answered = true
	}
	return out
}
