package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muru"
)

// Sizes of the read buffers. A connection that is idle or waits for an answer
// holds a small one; a head that does not fit, or a body that fills it with
// one read, borrows a large one until the request ends, and the next answer
// gets one when it begins to arrive: answers of one server are alike. The
// large one bounds an answer's head.
const (
	smallBuffer = 8 << 10
	largeBuffer = 64 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// past is a deadline that ends every blocked read and write at once.
var past = time.Unix(1, 0)

// errHeadTooLarge is returned by readHead when a head does not fit into a
// large buffer.
var errHeadTooLarge = &AnswerError{What: "a head of more than 64 KB"}

// A conn is one connection to the server with its buffers. It is used by one
// call at a time; only interrupt and what it touches may run beside it.
type conn struct {
	nc  net.Conn
	raw syscall.RawConn // of nc, for the check at reuse; nil if it has none

	buf   []byte // bytes read and not yet consumed are buf[r:w]
	r, w  int
	small []byte             // the connection's own buffer
	large *[largeBuffer]byte // borrowed: buf is in it; nil mostly
	full  bool               // the last read filled the buffer
	got   int                // bytes read since the connection was idle
	big   bool               // the answer before did not fit into the small one

	read readTry

	out    []byte       // the head being built, reused
	fields []muru.Field // of the answer, reused

	reused bool      // it has answered a request before
	since  time.Time // since when it is idle

	body  deadliner   // the running request's body, if it can be interrupted
	cut   atomic.Bool // interrupt was called: the connection is finished
	cutBy func()      // interruptCall, made once
	ended chan struct{}

	poll    [1]unix.PollFd
	polled  int
	pollFun func(fd uintptr)
}

// A deadliner is a request body whose blocked Read can be ended.
type deadliner interface{ SetReadDeadline(time.Time) error }

func newConn(nc net.Conn) *conn {
	c := &conn{nc: nc, small: make([]byte, smallBuffer), ended: make(chan struct{})}
	c.buf = c.small
	c.cutBy = c.interruptCall
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.read.fun = c.tryRead
	c.pollFun = func(fd uintptr) {
		c.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		c.polled, _ = unix.Poll(c.poll[:], 0)
	}
	return c
}

// quiet reports whether nothing has arrived on an idle connection: neither
// its end nor bytes nobody asked for, which would be taken for the answer to
// the next request. It costs one system call (0.3 µs), paid at every reuse: a
// request that cannot be repeated must not meet a closed connection, and an
// answer must not meet another client.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return true
	}
	c.polled = 0
	if err := c.raw.Control(c.pollFun); err != nil {
		return false
	}
	return c.polled <= 0
}

// interrupt ends what is blocked on the connection and on the request's body,
// now and from now on. It is safe to call beside everything else.
func (c *conn) interrupt() {
	c.cut.Store(true)
	c.nc.SetDeadline(past)
	if c.body != nil {
		c.body.SetReadDeadline(past)
	}
}

// interruptCall is interrupt for the end of a request's context; a call that
// cannot stop it any more waits for ended.
func (c *conn) interruptCall() {
	c.interrupt()
	close(c.ended)
}

// buffered returns what has been read and not consumed.
func (c *conn) buffered() []byte { return c.buf[c.r:c.w] }

// fill reads more into the buffer, at least one byte. It returns io.EOF at
// the end of the stream.
func (c *conn) fill() error {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
		if c.full && c.large == nil {
			c.enlarge()
		}
	case c.w < len(c.buf):
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	case c.large == nil:
		c.enlarge()
	default:
		return errHeadTooLarge
	}
	n, err := c.receive(false)
	c.took(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// A readTry is one read of a connection, in the form that its RawConn takes.
type readTry struct {
	fun   func(fd uintptr) bool // tryRead, made once
	once  bool                  // do not wait
	tries int
	n     int
	err   error
}

// receive reads behind what is buffered. once: it does not wait, and returns
// 0 and no error if nothing has arrived.
func (c *conn) receive(once bool) (int, error) {
	if c.raw == nil {
		if once {
			return 0, nil
		}
		return c.nc.Read(c.buf[c.w:])
	}
	c.read.once, c.read.tries = once, 0
	if err := c.raw.Read(c.read.fun); err != nil {
		return 0, err
	}
	if c.read.n == 0 && c.read.err == nil {
		return 0, io.EOF
	}
	if c.read.err == syscall.EAGAIN {
		return 0, nil
	}
	return c.read.n, c.read.err
}

// tryRead reads if something has arrived. If it had to be waited for, a large
// buffer is borrowed only now, where one is likely to be needed.
func (c *conn) tryRead(fd uintptr) bool {
	t := &c.read
	if t.tries++; t.tries > 1 && c.big && c.large == nil {
		c.enlarge()
	}
	for {
		if t.n, t.err = syscall.Read(int(fd), c.buf[c.w:]); t.err != syscall.EINTR {
			break
		}
	}
	t.n = max(t.n, 0)
	return t.err != syscall.EAGAIN || t.once
}

// fillNow is fill without waiting: it reports whether anything was there.
func (c *conn) fillNow() (bool, error) {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		if c.large != nil {
			return false, nil // rare enough to go the usual way
		}
		c.enlarge()
	}
	n, err := c.receive(true)
	c.took(n)
	return n > 0, err
}

// took counts n bytes that were read behind what is buffered.
func (c *conn) took(n int) {
	c.w += n
	c.got += n
	c.full = c.w == len(c.buf)
}

// fillWithin is fill, but gives up after d: late is true then, and nothing
// was read.
func (c *conn) fillWithin(d time.Duration) (late bool, err error) {
	c.nc.SetReadDeadline(time.Now().Add(d))
	// interrupt first sets cut and then its deadline, so either it is seen
	// here or its deadline comes after ours.
	if c.cut.Load() {
		return false, os.ErrDeadlineExceeded
	}
	err = c.fill()
	c.nc.SetReadDeadline(time.Time{})
	if c.cut.Load() {
		return false, os.ErrDeadlineExceeded
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

func (c *conn) enlarge() {
	c.large = largeBuffers.Get().(*[largeBuffer]byte)
	c.w = copy(c.large[:], c.buf[c.r:c.w])
	c.r = 0
	c.buf = c.large[:]
}

// rest gives back what the connection borrowed, for its time in the pool.
func (c *conn) rest() {
	if c.large != nil {
		largeBuffers.Put(c.large)
		c.large = nil
	}
	c.big = c.got > smallBuffer
	c.buf, c.r, c.w, c.got, c.full = c.small, 0, 0, 0, false
	c.body = nil
	clear(c.fields)
	c.fields = c.fields[:0]
}

// close closes the connection for good.
func (c *conn) close() {
	c.nc.Close()
	c.rest()
}
