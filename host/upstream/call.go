package upstream

import (
	"bytes"
	"context"
	"time"

	"muru"
)

const (
	// continueWait is how long a request with Expect: 100-continue waits
	// before its body is sent unasked. Not every server knows the field.
	continueWait = time.Second

	// maxInterim bounds the interim answers before the final one. Each goes to
	// the client at once and costs the server nothing; one that says 102 every
	// few seconds while it works needs some.
	maxInterim = 100
)

// A call is one request on one connection.
type call struct {
	ctx   context.Context
	c     *conn
	x     *muru.Exchange
	hooks Hooks

	built    bool    // the connection's out holds the head already
	refused  error   // why the request could not be built
	send     *sender // nil unless the body has a goroutine
	awaiting bool    // for 100 before the body is sent

	wrote bool // something of the request was written
	heard bool // a byte of an answer has arrived

	stream    bool
	slow      bool      // the answer arrives in parts: flush each
	patient   time.Time // until when its parts are gathered; set when one had to be waited for
	headed    bool      // the head was passed on
	unflushed bool      // something was passed on since the last Flush
	gone      error     // the Answer's first error: the client cannot be reached

	reusable bool // the connection is, once the call has ended
}

// run sends the request and passes on its answer. stale reports that the server
// closed a reused connection before it can have acted on the request, which may
// then be sent again.
func (k *call) run() (stale bool, err error) {
	if k.hooks.Answer == nil {
		k.hooks.Answer = k.x.Answer
	}
	stop := k.watch()
	err = k.exchange()
	if k.send != nil {
		patience := time.Duration(0)
		if err == nil {
			k.flush()
			patience = linger
		}
		k.send.stop(patience)
		k.reusable = k.reusable && k.send.sent
	}
	if !stop() {
		<-k.c.ended
	}
	if k.c.cut.Load() {
		k.reusable = false
	}
	return k.outcome(err)
}

// outcome decides which of several errors is the cause.
func (k *call) outcome(err error) (stale bool, _ error) {
	switch {
	case err == nil && k.gone != nil:
		return false, &GoneError{Answered: true, Err: k.gone}
	case err == nil:
		return false, nil
	}
	k.reusable = k.refused != nil && !k.c.cut.Load()
	switch {
	case k.ctx.Err() != nil:
		return false, context.Cause(k.ctx)
	case k.refused != nil:
		return false, k.refused
	case k.gone != nil:
		return false, &GoneError{Err: k.gone}
	case k.send != nil && k.send.err != nil:
		return false, k.send.err
	}
	_, garbage := err.(*AnswerError)
	stale = k.c.reused && !k.heard && !garbage && (!k.wrote || k.x.IsSafe())
	return stale, unexpected(err, k.where())
}

func (k *call) where() string {
	switch {
	case k.headed:
		return "inside its body"
	case k.heard:
		return "inside its head"
	}
	return "before an answer"
}

// watch lets the end of the context interrupt the connection. The result
// stops that and reports whether it was in time. It is the dearest part of a
// request that is not a system call, 0.7 µs and up to 5 allocations (the
// context's channel and map of children, the child, a closure), and is spared
// where the context cannot end or has an AfterFunc method of its own. A read
// deadline that polls the context instead costs more.
func (k *call) watch() (stop func() bool) {
	if own, ok := k.ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return own.AfterFunc(k.c.cutBy)
	}
	if k.ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(k.ctx, k.c.cutBy)
}

// exchange writes the request and reads the answers. Its errors are those of
// the connection, as they are, or AnswerErrors.
func (k *call) exchange() error {
	if !k.built {
		if k.refused = k.c.build(k.x); k.refused != nil {
			return k.refused
		}
	}
	n, err := k.c.nc.Write(k.c.out)
	k.wrote = n > 0
	if err != nil {
		return err
	}
	k.hooks.sent()
	if hasBody(k.x) && !inline(k.x) {
		if k.awaiting = expects(k.x); !k.awaiting {
			k.send = startSender(k.c, k.x)
		}
	}
	for interim := 0; ; interim++ {
		h, err := k.readHead()
		if err != nil {
			return err
		}
		switch {
		case h.status == 101:
			return k.tunnel(&h)
		case h.status >= 200:
			return k.answer(&h)
		case interim == maxInterim:
			return malformed("more than %d interim answers", maxInterim)
		case h.odd:
			return malformed("an interim answer with a body")
		case h.status == 100:
			k.sendBody()
		case k.gone == nil:
			k.gone = k.hooks.Answer.Inform(h.status, h.fields)
		}
	}
}

// inline reports whether the body is sent with the head.
func inline(x *muru.Exchange) bool { return x.Length > 0 && x.Length <= firstWrite && !expects(x) }

// sendBody starts the body of a request that waited for 100.
func (k *call) sendBody() {
	if k.awaiting {
		k.awaiting = false
		k.send = startSender(k.c, k.x)
	}
}

// readHead reads the next head.
func (k *call) readHead() (head, error) {
	c := k.c
	if k.awaiting && len(c.buffered()) == 0 {
		late, err := c.fillWithin(continueWait)
		if err != nil {
			return head{}, err
		}
		if late {
			k.sendBody()
		}
	}
	text, err := k.headText()
	if err != nil {
		return head{}, err
	}
	h, err := parseHead(text, c.fields)
	c.fields = h.fields
	return h, err
}

// headText returns the next head with its last line end, valid until the next
// read. It gives up at the first bytes that cannot begin one: a server that
// speaks something else may wait for us now.
func (k *call) headText() ([]byte, error) {
	const start = "HTTP/1."
	c := k.c
	for line, seen := 0, 0; ; {
		b := c.buffered()
		k.heard = k.heard || len(b) > 0
		if n := min(len(b), len(start)); string(b[:n]) != start[:n] {
			return nil, malformed("not HTTP/1.1: %.60q", b[:min(len(b), 60)])
		}
		for seen < len(b) {
			i := bytes.IndexByte(b[seen:], '\n')
			if i < 0 {
				seen = len(b)
				break
			}
			end := seen + i
			seen = end + 1
			if end == line || end == line+1 && b[line] == '\r' {
				c.r += seen
				return b[:seen], nil
			}
			line = seen
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}
