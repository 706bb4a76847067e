package upstream

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"muru"
)

// A sender writes a request's body while the call reads the answer.
type sender struct {
	c      *conn
	body   io.Reader
	length int64 // -1: chunked

	done chan struct{} // closed when the sender has ended; then the rest may be read
	sent bool          // the whole body was written
	err  error         // of the body itself, unless it was cut by interrupt
}

// startSender starts sending x's body on c. The caller waits for its end with
// stop.
func startSender(c *conn, x *muru.Exchange) *sender {
	s := &sender{c: c, body: x.Body, length: x.Length, done: make(chan struct{})}
	go s.run()
	return s
}

func (s *sender) run() {
	defer close(s.done)
	large := largeBuffers.Get().(*[largeBuffer]byte)
	defer largeBuffers.Put(large)
	var err error
	if s.length >= 0 {
		err = s.sendLength(large[:])
	} else {
		err = s.sendChunks(large[:])
	}
	s.sent = err == nil && s.err == nil
	if s.err != nil {
		if s.c.cut.Load() {
			s.err = nil // a result of the end, not its cause
		}
		// The request can never become complete: wake the call, which may
		// wait for an answer.
		s.c.interrupt()
	}
	// A write error is not ours to judge: the server may have answered before
	// it stopped reading, so the call reads what there is.
}

// sendLength sends length bytes. It returns errors of the connection.
func (s *sender) sendLength(buf []byte) error {
	for left := s.length; left > 0; {
		n, err := s.body.Read(buf[:min(int64(len(buf)), left)])
		if n > 0 {
			left -= int64(n)
			if _, err := s.c.nc.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil && left > 0 {
			s.err = bodyError(err)
			return nil
		}
	}
	return nil
}

// chunkRoom is room for a chunk's size line: eight hex digits and CRLF.
const chunkRoom = 10

// sendChunks sends every read of the body as a chunk, size line and data with
// one write.
func (s *sender) sendChunks(buf []byte) error {
	for {
		n, err := s.body.Read(buf[chunkRoom : len(buf)-2])
		if n > 0 {
			var digits [16]byte
			size := strconv.AppendInt(digits[:0], int64(n), 16)
			start := chunkRoom - 2 - len(size)
			copy(buf[start:], size)
			copy(buf[chunkRoom-2:], "\r\n")
			copy(buf[chunkRoom+n:], "\r\n")
			if _, err := s.c.nc.Write(buf[start : chunkRoom+n+2]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			_, err := s.c.nc.Write([]byte("0\r\n\r\n"))
			return err
		}
		if err != nil {
			s.err = bodyError(err)
			return nil
		}
	}
}

// linger is how long an answer that overtook its request's body waits for the
// body before it cuts it: enough for the last chunk, which a server need not
// wait for.
const linger = 50 * time.Millisecond

// stop ends the sender and waits for it. After patience it ends what the
// sender is blocked on; a body that cannot be interrupted is waited for.
func (s *sender) stop(patience time.Duration) {
	select {
	case <-s.done:
		return
	default:
	}
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-s.done:
			return
		case <-timer.C:
		}
	}
	s.c.interrupt()
	<-s.done
}

// bodyError classes an error of a request's body: what is not known as
// something else means that the client is gone.
func bodyError(err error) error {
	switch {
	case err == io.EOF:
		return fmt.Errorf("read the request's body: %w: it ends before its length", muru.ErrMalformedBody)
	case muru.ClientFault(err):
		return fmt.Errorf("read the request's body: %w", err)
	}
	return fmt.Errorf("read the request's body: %w: %w", muru.ErrClientGone, err)
}

// readInline appends the body of a small request to out.
func readInline(out []byte, x *muru.Exchange) ([]byte, error) {
	start := len(out)
	n := int(x.Length)
	if cap(out)-start < n {
		out = append(make([]byte, 0, start+n), out...)
	}
	for have := start; have < start+n; {
		got, err := x.Body.Read(out[have : start+n])
		if have += got; err != nil && have < start+n {
			return out, bodyError(err)
		}
	}
	return out[:start+n], nil
}
