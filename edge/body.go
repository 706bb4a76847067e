package edge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"muru"
)

// A body is a request's body on its way to a worker. Its first Read asks a
// client that waits for it (Expect: 100-continue) to go on. One goroutine at a
// time may read; SetReadDeadline and what the edge asks of it are safe beside.
//
// net/http notices that a client has left only once the body was read to its
// end; before that, a read of it fails.
type body struct {
	from    io.Reader // nil: the request has no body
	control *http.ResponseController
	conn    *conn // that it comes from; nil in tests without a listener
	limit   int64 // 0: none
	expects bool  // the client sends nothing before it is asked

	read        atomic.Int64
	refused     atomic.Uint32 // a muru.Reason: the client's fault that the body cannot be read
	interrupted atomic.Bool
	late        atomic.Bool // the client was too slow
	pace        pace

	mu    sync.Mutex // held while reading; guards what follows
	armed time.Time  // when the read deadline was last moved
	err   error      // what every later Read returns
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

// Read returns muru.ErrBodyTooLarge past the route's limit,
// muru.ErrMalformedBody when the framing is broken, muru.ErrBodyTooSlow below
// the pace, and muru.ErrClientGone when the client left or sent nothing for too
// long.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	now := time.Now()
	if now.Sub(b.armed) > bodyStall/6 {
		b.armed = now
		// Without a connection that has deadlines there is nothing to bound.
		_ = b.control.SetReadDeadline(now.Add(bodyStall))
	}
	if b.interrupted.Load() || b.late.Load() { // looked at after the deadline was moved, so that none is missed
		b.end(nil)
		return 0, b.err
	}
	b.pace.begin(now)
	n, err := b.from.Read(p)
	b.pace.end(n)
	if err != io.EOF && (b.interrupted.Load() || b.late.Load()) {
		b.end(err) // what it yielded need not be the client's: see enoughEmpty
		return 0, b.err
	}
	read := b.read.Load()
	if b.limit > 0 && read+int64(n) > b.limit {
		n = int(b.limit - read)
		err = muru.ErrBodyTooLarge
	}
	b.read.Add(int64(n))
	if err != nil {
		b.end(err)
	}
	if n > 0 {
		return n, nil
	}
	return n, b.err
}

// errInterrupted is what a Read returns that its backend gave up.
var errInterrupted = fmt.Errorf("read the request body: interrupted: %w", os.ErrDeadlineExceeded)

// SetReadDeadline ends a blocked Read, and all later ones, if t has passed;
// other times are not supported. Backends use it when they have lost interest
// in the rest. It says nothing of the client.
func (b *body) SetReadDeadline(t time.Time) error {
	if t.IsZero() || time.Until(t) > 0 {
		return errors.ErrUnsupported
	}
	b.interrupted.Store(true)
	return b.wake()
}

// wake ends a read that is blocked in the connection, which is none the worse.
func (b *body) wake() error {
	if b.conn != nil {
		b.conn.interrupted.Store(true)
	}
	return b.control.SetReadDeadline(past)
}

// tooSlow is called by the pace.
func (b *body) tooSlow() {
	b.late.Store(true)
	_ = b.wake()
}

// end is called with mu held.
func (b *body) end(err error) {
	b.pace.stop() // waits for a call of tooSlow, whose deadline must not outlast the body
	switch {
	case err == io.EOF:
		b.err = err
		// From here on net/http waits for the client to leave, however long.
		_ = b.control.SetReadDeadline(time.Time{})
	case b.late.Load():
		b.err = fmt.Errorf("read the request body: %w", muru.ErrBodyTooSlow)
		b.refused.Store(uint32(muru.ReasonBodyTooSlow))
	case b.interrupted.Load():
		b.err = errInterrupted
	case errors.Is(err, muru.ErrBodyTooLarge):
		b.err = err
		b.refused.Store(uint32(muru.ReasonBodyTooLarge))
	case isConnError(err):
		b.err = fmt.Errorf("read the request body: %w: %w", muru.ErrClientGone, err)
		b.refused.Store(uint32(muru.ReasonClientGone))
	default:
		b.err = fmt.Errorf("read the request body: %w: %w", muru.ErrMalformedBody, err)
		b.refused.Store(uint32(muru.ReasonMalformed))
	}
}

// fault returns the error that says what the client did wrong, nil if nothing.
func (b *body) fault() error {
	switch muru.Reason(b.refused.Load()) {
	case muru.ReasonBodyTooLarge:
		return muru.ErrBodyTooLarge
	case muru.ReasonClientGone:
		return muru.ErrClientGone
	case muru.ReasonBodyTooSlow:
		return muru.ErrBodyTooSlow
	case muru.ReasonMalformed:
		return muru.ErrMalformedBody
	}
	return nil
}

// settle ends reading when the request has ended and reports whether the body
// was read to its end. What a client had sent of a body that nobody wanted is
// read away. If that is not all of it, nothing that comes after on the
// connection can be told from it: it must be closed, or a body could hold a
// request of its own.
func (b *body) settle() (whole bool) {
	if b.from == nil {
		return true
	}
	if !b.mu.TryLock() {
		_ = b.SetReadDeadline(past)
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if b.conn != nil {
		b.conn.interrupted.Store(false) // from here on a read that fails has failed
	}
	if b.err == io.EOF {
		return true
	}
	if b.refused.Load() != 0 || b.expects && b.read.Load() == 0 {
		return false
	}
	if b.control.SetReadDeadline(time.Now().Add(settleTime)) != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, b.from, settleSize)
	if n == settleSize || err != io.EOF {
		return false
	}
	b.end(io.EOF)
	return true
}

// isConnError tells a lost or silent client from one that sends nonsense.
func isConnError(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, http.ErrBodyReadAfterClose)
}
