package upstream

import (
	"fmt"
	"io"
	"time"

	"muru"
)

const (
	// gather is how long the rest of an answer of known length may take
	// before what is there goes to the client: most servers send head and
	// body with two writes, which the client need not get as two.
	gather = 2 * time.Millisecond

	// dropLimit is the rest of an answer that is read for nobody, so that the
	// connection can be used again. More than that, or a stream, is cut.
	dropLimit = 64 << 10
)

// answer passes on the final answer.
func (k *call) answer(h *head) error {
	length := h.length
	none := bodyless(k.x.Method, h.status)
	if h.status == 204 {
		length = 0
	}
	k.stream = muru.IsStream(k.x.Method, h.status, h.fields, length)
	k.hooks.head(k.stream)
	k.headed = true
	if k.gone == nil {
		k.gone = k.hooks.Answer.Head(h.status, h.fields, length)
		k.unflushed = true
	}
	untilClose := false
	if !none {
		var err error
		switch {
		case h.chunked:
			err = k.passOnChunks()
		case length >= 0:
			err = k.passOn(length)
		default:
			untilClose = true
			err = k.passOnAll()
		}
		if err != nil {
			return err
		}
	}
	k.reusable = h.keepAlive && !h.odd && !untilClose && !k.awaiting && len(k.c.buffered()) == 0
	return nil
}

// passOnChunks passes on a chunked body and its trailers.
func (k *call) passOnChunks() error {
	trailer, err := k.readChunks()
	if err == nil && len(trailer) > 0 && k.gone == nil {
		k.gone = k.hooks.Answer.Trailer(trailer)
	}
	return err
}

// passOnAll passes on what arrives until the server closes.
func (k *call) passOnAll() error {
	for {
		if err := k.passOn(int64(len(k.c.buffered()))); err != nil {
			return err
		}
		if err := k.more(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// passOn passes on the next n bytes of the body.
func (k *call) passOn(n int64) error {
	for c := k.c; n > 0; {
		if k.gone != nil && (k.stream || n > dropLimit) {
			return fmt.Errorf("cut the answer: %w", k.gone)
		}
		if c.r == c.w {
			if err := k.more(); err != nil {
				return err
			}
		}
		err := k.collect(n)
		p := c.buf[c.r:min(int64(c.w), int64(c.r)+n)]
		c.r += len(p)
		n -= int64(len(p))
		if k.gone == nil {
			k.unflushed = true
			_, k.gone = k.hooks.Answer.Write(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collect reads on until n bytes are buffered, if they fit and follow soon:
// one large write to the client is cheaper than several. Its error comes after
// what is buffered.
func (k *call) collect(n int64) error {
	for c := k.c; n <= largeBuffer && int64(c.w-c.r) < n && k.gone == nil && !k.stream && !k.slow; {
		if c.r > 0 && int64(c.r)+n > largeBuffer {
			return nil // room for it is not worth a copy
		}
		if err := k.more(); err != nil {
			return err
		}
	}
	return nil
}

// more reads more of the body. What was passed on goes to the client first
// where the client may be waiting for it.
func (k *call) more() error {
	if k.unflushed && !k.stream && !k.slow {
		late, err := k.soon()
		if !late {
			return err
		}
		k.slow = true
	}
	k.flush()
	return k.c.fill()
}

// soon reads what arrives within gather of the first time it had to wait; late
// is true when nothing did. A timer is dear, so it looks first.
func (k *call) soon() (late bool, err error) {
	if some, err := k.c.fillNow(); some || err != nil {
		return false, err
	}
	now := time.Now()
	if k.patient.IsZero() {
		k.patient = now.Add(gather)
	}
	left := k.patient.Sub(now)
	if left <= 0 {
		return true, nil
	}
	return k.c.fillWithin(left)
}

func (k *call) flush() {
	if k.unflushed && k.gone == nil {
		k.unflushed = false
		k.gone = k.hooks.Answer.Flush()
	}
}
