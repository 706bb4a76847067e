package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"muru"
)

// sendTimeout bounds a write to a thread that should be reading. A thread
// that does not read for this long has broken the protocol.
const sendTimeout = 10 * time.Second

// A Link is the connection of one worker thread, which has one request at a
// time: Send, then Receive, again and again, by one goroutine (not
// necessarily the same for both). Cancel and Close may be called by any.
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
	busy    bool           // the worker said so; until it says idle

	wmu  sync.Mutex // writes of a frame, and the feed's fields
	feed *feed      // nil unless the worker pulls the body
}

// NewLink returns the link of the thread that said h on c. It owns c.
func NewLink(h Hello, c net.Conn) *Link {
	l := &Link{Hello: h, conn: c, in: bufio.NewReaderSize(c, 16<<10)}
	if s, ok := c.(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn() // without, the look before a Send is left out
	}
	return l
}

// Close closes the connection. A blocked Send or Receive returns.
func (l *Link) Close() error { return l.conn.Close() }

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
	var n int
	var err error
	var b [1]byte
	if rawErr := l.raw.Read(func(fd uintptr) bool {
		n, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}); rawErr != nil {
		return closedError(rawErr)
	}
	switch {
	case err == nil && n > 0:
		return protocolError("answered a request twice")
	case err == nil:
		return ErrClosed
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return nil
	}
	return closedError(err)
}

// Settle waits until the thread is free. It returns at once unless the
// application still works in close() after its answer, as the worker
// announces when such work has been slow before.
func (l *Link) Settle() error {
	if !l.busy {
		return nil
	}
	h, err := readHeader(l.in)
	if err != nil {
		return err
	}
	if h.flags != flagIdle || h.head != 0 || h.body != 0 {
		return protocolError("answered a request twice")
	}
	l.busy = false
	return nil
}

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
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := l.conn.Write(b); err != nil {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return protocolError("has not read what it was sent for %v", sendTimeout)
		}
		return closedError(err)
	}
	return nil
}
