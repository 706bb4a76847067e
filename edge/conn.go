package edge

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// A listener gives its connections a write deadline and remembers their names.
type listener struct {
	net.Listener
	edge *Edge
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.accept()
	if err != nil {
		return nil, err
	}
	for !l.edge.takes() {
		c.Close()
		if c, err = l.accept(); err != nil {
			return nil, err
		}
	}
	ours := newConn(c)
	ours.gone = func() {
		if _, there := l.edge.conns.LoadAndDelete(ours); there {
			l.edge.open.Add(-1)
		}
	}
	l.edge.conns.Store(ours, nil)
	return ours, nil
}

// accept takes the next connection. When the edge is leaving, those that the
// system has made already are taken, which it would reset when the listener is
// closed, and then it is http.ErrServerClosed.
func (l listener) accept() (net.Conn, error) {
	if !l.edge.leaving.Load() {
		c, err := l.Listener.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
	}
	last, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok || last.SetDeadline(time.Now().Add(lastCall)) != nil {
		return nil, http.ErrServerClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, http.ErrServerClosed
	}
	return c, nil
}

// A conn is a client's connection. Each write must be taken within
// writeStall: a client that reads nothing for that long is gone. The deadline
// is moved seldom, since it costs more than the rest of a small write.
type conn struct {
	net.Conn
	born   time.Time
	heard  atomic.Bool // it has sent something
	peer   netip.Addr
	remote string // host:port
	local  string
	armed  atomic.Int64 // when the write deadline was last moved, Unix ns
	// spent: a body was not read to its end. Nothing more is read, and Close
	// lets the client have the answer first: closing with unread bytes would
	// reset the connection and lose it.
	spent atomic.Bool
	// interrupted: the read that is under way was given up, which is no fault
	// of the connection. net/http takes each failed read for the end of its
	// client, so that one yields nothing instead; whoever asked for it looks.
	interrupted atomic.Bool
	empty       int // reads in a row that so yielded nothing; whoever may read may use it
	// kept: another request may come, as far as its client knows. Not while a
	// request has no answer's head yet, which is still to say so.
	kept atomic.Bool
	// coming: a part of a request's head is there, and not yet all of it.
	coming atomic.Bool
	// current is the request that is being answered on it, nil between two.
	current atomic.Pointer[request]
	lengths lengthScan // of what was read; whoever may read may use it
	held    *[]byte    // takes what is written while a whole answer is put together; see answer.pass
	gone    func()     // takes it off the edge's list; may be nil, may be called twice
}

// abandoned reports whether the client has left the request that is being
// answered on the connection.
func (c *conn) abandoned() bool {
	q := c.current.Load()
	return q != nil && q.ctx.Err() != nil
}

func newConn(c net.Conn) *conn {
	ours := &conn{
		Conn:   c,
		born:   time.Now(),
		peer:   peerAddr(c.RemoteAddr().String()),
		remote: c.RemoteAddr().String(),
		local:  c.LocalAddr().String(),
	}
	ours.kept.Store(true)
	return ours
}

func (c *conn) Write(p []byte) (int, error) {
	if c.held != nil {
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	now := time.Now()
	if armed := c.armed.Load(); now.UnixNano()-armed > int64(writeStall/8) {
		c.armed.Store(now.UnixNano())
		if err := c.Conn.SetWriteDeadline(now.Add(writeStall)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// Read fails once the connection is spent.
func (c *conn) Read(p []byte) (int, error) {
	if c.spent.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.current.Load() == nil && !c.coming.Load() {
		c.coming.Store(true)
		c.heard.Store(true)
	}
	c.lengths.look(p[:n])
	if err != nil && c.interrupted.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		if c.empty++; c.empty < enoughEmpty || len(p) == 0 {
			return n, nil
		}
		p[0] = 0
		return 1, nil
	}
	c.empty = 0
	return n, err
}

// enoughEmpty is how many reads in a row yield nothing. Whoever reads gives up
// before, after 100, except for net/http when it waits for the rest of a chunk:
// it would ask for ever. A byte is an end to that, too. The body drops it, and
// the connection is of no more use in any case.
const enoughEmpty = 200

// Close closes the connection; a spent one lingers for lingerTime at most.
func (c *conn) Close() error {
	if c.gone != nil {
		c.gone()
	}
	if c.spent.Load() && c.CloseWrite() == nil {
		if c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.Copy(io.Discard, c.Conn)
		}
	}
	return c.Conn.Close()
}

// connState hears of a connection when net/http waits for its next request:
// what was read since the last one was the rest of its body.
func connState(c net.Conn, state http.ConnState) {
	if ours, ok := c.(*conn); ok && state == http.StateIdle {
		ours.coming.Store(false)
	}
}

// SetWriteDeadline keeps our deadline where net/http would remove it.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	c.armed.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is the read deadline alone where t is zero.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite lets net/http close a connection without losing the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// peerAddr returns the address in a host:port, the zero one if there is none.
func peerAddr(hostport string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, nil for one that did not come
// over a listener of ours.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
