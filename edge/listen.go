package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"muru"
)

// The times and sizes a client is held to. There is no bound on a whole
// request or answer: both may be streams.
const (
	// headerTimeout is for a request's head, from its first byte.
	headerTimeout = 30 * time.Second
	// idleTimeout is for the next request on a kept connection. Longer than
	// the 60 s that load balancers keep theirs, so that they close first.
	idleTimeout = 2 * time.Minute
	// bodyStall is for the next bytes of a request's body; then the client
	// counts as gone.
	bodyStall = time.Minute
	// writeStall is for the client to take what was written; then it counts
	// as gone.
	writeStall = 2 * time.Minute
	// settleTime and settleSize are what is spent on reading the rest of a body
	// that nobody wanted, so that its connection can be kept.
	settleTime = 50 * time.Millisecond
	settleSize = 256 << 10
	// lingerTime is how long a client that is still sending may take to read
	// the answer before its connection is closed.
	lingerTime = 500 * time.Millisecond
	// maxHeader bounds a request's head; more is 431.
	maxHeader = 64 << 10
	// cutGrace is how long Close waits for requests it has cut.
	cutGrace = 2 * time.Second
)

// ErrPortTaken is in the chain of what [Edge.Listen] returns when somebody
// else listens on the address.
var ErrPortTaken = errors.New("the port is taken")

func (e *Edge) newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           e,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(e.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return e.base },
		ConnContext:       withConn,
	}
}

// Listen takes an address, HOST:PORT; port 0 is any free one. It may be called
// several times before [Edge.Serve]; clients that connect wait until then. The
// error is a *muru.Error; ErrPortTaken is in its chain where it applies.
func (e *Edge) Listen(ctx context.Context, address string) (net.Addr, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(address, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.serving {
		l.Close()
		return nil, muru.Errorf(muru.KindFailed, "listen on %s: the edge serves already or is closed", address)
	}
	e.listeners = append(e.listeners, l)
	return l.Addr(), nil
}

func listenError(address string, err error) error {
	e := &muru.Error{Kind: muru.KindFailed, Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Message = address + " is taken: another program listens there"
		e.Hint = "stop it, or choose another address with --listen"
		e.Err = fmt.Errorf("%w: %w", ErrPortTaken, err)
	case errors.Is(err, syscall.EACCES):
		e.Message = address + " needs more rights: ports below 1024 belong to root"
		e.Hint = "choose a higher port with --listen"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Message = address + " is not an address of this machine"
		e.Hint = "127.0.0.1:8080 is this machine alone, 0.0.0.0:8080 everybody"
	default:
		e.Message = fmt.Sprintf("listen on %s: %v", address, err)
		e.Hint = `write it like "127.0.0.1:8080"`
	}
	return e
}

// Serve answers on every address that Listen has taken, until [Edge.Close] is
// called; then it returns nil. It may be called once.
func (e *Edge) Serve() error {
	e.mu.Lock()
	again := e.serving
	e.serving = true
	listeners := e.listeners
	e.mu.Unlock()
	if again {
		panic("BUG: Edge.Serve called twice")
	}

	flushed := e.access.startFlushing()
	defer flushed()
	var group errgroup.Group
	for _, l := range listeners {
		group.Go(func() error {
			err := e.server.Serve(listener{l})
			if !errors.Is(err, http.ErrServerClosed) {
				e.server.Close() // one lost listener ends them all, rather than half an edge
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close stops listening, waits for the requests in flight until ctx ends, cuts
// the rest and waits a moment for them to go. It returns ctx's error if
// anything was cut. The access log is complete when it returns.
func (e *Edge) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	if !e.serving {
		for _, l := range e.listeners {
			l.Close()
		}
	}
	e.mu.Unlock()
	// Shutdown does not know of upgraded connections, and its error does not
	// say whether there was anything to wait for.
	_ = e.server.Shutdown(ctx)
	var err error
	if !e.waitIdle(ctx) {
		err = context.Cause(ctx)
		e.cut(muru.ErrDrainCut)
		grace, cancel := context.WithTimeout(context.Background(), cutGrace)
		e.waitIdle(grace)
		cancel()
	}
	e.cut(muru.ErrDrainCut)
	e.server.Close()
	e.access.flush()
	return err
}

// waitIdle waits until no request is in flight and reports whether that came
// before the end of ctx.
func (e *Edge) waitIdle(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for e.active.Load() > 0 {
		select {
		case <-ctx.Done():
			return e.active.Load() == 0
		case <-tick.C:
		}
	}
	return true
}

// URL is where people reach a route: at its first host that is a name, else
// at the first address listened on. It is empty before Listen.
func (e *Edge) URL(r muru.Route) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) == 0 {
		return ""
	}
	host, port, err := net.SplitHostPort(e.listeners[0].Addr().String())
	if err != nil {
		return ""
	}
	if addr := peerAddr(net.JoinHostPort(host, port)); addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	for _, h := range r.Hosts {
		if !strings.HasPrefix(h, "*") {
			host = h
			break
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n != 80 {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	path := routePrefix(&r)
	if path == "" {
		path = "/"
	}
	return "http://" + host + path
}
