package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"muru"
)

// sendTimeout bounds a write to a thread that should be reading. A thread
// that does not read for this long, or up to twice as long, has broken the
// protocol.
const sendTimeout = 10 * time.Second

// A Link is the connection of one worker thread, which has one request at a
// time: Send, then Receive, again and again, by one goroutine (not
// necessarily the same for both). Cancel, Expire, Busy and
// Close may be called by any.
type Link struct {
	Hello Hello

	conn net.Conn
	raw  syscall.RawConn // nil when conn is no socket
	in   *bufio.Reader
	out  []byte // the frame being written
	part []byte // of an answer's body

	request requestHead
	answer  answerHead
	x       *muru.Exchange // between Send and Receive
	before  uint32         // the id answered last
	busy    atomic.Bool    // the worker said so; until it says idle

	wmu      sync.Mutex // guards writes of a frame, the feed's fields and these two
	deadline time.Time  // of writes, set coarsely
	feed     *feed      // nil unless the worker pulls the body

	peek peek
}

// A peek is a look at what has arrived, without taking it. It is kept so that
// looking costs no allocation.
type peek struct {
	at   func(fd uintptr) bool
	n    int
	err  error
	byte [1]byte
}

func newPeek(p *peek) func(fd uintptr) bool {
	return func(fd uintptr) bool {
		p.n, _, p.err = syscall.Recvfrom(int(fd), p.byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}
}

// NewLink returns the link of the thread that said h on c. It owns c.
func NewLink(h Hello, c net.Conn) *Link {
	l := &Link{Hello: h, conn: c, in: bufio.NewReaderSize(c, 16<<10)}
	if s, ok := c.(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn() // without, the look before a Send is left out
		l.peek.at = newPeek(&l.peek)
	}
	return l
}

// Close closes the connection. A blocked Send or Receive returns.
func (l *Link) Close() error { return l.conn.Close() }

// Expire ends a blocked Receive after d, and every later one at once, unless
// the connection ends before. It is for the connection of a process that is
// dead: what it did last can still be read.
func (l *Link) Expire(d time.Duration) { _ = l.conn.SetReadDeadline(time.Now().Add(d)) }

// Send gives the request x to the thread under id, which must differ from the
// one before. The answer must be received before the next Send.
//
// It returns an error with [ErrNotSent] in its chain when the worker cannot
// have started the request (the connection is of no more use), and a
// [*BodyError] when a small body could not be read (the link is as before).
// A larger body is read during Receive.
func (l *Link) Send(x *muru.Exchange, id uint32) error {
	if err := l.Settle(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err := l.look(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	var flags uint16
	b := append(l.out[:0], make([]byte, headerSize)...)
	b, flags = l.request.append(b, x)
	head := len(b) - headerSize
	small := x.Body != nil && x.Length > 0 && x.Length <= smallBody
	switch {
	case small:
		var err error
		if b, err = appendBody(b, x); err != nil {
			return err
		}
	case x.Body != nil && x.Length != 0:
		flags |= flagMore
	}
	header{head: uint32(head), body: uint32(len(b) - headerSize - head), id: id, flags: flags}.put(b)
	l.wmu.Lock()
	err := l.write(b)
	l.wmu.Unlock()
	if l.out = b; cap(b) > 2*smallBody {
		l.out = nil // a rare one
	}
	if err != nil {
		// The thread starts a request when it has all of its first frame.
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	l.x = x
	return nil
}

// appendBody appends the small body of x.
func appendBody(b []byte, x *muru.Exchange) ([]byte, error) {
	if g, ok := x.Body.(*gatheredBody); ok {
		return append(b, g.data...), nil
	}
	at := len(b)
	b = append(b, make([]byte, x.Length)...)
	if _, err := io.ReadFull(x.Body, b[at:]); err != nil {
		return b, &BodyError{Err: shortBody(err)}
	}
	return b, nil
}

// look finds out without waiting whether the thread has closed its connection
// or sent something unasked since its last answer, so that no request pays
// for it.
func (l *Link) look() error {
	if l.in.Buffered() > 0 {
		return protocolError("answered a request twice")
	}
	if l.raw == nil {
		return nil
	}
	if err := l.raw.Read(l.peek.at); err != nil {
		return closedError(err)
	}
	switch l.peek.err {
	case nil:
		if l.peek.n > 0 {
			return protocolError("answered a request twice")
		}
		return ErrClosed
	case syscall.EAGAIN, syscall.EINTR:
		return nil
	}
	return closedError(l.peek.err)
}

// Settle waits until the thread is free. It returns at once unless the
// application still works in close() after its answer, as the worker
// announces when such work has been slow before.
func (l *Link) Settle() error {
	if !l.busy.Load() {
		return nil
	}
	h, err := readHeader(l.in)
	if err != nil {
		return err
	}
	if h.flags != flagIdle || h.head != 0 || h.body != 0 {
		return protocolError("answered a request twice")
	}
	l.busy.Store(false)
	return nil
}

// Busy reports whether a Send would wait, as far as is known: whether the
// thread has said that it is not free after its last answer, and nobody has
// read yet that it is. It may be called by any goroutine.
func (l *Link) Busy() bool { return l.busy.Load() }

// Cancel tells the thread that nobody wants the answer to id any more. A
// thread that is sending a stream ends it before its next part; Receive then
// returns as for a reset. Otherwise it has no effect. Close ends a Cancel
// that blocks.
func (l *Link) Cancel(id uint32) {
	var b [headerSize]byte
	header{id: id, flags: flagCancel}.put(b[:])
	l.wmu.Lock()
	defer l.wmu.Unlock()
	_ = l.write(b[:]) // a connection that is gone needs no cancel
}

// write writes one frame. l.wmu is held.
func (l *Link) write(b []byte) error {
	if now := time.Now(); now.Add(sendTimeout).After(l.deadline) {
		l.deadline = now.Add(2 * sendTimeout)
		_ = l.conn.SetWriteDeadline(l.deadline)
	}
	if _, err := l.conn.Write(b); err != nil {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return protocolError("has not read what it was sent for %v", sendTimeout)
		}
		return closedError(err)
	}
	return nil
}
