package host

import (
	"errors"
	"io"
	"time"

	"muru"
	"muru/host/upstream"
)

// workerRest is how long a worker that refused or broke a connection gets no
// request.
const workerRest = 20 * time.Millisecond

// serveHTTP gives q to a command worker (s is one of its slots) or to an
// external server (s is nil unless its requests are bounded) and passes on
// the answer. again reports that the server provably did not get it.
func (r *release) serveHTTP(q *request, s *slot) (out muru.Outcome, again bool) {
	out.Worker = -1
	client := r.external
	if s != nil && s.w != nil {
		client, out.Worker = s.w.client, s.w.number
	}
	q.relay = relay{r: r, q: q, to: q.x.Answer}
	err := client.Do(&q.life, q.send, upstream.Hooks{Answer: &q.relay})
	cut := r.ended(q)
	if cut == nil && errors.Is(err, upstream.ErrConnect) && s != nil && s.w != nil && q.tries < maxTries+len(r.seats) {
		q.tries++
		r.rest(s.w)
		hand(r.free(q))
		return out, true
	}
	if s != nil && s.w != nil && cut == nil && errors.Is(err, upstream.ErrReset) {
		r.casualty(s.w, q.x.Path)
		r.rest(s.w)
	}
	hand(r.free(q))
	out.Err, out.Answered = r.httpOutcome(q, s, err, cut)
	return out, false
}

// httpOutcome turns an upstream client's error into a cause.
func (r *release) httpOutcome(q *request, s *slot, err, cut error) (cause error, answered bool) {
	gone, isGone := errors.AsType[*upstream.GoneError](err)
	switch {
	case err == nil:
		if r.plan.Kind == muru.External {
			r.externalUp()
		}
		if cut != nil && !errors.Is(cut, muru.ErrDrainCut) {
			return cut, false
		}
		return nil, true
	case cut != nil:
		return cut, false
	case isGone:
		return err, gone.Answered
	case muru.ClientFault(err):
		return err, false
	case errors.Is(err, upstream.ErrConnect), errors.Is(err, upstream.ErrReset):
		if s == nil || s.w == nil {
			r.externalDown(err)
		} else {
			r.log.say(s.w.number, "%v (request %s)", err, q.x.ID)
		}
		return muru.ErrWorkerDied, false
	default:
		return errors.Join(muru.ErrWorkerDied, err), false
	}
}

// relay passes an upstream answer on, tells the release what the request has
// become, and times the client.
type relay struct {
	r  *release
	q  *request
	to muru.Answer
}

// Inform implements [muru.Answer].
func (a *relay) Inform(status int, header []muru.Field) error {
	a.q.patience.begin()
	defer a.q.patience.end()
	return a.to.Inform(status, header)
}

// Head implements [muru.Answer].
func (a *relay) Head(status int, header []muru.Field, length int64) error {
	if muru.IsStream(a.q.x.Method, status, header, length) {
		a.r.reclass(a.q, stream)
	}
	a.q.patience.begin()
	defer a.q.patience.end()
	return a.to.Head(status, header, length)
}

// Write implements [muru.Answer].
func (a *relay) Write(p []byte) (int, error) {
	a.q.patience.begin()
	defer a.q.patience.end()
	return a.to.Write(p)
}

// Flush implements [muru.Answer].
func (a *relay) Flush() error {
	a.q.patience.begin()
	defer a.q.patience.end()
	return a.to.Flush()
}

// Trailer implements [muru.Answer].
func (a *relay) Trailer(fields []muru.Field) error { return a.to.Trailer(fields) }

// Upgrade implements [muru.Answer].
func (a *relay) Upgrade(status int, header []muru.Field) (io.ReadWriteCloser, error) {
	client, err := a.to.Upgrade(status, header)
	if err == nil {
		a.r.reclass(a.q, upgraded)
	}
	return client, err
}

// rest gives a worker no request for a moment: it refused or broke a
// connection, so most likely it is dying, and its supervisor sees that soon.
// A request that is given to it meanwhile would be lost.
func (r *release) rest(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.resting {
		return
	}
	w.resting = true
	r.dropIdle(w)
	time.AfterFunc(workerRest, func() {
		r.mu.Lock()
		w.resting = false
		given := r.offerAll(w)
		r.mu.Unlock()
		given.hand()
	})
}
