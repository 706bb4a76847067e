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
	// settleGrace is how long Close waits for requests that are on their way in
	// when all that it knows of are abandoned.
	settleGrace = 250 * time.Millisecond
	// cutGrace is how long Close waits for requests it has cut.
	cutGrace = 2 * time.Second
	// lastWords is how long an upgraded connection that is cut stays open: its
	// backend may have to say so in the protocol it speaks, as WebSocket's does.
	lastWords = 1500 * time.Millisecond
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
		ConnState:         connState,
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
	_, malformed := errors.AsType[*net.AddrError](err)
	dns, noHost := errors.AsType[*net.DNSError](err)
	switch {
	case malformed:
		e.Kind = muru.KindUsage
		e.Message = fmt.Sprintf("%q is not an address to listen on", address)
		e.Hint = `write it like "127.0.0.1:8080"`
	case noHost:
		e.Kind = muru.KindUsage
		e.Message = fmt.Sprintf("listen on %s: there is no host or port %s", address, dns.Name)
		e.Hint = `write it like "127.0.0.1:8080"`
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
	again, closed := e.serving, e.closed
	e.serving = true
	listeners := e.listeners
	e.mu.Unlock()
	if closed {
		return nil // and so are the listeners
	}
	if again {
		panic("BUG: Edge.Serve called twice")
	}

	flushed := e.access.startFlushing()
	defer flushed()
	var group errgroup.Group
	e.accepting.Add(int64(len(listeners)))
	for _, l := range listeners {
		group.Go(func() error {
			defer e.accepting.Add(-1)
			err := e.server.Serve(listener{l, e})
			if !errors.Is(err, http.ErrServerClosed) {
				e.server.Close() // one lost listener ends them all, rather than half an edge
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close has every answer end its connection for a moment (see partingTime),
// stops listening, waits for requests of which a part is there, closes what is
// idle, waits for the requests in flight until ctx ends, cuts the rest and waits
// a moment for them to go. If anything was cut, it says so in a *muru.Error with
// ctx's error in its chain. A request whose client has left is not waited for:
// what ends it is the end of its worker. Its line in the access log is then
// still to come; all others are written. Shadow copies are cut when the last
// client has its answer. Closing again waits for the same end, or for ctx, and
// returns nil.
func (e *Edge) Close(ctx context.Context) error {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	if again {
		e.mu.Unlock()
		select {
		case <-e.ended:
		case <-ctx.Done():
		}
		return nil
	}
	defer close(e.ended)
	serving := e.serving
	if !serving {
		for _, l := range e.listeners {
			l.Close()
		}
	}
	e.mu.Unlock()
	if serving {
		e.part(ctx)
		e.takeLast(ctx)
	}
	down, stop := e.shutdown(ctx)
	var err error
	if !e.waitIdle(ctx, down) {
		err = cutError(e.awaited(), context.Cause(ctx))
		e.cut(muru.ErrDrainCut)
		grace, cancel := context.WithTimeout(context.Background(), cutGrace)
		e.waitIdle(grace, down)
		cancel()
	}
	e.cut(muru.ErrDrainCut)
	grace, cancel := context.WithTimeout(context.Background(), cutGrace)
	e.waitCopies(grace)
	cancel()
	stop()
	e.server.Close()
	e.access.flush()
	return err
}

func cutError(n int64, cause error) error {
	return &muru.Error{
		Kind: muru.KindFailed, Err: cause,
		Message: fmt.Sprintf("%d requests were still being answered and have been cut", n),
	}
}

// shutdown has the server take no more connections and close those that are
// idle; down is closed when all are, upgraded ones excepted. stop gives up
// waiting for that.
func (e *Edge) shutdown(ctx context.Context) (down <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.server.Shutdown(ctx) // its error does not say whether there was anything to wait for
	}()
	return done, func() { cancel(); <-done }
}

// waitIdle waits until no client waits for an answer, and reports whether that
// came before the end of ctx. down says that no connection has a request that
// we have not heard of yet; where only abandoned ones are left, it would come
// too late, and settleGrace is given instead.
func (e *Edge) waitIdle(ctx context.Context, down <-chan struct{}) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var since time.Time // when only abandoned requests were left
	for {
		e.hangUp()
		switch e.awaited() {
		case 0:
			select {
			case <-down:
				return true
			default:
			}
			if since.IsZero() {
				since = time.Now()
			}
			if e.active.Load() > 0 && time.Since(since) > settleGrace {
				return true
			}
		default:
			since = time.Time{}
		}
		select {
		case <-ctx.Done():
			return e.awaited() == 0
		case <-tick.C:
		}
	}
}

// awaited counts the requests in flight whose clients are there.
func (e *Edge) awaited() int64 {
	n := e.active.Load()
	e.conns.Range(func(c, _ any) bool {
		if c.(*conn).abandoned() {
			n--
		}
		return true
	})
	return max(n, 0) // they come and go while we count
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
