package wire

import (
	"io"

	"muru"
)

// An AnswerHandler takes an answer as it comes. header and p are valid only
// during the call. Content-Length is in length, not in header. After an error
// no more calls are made, and the rest of the answer is read and dropped.
//
// Body is called with each part that the application sent, split if it is
// large.
type AnswerHandler interface {
	Head(status int, header []muru.Field, length int64) error
	Body(p []byte) error
}

// A Result says how an answer ended. The zero value: it is complete.
type Result struct {
	Raised bool // the application raised before its head; the handler was not called
	Reset  bool // the answer was cut after its head: the application raised, sent too little, or the id was cancelled

	// Surplus: before this answer, which is in order, came more of the one
	// before, which was complete: the worker broke the protocol. It should be
	// replaced; the request it cost nothing.
	Surplus bool
}

// Receive passes the answer to id to h and returns when it is complete. It
// waits without limit: the caller's own deadlines close the link.
//
// The error is a [*ProtocolError], has [ErrClosed] in its chain when the
// worker closed its connection or died, or is a [*BodyError]: the thread is
// free again, and unless its head had been passed on before, the answer was
// dropped. A Read of x.Body may still be running when the connection ended
// meanwhile; it ends when the body is closed.
func (l *Link) Receive(id uint32, h AnswerHandler) (Result, error) {
	if l.x == nil {
		panic("BUG: wire: Receive without Send")
	}
	r := receipt{link: l, id: id, x: l.x, handler: h, left: -1}
	result, err := r.run()
	result.Surplus = r.surplus > 0
	l.x, l.before = nil, id
	if bodyErr := l.endFeed(); err == nil && bodyErr != nil {
		err = &BodyError{Err: bodyErr}
	}
	return result, err
}

// A receipt is one answer on its way.
type receipt struct {
	link     *Link
	id       uint32
	x        *muru.Exchange
	handler  AnswerHandler
	headed   bool
	bodyless bool
	dropped  bool  // nobody takes the rest
	left     int64 // what Content-Length still wants, -1 without one
	surplus  int   // frames of the answer before that were dropped
}

// maxSurplus bounds the frames of an earlier answer that are dropped.
const maxSurplus = 16

func (r *receipt) run() (Result, error) {
	for {
		h, err := readHeader(r.link.in)
		if err != nil {
			return Result{}, err
		}
		if h.id != r.id {
			if h.id == r.link.before {
				// Whatever sent it, it is no answer to this request.
				if err := r.drop(h); err != nil {
					return Result{}, err
				}
				continue
			}
			return Result{}, protocolError("answered request %d, it was asked %d", h.id, r.id)
		}
		switch {
		case h.flags == flagPull && h.head == 0 && h.body == 0:
			if err := r.link.pull(r.x, r.id); err != nil {
				return Result{}, err
			}
			continue
		case h.flags == flagRaised && h.head == 0 && h.body == 0 && !r.headed:
			return Result{Raised: true}, nil
		case h.flags == flagReset && h.head == 0 && h.body == 0 && r.headed:
			return Result{Reset: true}, nil
		case h.flags&^(flagMore|flagBusy) != 0 || h.flags == flagMore|flagBusy:
			return Result{}, protocolError("sent a frame out of order (flags %#x)", h.flags)
		}
		more := h.flags&flagMore != 0
		if err := r.head(h, more); err != nil {
			return Result{}, err
		}
		if err := r.body(int64(h.body)); err != nil {
			return Result{}, err
		}
		if more {
			continue
		}
		if r.left > 0 {
			return Result{}, protocolError("ended its answer %d bytes before its Content-Length", r.left)
		}
		r.link.busy.Store(h.flags&flagBusy != 0)
		return Result{}, nil
	}
}

// drop reads the rest of a frame that belongs to the answer before.
func (r *receipt) drop(h header) error {
	if r.surplus++; r.surplus > maxSurplus {
		return protocolError("answered a request twice")
	}
	for n := int64(h.head) + int64(h.body); n > 0; {
		p, err := r.part(n)
		if err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return nil
}

// head takes the head of the answer's first frame.
func (r *receipt) head(h header, more bool) error {
	if r.headed {
		if h.head != 0 {
			return protocolError("answered a request twice")
		}
		return nil
	}
	text, err := readHead(r.link.in, h.head, &r.link.part)
	if err != nil {
		return err
	}
	status, fields, length, err := r.link.answer.parse(text, int(h.fields))
	if err != nil {
		return err
	}
	r.headed = true
	r.bodyless = hasNoBody(r.x.Method, status)
	switch {
	case status == 204:
		length = -1 // it has no place there
	case r.bodyless:
	case length >= 0:
		r.left = length
	case !more:
		length = int64(h.body) // the whole answer is here
	}
	if r.link.bodyFailed() {
		r.dropped = true // the client gets another answer, if any
		return nil
	}
	r.dropped = r.handler.Head(status, fields, length) != nil
	return nil
}

// body passes on n bytes that follow.
func (r *receipt) body(n int64) error {
	switch {
	case n == 0:
		return nil
	case r.bodyless:
		return protocolError("sent a body where there is none")
	case r.left >= 0 && n > r.left:
		return protocolError("sent %d bytes more than its Content-Length", n-r.left)
	case r.left >= 0:
		r.left -= n
	}
	for n > 0 {
		p, err := r.part(n)
		if err != nil {
			return err
		}
		n -= int64(len(p))
		if !r.dropped {
			r.dropped = r.handler.Body(p) != nil
		}
	}
	return nil
}

// part returns some of the n bytes that follow, where they lie if they are
// buffered, and otherwise read past the buffer.
func (r *receipt) part(n int64) ([]byte, error) {
	in := r.link.in
	if n <= int64(in.Buffered()) {
		p, _ := in.Peek(int(n))
		_, err := in.Discard(int(n))
		return p, err
	}
	if cap(r.link.part) < partSize {
		r.link.part = make([]byte, partSize)
	}
	p := r.link.part[:min(n, partSize)]
	if _, err := io.ReadFull(in, p); err != nil {
		return nil, closedError(err)
	}
	return p, nil
}
