package host

import (
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"time"

	"muru"
)

// awayGrace is how long both sides of a WebSocket may take to say goodbye
// after the close frame of a drain.
const awayGrace = time.Second

// goingAway is a server's close frame with the status 1001.
var goingAway = []byte{0x88, 2, 0x03, 0xe9}

// webSocket is the client's side of a WebSocket. It follows where the frames
// to the client end, so that a drain can put a close frame of muru's own
// between two of them. After it, nothing more goes to the client; what the
// client answers still goes to the worker, which so learns that it is over.
type webSocket struct {
	io.ReadWriteCloser

	mu      sync.Mutex // guards all below, and writing
	frame   frameCount
	leaving bool // the close frame is to be sent, or was
	sent    bool
}

// isWebSocket reports whether a 101 answer's header says so.
func isWebSocket(header []muru.Field) bool {
	for _, f := range header {
		if f.Name == "Upgrade" && strings.EqualFold(f.Value, "websocket") {
			return true
		}
	}
	return false
}

// Write implements io.Writer.
func (s *webSocket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent {
		return len(p), nil
	}
	if !s.leaving {
		s.frame.skip(p)
		return s.ReadWriteCloser.Write(p)
	}
	rest := s.frame.toBoundary(p)
	if n, err := s.ReadWriteCloser.Write(p[:rest]); err != nil {
		return n, err
	}
	if err := s.close(); err != nil {
		return rest, err
	}
	return len(p), nil
}

// goAway sends the close frame, now or when the frame that is being sent is
// complete. It does not wait for that.
func (s *webSocket) goAway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return
	}
	s.leaving = true
	_ = s.close() // the connection is closed soon, either way
}

// close sends the close frame if no frame is half sent. mu is held.
func (s *webSocket) close() error {
	if !s.frame.between() || s.sent {
		return nil
	}
	s.sent = true
	_, err := s.ReadWriteCloser.Write(goingAway)
	return err
}

// frameCount follows where frames end (RFC 6455, section 5.2).
type frameCount struct {
	head    [14]byte
	got     int    // bytes of head
	payload uint64 // bytes of the payload that are still to come
}

// between reports whether everything so far was whole frames.
func (c *frameCount) between() bool { return c.got == 0 && c.payload == 0 }

// skip counts all of p.
func (c *frameCount) skip(p []byte) {
	for len(p) > 0 {
		p = p[c.advance(p):]
	}
}

// toBoundary counts p up to the first end of a frame, or all of it, and
// returns how much that was.
func (c *frameCount) toBoundary(p []byte) int {
	n := 0
	for n < len(p) && !c.between() {
		n += c.advance(p[n:])
	}
	return n
}

// advance counts a part of p, at least a byte of it.
func (c *frameCount) advance(p []byte) int {
	if c.payload > 0 {
		n := min(c.payload, uint64(len(p)))
		c.payload -= n
		return int(n)
	}
	n := copy(c.head[c.got:c.need()], p)
	c.got += n
	if c.got == c.need() {
		c.payload, c.got = c.size(), 0
	}
	return n
}

// need is the length of the head that has begun, as far as it is known.
func (c *frameCount) need() int {
	n := 2
	if c.got < 2 {
		return n
	}
	switch c.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if c.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (c *frameCount) size() uint64 {
	switch n := c.head[1] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(c.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(c.head[2:])
	default:
		return uint64(n)
	}
}
