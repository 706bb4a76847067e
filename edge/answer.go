package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"muru"
)

// An answer passes what a backend answers to the client. It is a muru.Answer,
// with its rules of concurrency. The head of an answer that is no stream is
// kept back until the first byte of the body (or the end), so that until then
// another backend, or a page, can still answer instead.
type answer struct {
	q      *request
	status int
	length int64
	stream bool

	held     bool // Head was called
	sent     bool // and given to the client, or Upgrade was
	bodyless bool
	written  int64
	overrun  bool          // the body was longer than promised
	gone     error         // the client can no longer be reached
	headAt   time.Duration // of a stream or upgrade, after its arrival; 0: none
	upgraded *upgradedConn
	marks    []string // that the head carries and the judge wants to hear of
	shield   *target  // the baseline, which is to answer instead; nothing was or will be sent of this
}

// Inform sends an interim answer to clients that understand one. 100 is not
// the app's to say: the edge asks for a body when it is first read.
func (a *answer) Inform(status int, header []muru.Field) error {
	if err := a.reachable(); err != nil {
		return err
	}
	if status < 100 || status > 199 || status == http.StatusSwitchingProtocols || a.held {
		panic(fmt.Sprintf("BUG: interim answer %d, head passed: %v", status, a.held))
	}
	if status == http.StatusContinue || !a.q.r.ProtoAtLeast(1, 1) {
		return nil
	}
	h := a.q.w.Header()
	addFields(h, header)
	a.q.w.WriteHeader(status)
	clear(h)
	return nil
}

// Head begins the answer.
func (a *answer) Head(status int, header []muru.Field, length int64) error {
	if status < 200 || status > 999 || a.held {
		panic(fmt.Sprintf("BUG: head of status %d, head passed already: %v", status, a.held))
	}
	a.status, a.length, a.held = status, length, true
	a.q.body.pace.stop()
	a.mark(header)
	if a.shieldFrom(status) {
		return errShielded
	}
	addFields(a.q.w.Header(), header) // the slice is the backend's
	a.bodyless = a.q.x.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	a.stream = muru.IsStream(a.q.x.Method, status, header, length)
	if err := a.reachable(); err != nil {
		return err
	}
	if a.stream {
		// People wait for the head of a stream, which may be all for long.
		a.q.headSent(time.Now())
		a.send()
		return a.Flush()
	}
	return nil
}

// mark notes which of the watched fields the head has, if a judge wants that.
func (a *answer) mark(header []muru.Field) {
	if a.q.watch != nil && len(a.q.state.marks) > 0 {
		a.marks = a.q.state.marked(header)
	}
}

// send gives the head to net/http.
func (a *answer) send() {
	if a.sent {
		return
	}
	a.sent = true
	h := a.q.w.Header()
	if a.length >= 0 && a.status != http.StatusNoContent {
		h["Content-Length"] = []string{strconv.FormatInt(a.length, 10)}
	} else if !a.bodyless {
		delete(h, "Content-Length")
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // net/http would guess one
	}
	a.q.ownFields(h)
	a.q.partOrKeep(h)
	a.q.w.WriteHeader(a.status)
}

// withheld reports whether an answer's field does not go to the client as the
// app set it: net/http decides on it, or only muru says such things.
func withheld(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Muru-")
}

// addFields adds an answer's fields, except for those that are withheld.
func addFields(h http.Header, fields []muru.Field) {
	values := make([]string, 0, len(fields))
	for _, f := range fields {
		if f.Name == "Upgrade" || withheld(f.Name) {
			continue
		}
		if old := h[f.Name]; old != nil {
			h[f.Name] = append(old, f.Value)
			continue
		}
		values = append(values, f.Value)
		h[f.Name] = values[len(values)-1 : len(values) : len(values)]
	}
}

// Write sends a part of the body. What a HEAD, 204 or 304 has is dropped.
func (a *answer) Write(p []byte) (int, error) {
	if !a.held {
		panic("BUG: body before head")
	}
	if err := a.reachable(); err != nil {
		return 0, err
	}
	if a.bodyless {
		return len(p), nil
	}
	if a.length >= 0 && a.written+int64(len(p)) > a.length {
		a.overrun = true
		return 0, fmt.Errorf("answer of %d bytes is longer than promised: %w", a.length, muru.ErrClientGone)
	}
	a.send()
	n, err := a.pass(p)
	a.written += int64(n)
	if err != nil {
		a.lost(err)
		return n, a.gone
	}
	return n, nil
}

// Flush sends what has gathered.
func (a *answer) Flush() error {
	if err := a.reachable(); err != nil {
		return err
	}
	if !a.held {
		return nil
	}
	a.send()
	var err error
	switch f := a.q.w.(type) {
	case interface{ FlushError() error }:
		err = f.FlushError()
	case http.Flusher:
		f.Flush()
	}
	if err != nil {
		a.lost(err)
	}
	return a.gone
}

// Trailer adds trailer fields. A client that was promised a length gets none.
func (a *answer) Trailer(fields []muru.Field) error {
	if err := a.reachable(); err != nil {
		return err
	}
	if !a.held || a.bodyless || a.length >= 0 || !a.q.r.ProtoAtLeast(1, 1) {
		return nil
	}
	a.send()
	h := a.q.w.Header()
	for _, f := range fields {
		if !withheld(f.Name) {
			h.Add(http.TrailerPrefix+f.Name, f.Value)
		}
	}
	return nil
}

// complete sends what is still kept back when the backend has finished. It
// reports whether the answer is whole; one that is not, or never came, is the
// backend's fault, and it has not said so.
func (a *answer) complete() bool {
	if a.gone != nil {
		return true
	}
	if !a.held {
		return false
	}
	if a.upgraded == nil && !a.bodyless && a.length > a.written {
		return false
	}
	if a.upgraded == nil && a.reachable() == nil {
		a.send()
	}
	return true
}

// reachable returns why the client is not, if so, or why it is not to be.
func (a *answer) reachable() error {
	if a.shield != nil {
		return errShielded
	}
	if a.gone == nil && a.q.ctx.Err() != nil {
		a.lost(context.Cause(a.q.ctx))
	}
	return a.gone
}

func (a *answer) lost(err error) {
	if a.gone == nil {
		a.gone = fmt.Errorf("answer the client: %w: %w", muru.ErrClientGone, err)
	}
}

// reset makes room for another backend's answer. Only before sent.
func (a *answer) reset() {
	if a.sent {
		panic("BUG: answer sent and reset")
	}
	clear(a.q.w.Header())
	*a = answer{q: a.q}
}

// Upgrade sends the head of a 101 answer and hands over the connection.
func (a *answer) Upgrade(status int, header []muru.Field) (io.ReadWriteCloser, error) {
	if a.held || status != http.StatusSwitchingProtocols {
		panic(fmt.Sprintf("BUG: upgrade with status %d, head passed: %v", status, a.held))
	}
	if err := a.reachable(); err != nil {
		return nil, err
	}
	a.held, a.sent, a.status = true, true, status
	a.q.body.pace.stop()
	a.mark(header)
	c, buffered, err := http.NewResponseController(a.q.w).Hijack()
	if err != nil {
		a.lost(err)
		return nil, a.gone
	}
	if a.q.conn != nil {
		a.q.conn.lengths.seen = true // no request comes any more, so there is nothing to look for
	}
	a.upgraded = &upgradedConn{Conn: c, from: buffered.Reader}
	// Not upgradedConn.Close, which needs the stop that is only being made.
	a.upgraded.stop = context.AfterFunc(a.q.ctx, func() {
		if errors.Is(context.Cause(a.q.ctx), muru.ErrDrainCut) {
			time.AfterFunc(lastWords, func() { c.Close() })
			return
		}
		c.Close()
	})
	a.q.headSent(time.Now())
	if _, err := c.Write(a.upgradeHead(header)); err != nil {
		a.lost(err)
		return nil, a.gone
	}
	return a.upgraded, nil
}

func (a *answer) upgradeHead(header []muru.Field) []byte {
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n")
	write := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	for _, f := range header {
		if f.Name != "Content-Length" && !withheld(f.Name) {
			write(f.Name, f.Value)
		}
	}
	own := http.Header{}
	a.q.ownFields(own)
	for name, values := range own {
		for _, value := range values {
			write(name, value)
		}
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// An upgradedConn is the client's side after an upgrade: what the client has
// sent ahead is read first. Closing it twice is allowed. It has no deadline of
// its own for reads; the backend that copies has.
type upgradedConn struct {
	net.Conn
	from   *bufio.Reader
	stop   func() bool
	closed atomic.Bool
	read   atomic.Int64
	wrote  atomic.Int64
}

func (c *upgradedConn) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *upgradedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote.Add(int64(n))
	return n, err
}

// CloseWrite tells the client that nothing more comes, and leaves its side open.
func (c *upgradedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *upgradedConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop()
	return c.Conn.Close()
}
