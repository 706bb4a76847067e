package upstream

import (
	"encoding/binary"
	"io"
	"strings"
	"time"
)

// goodbyeWait is how long a client may take to answer a close frame.
const goodbyeWait = time.Second

// A frameTracker follows the frames of a WebSocket that pass by (RFC 6455,
// section 5.2), only to know where one ends: there a close frame of our own
// may be put in. The zero value is ready.
type frameTracker struct {
	head [14]byte // of the frame that begins, as far as it was seen
	have int
	left uint64 // bytes of its payload still to come
}

// see takes the next bytes.
func (f *frameTracker) see(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have >= 2 && f.have == f.headLength() {
			f.left = f.payload()
			f.have = 0
		}
	}
}

// headLength returns the length of the head whose first two bytes are there.
func (f *frameTracker) headLength() int {
	n := 2
	switch f.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (f *frameTracker) payload() uint64 {
	switch n := f.head[1] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(n)
	}
}

// between reports whether the last frame seen is complete.
func (f *frameTracker) between() bool { return f.have == 0 && f.left == 0 }

// goingAway is a close frame with status 1001, as a server sends it.
var goingAway = []byte{0x88, 2, 1001 >> 8, 1001 & 0xff}

// isWebSocket reports whether a 101 answer's protocol is WebSocket.
func isWebSocket(protocol string) bool { return strings.EqualFold(protocol, "websocket") }

// sayGoodbye tells the client of a WebSocket that was cut by us that its
// server goes away, and lets it answer: up ends when it has. A client in the
// middle of a frame cannot be told.
func sayGoodbye(client io.ReadWriteCloser, frames *frameTracker, up <-chan error) (ended bool) {
	if !frames.between() {
		return false
	}
	if _, err := client.Write(goingAway); err != nil {
		return false
	}
	if hc, ok := client.(halfCloser); ok {
		hc.CloseWrite()
	}
	timer := time.NewTimer(goodbyeWait)
	defer timer.Stop()
	select {
	case <-up:
		return true
	case <-timer.C:
		return false
	}
}

// endOfTunnel returns what the end of a tunnel's context does to the client's
// side. A WebSocket's stays open for sayGoodbye where its writes can be
// bounded.
func endOfTunnel(client io.Closer, websocket bool) func() {
	if wd, ok := client.(interface{ SetWriteDeadline(time.Time) error }); ok && websocket {
		return func() { wd.SetWriteDeadline(time.Now().Add(goodbyeWait)) }
	}
	return func() { client.Close() }
}
