package upstream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"muru"
)

// Options configure a [Client]. Only Network and Address are needed.
type Options struct {
	Network     string        // tcp or unix
	Address     string        // host:port or a socket's path
	DialTimeout time.Duration // 0: 5 seconds
	MaxIdle     int           // idle connections kept; 0: 128, below 0: none
	IdleTimeout time.Duration // how long they are kept; 0: 30 seconds
}

// A Client sends requests to one server over a pool of keep-alive
// connections. It is safe for concurrent use; make one with [New] and Close
// it. It has no limit on connections: the caller's queue is the limit.
type Client struct {
	opt    Options
	dialer net.Dialer

	mu     sync.Mutex // guards what follows
	idle   []*conn    // longest idle first
	timer  *time.Timer
	armed  bool // timer is running
	closed bool
}

// New returns a client. It connects to nothing yet.
func New(opt Options) *Client {
	if opt.DialTimeout == 0 {
		opt.DialTimeout = 5 * time.Second
	}
	if opt.MaxIdle == 0 {
		opt.MaxIdle = 128
	}
	if opt.IdleTimeout == 0 {
		opt.IdleTimeout = 30 * time.Second
	}
	return &Client{opt: opt, dialer: net.Dialer{Timeout: opt.DialTimeout}}
}

// Hooks tell how far a request has come. The functions are called by Do's goroutine;
// each may be nil.
type Hooks struct {
	// Answer takes the answer in the place of the exchange's; nil: that does.
	Answer muru.Answer
	// Sent is called once, when the server has been sent the head (and a
	// small body).
	Sent func()
	// Head is called just before the Answer's Head, with whether the answer
	// is a stream ([muru.IsStream]).
	Head func(stream bool)
	// Upgraded is called when the client has been sent 101, before the
	// connection is copied both ways.
	Upgraded func()
}

func (h *Hooks) sent() {
	if h.Sent != nil {
		h.Sent()
		h.Sent = nil
	}
}

func (h *Hooks) head(stream bool) {
	if h.Head != nil {
		h.Head(stream)
	}
}

func (h *Hooks) upgraded() {
	if h.Upgraded != nil {
		h.Upgraded()
	}
}

// Do sends x to the server and passes its answer to x.Answer: interim answers
// (but 100, which is answered by reading x.Body), head, body, trailers; parts
// of a stream, and of any body that arrives slowly, are flushed. After 101 it
// copies both ways until either side or ctx ends. It returns when the answer
// is complete and x.Body will not be read any more.
//
// The head's fields are without Content-Length (it is Head's length: also for
// HEAD and 304, which have no body) and without what concerns one connection;
// the slice is valid until the next call or until Do returns, the strings for
// good.
//
// The error is nil or has one of these in its chain: [ErrConnect], [ErrReset],
// [muru.ErrClientGone] (a [GoneError] when the answer could not be passed on),
// [muru.ErrBodyTooLarge], [muru.ErrBodyTooSlow], [muru.ErrMalformedBody] (also a
// [RequestError]), or context.Cause(ctx). When the client goes, up to 64 KB of an answer of known
// length are read for nobody, so that the connection stays usable; anything
// else is cut.
//
// A request that meets a connection which the server has just closed is sent
// once more on a new one if it is safe to repeat or nothing of it was written.
//
// The end of ctx ends a blocked read or write at once; only a WebSocket's
// client has up to a second to take its close frame. x.Body is interrupted,
// then and when an answer has overtaken its request's body, if it has a
// method SetReadDeadline(time.Time) error; otherwise Do waits for its Read.
func (c *Client) Do(ctx context.Context, x *muru.Exchange, h Hooks) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cn, err := c.take(ctx)
	if err != nil {
		return err
	}
	k := call{ctx: ctx, c: cn, x: x, hooks: h}
	stale, err := c.run(&k)
	if !stale {
		return err
	}
	// Others in the pool are likely to be as stale.
	out := cn.out
	if cn, err = c.dial(ctx); err != nil {
		return err
	}
	cn.out = out
	k = call{ctx: ctx, c: cn, x: x, hooks: k.hooks, built: true}
	_, err = c.run(&k)
	return err
}

// run runs k and then keeps or closes its connection.
func (c *Client) run(k *call) (stale bool, err error) {
	k.c.attach(k.x)
	if stale, err = k.run(); k.reusable {
		c.put(k.c)
	} else {
		k.c.close()
	}
	return stale, err
}

// attach lets interrupt reach the body of x.
func (c *conn) attach(x *muru.Exchange) {
	c.body = nil
	if hasBody(x) {
		c.body, _ = x.Body.(deadliner)
	}
}

// take returns the connection that was used last, or a new one.
func (c *Client) take(ctx context.Context) (*conn, error) {
	for {
		cn := c.pop()
		if cn == nil {
			return c.dial(ctx)
		}
		if cn.quiet() {
			return cn, nil
		}
		cn.close()
	}
}

func (c *Client) dial(ctx context.Context) (*conn, error) {
	nc, err := c.dialer.DialContext(ctx, c.opt.Network, c.opt.Address)
	switch {
	case err == nil:
		return newConn(nc), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %w", ErrConnect, err)
}
