package edge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"muru"
)

// A body is a request's body on its way to a worker. Its first Read asks a
// client that waits for it (Expect: 100-continue) to go on. Used by one
// goroutine at a time.
//
// net/http notices that a client has left only once the body was read to its
// end; before that, a read of it fails.
type body struct {
	from     io.Reader
	control  *http.ResponseController
	limit    int64 // 0: none
	read     int64
	armed    time.Time // when the read deadline was last moved
	err      error     // what every later Read returns
	gone     bool      // err is ErrClientGone
	rejected muru.Reason
}

// Read returns muru.ErrBodyTooLarge past the route's limit,
// muru.ErrMalformedBody when the framing is broken and muru.ErrClientGone when
// the client left or sent nothing for too long.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if now := time.Now(); now.Sub(b.armed) > bodyStall/6 {
		b.armed = now
		// Without a connection that has deadlines there is nothing to bound.
		_ = b.control.SetReadDeadline(now.Add(bodyStall))
	}
	n, err := b.from.Read(p)
	if b.limit > 0 && b.read+int64(n) > b.limit {
		n = int(b.limit - b.read)
		err = muru.ErrBodyTooLarge
	}
	b.read += int64(n)
	if err != nil {
		b.end(err)
	}
	if n > 0 {
		return n, nil
	}
	return n, b.err
}

func (b *body) end(err error) {
	switch {
	case err == io.EOF:
		b.err = err
	case errors.Is(err, muru.ErrBodyTooLarge):
		b.err, b.rejected = err, muru.ReasonBodyTooLarge
	case isConnError(err):
		b.err, b.gone = fmt.Errorf("read the request body: %w: %w", muru.ErrClientGone, err), true
	default:
		b.err, b.rejected = fmt.Errorf("read the request body: %w: %w", muru.ErrMalformedBody, err), muru.ReasonMalformed
	}
	// From here on net/http waits for the client to leave, however long.
	_ = b.control.SetReadDeadline(time.Time{})
}

// isConnError tells a lost or silent client from one that sends nonsense.
func isConnError(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, http.ErrBodyReadAfterClose)
}
