package edge

import (
	"context"
	"net/http"
	"time"
)

// partingTime is how long Close goes on serving, at most, before it closes
// what is idle. A client that sends its next request at the moment its kept
// connection is closed sees the connection end without an answer, and may not
// repeat what is not safe to repeat. So every answer says Connection: close
// first, and whoever is talking to us ends their connection by themselves. One
// second is the pause between two requests of most that are at it; a client
// that is silent for longer is seldom about to send just when we close.
//
// The listeners stay open meanwhile: a new connection gets its answer, and
// ends with it. Closing them first would turn people away for a second longer
// whenever one browser keeps an idle connection, which is always. When they
// close, a new connection is refused by the system.
const partingTime = time.Second

// part serves until no connection is left that may get another request, or
// for partingTime, or until ctx ends.
func (e *Edge) part(ctx context.Context) {
	e.parting.Store(true)
	ctx, cancel := context.WithTimeout(ctx, partingTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for e.anyKept() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// lastCall is how long a listener that is to be closed waits for one more
// connection, and takeTime for the last of many. comingTime is how long Close
// waits for the rest of requests that have begun to come.
const (
	lastCall   = time.Millisecond
	takeTime   = 200 * time.Millisecond
	comingTime = 5 * time.Second
)

// takeLast closes the listeners and waits until no request is on its way in:
// a connection is new, or has sent a part of a head. net/http's Shutdown does
// not wait for those; it hangs up on a request whose head it reads afterwards,
// although its client was taken and is answered otherwise.
func (e *Edge) takeLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, comingTime)
	defer cancel()
	e.leaving.Store(true)
	for _, l := range e.listeners {
		if l, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
			_ = l.SetDeadline(past) // wakes Accept, which looks at leaving
		}
		enough := time.AfterFunc(takeTime, func() { l.Close() })
		defer enough.Stop()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for e.accepting.Load() > 0 || e.anyComing() {
		select {
		case <-tick.C:
			e.hangUp()
		case <-ctx.Done():
			return
		}
	}
}

// anyComing reports whether a connection may have a request that we have not
// heard of yet.
func (e *Edge) anyComing() (coming bool) {
	e.conns.Range(func(key, _ any) bool {
		c := key.(*conn)
		coming = c.coming.Load() || !c.heard.Load() && time.Since(c.born) < partingTime
		return !coming
	})
	return coming
}

// hangUp closes connections that have sent nothing for partingTime since they
// were accepted: browsers open some that they may want later, and net/http's
// Shutdown waits five seconds for those.
func (e *Edge) hangUp() {
	e.conns.Range(func(key, _ any) bool {
		if c := key.(*conn); !c.heard.Load() && time.Since(c.born) >= partingTime {
			c.Close()
		}
		return true
	})
}

// anyKept reports whether a connection may get another request.
func (e *Edge) anyKept() (kept bool) {
	e.conns.Range(func(c, _ any) bool {
		kept = c.(*conn).kept.Load()
		return !kept
	})
	return kept
}

// partOrKeep is called with the head of an answer that is about to be sent,
// and says whether its connection ends with it.
func (q *request) partOrKeep(h http.Header) {
	if q.conn == nil {
		return
	}
	q.conn.kept.Store(true) // before the look, so that part sees one of the two
	if q.last || q.edge.parting.Load() {
		h["Connection"] = []string{"close"}
		q.conn.kept.Store(false)
	}
}
