package edge

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"muru"
)

// Options configure an [Edge]. The zero value works.
type Options struct {
	// AccessLog gets one JSON line for each request; nil: none. It is written
	// to by one goroutine at a time.
	AccessLog io.Writer
	// Log gets what is wrong inside; nil: dropped.
	Log *slog.Logger
	// Token, when set, is this process's secret: a request that carries it as
	// Muru-Token is told in Muru-Release which release answered.
	Token string
	// TrustedProxies are believed about a client's address, scheme and host;
	// [Edge.Trust] changes them.
	TrustedProxies []netip.Prefix

	maxConns  int64         // connections at once; 0: what the process's limit leaves room for
	bodyGrace time.Duration // 0: the constant
}

// An Edge answers HTTP requests from the releases it is told of. All methods
// are safe for concurrent use. New starts nothing; [Edge.Serve] blocks, and
// [Edge.Close] ends it.
type Edge struct {
	options Options
	log     *slog.Logger
	access  *accessLog
	server  *http.Server
	// base is the parent of every request's context; cut ends them all.
	base   context.Context
	cut    context.CancelCauseFunc
	table  atomic.Pointer[table]
	active atomic.Int64 // requests in ServeHTTP, upgrades included
	copies atomic.Int64 // shadow copies under way
	trust  atomic.Pointer[[]netip.Prefix]
	conns  sync.Map // *conn: of the clients that are connected
	// parting: answers end their connections; see partingTime.
	parting atomic.Bool
	// leaving: the listeners take what has connected, and then end.
	leaving   atomic.Bool
	accepting atomic.Int64 // listeners that have not ended
	nobody    *noReleaseStats

	bodyGrace time.Duration
	maxConns  int64
	open      atomic.Int64 // connections
	crowded   atomic.Int64 // when it was last logged that there are too many, Unix ns

	mu        sync.Mutex // guards what follows, and changes of table
	stats     map[muru.ReleaseID]*releaseStats
	judges    map[string]*judge // in force from the app's next Routing on
	listeners []net.Listener
	serving   bool
	closed    bool

	ended chan struct{} // closed when Close has ended
}

// New returns an Edge without routes and listeners.
func New(o Options) *Edge {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := &Edge{
		options:   o,
		log:       log,
		access:    newAccessLog(o.AccessLog),
		nobody:    newNoReleaseStats(),
		stats:     map[muru.ReleaseID]*releaseStats{},
		judges:    map[string]*judge{},
		ended:     make(chan struct{}),
		bodyGrace: cmp.Or(o.bodyGrace, bodyGrace),
		maxConns:  cmp.Or(o.maxConns, maxConns()),
	}
	e.base, e.cut = context.WithCancelCause(context.Background())
	e.table.Store(newTable())
	e.Trust(o.TrustedProxies)
	e.server = e.newServer()
	return e
}

// Trust puts proxies in the place of those that were believed about a client's
// address, scheme and host. It must not be changed afterwards.
func (e *Edge) Trust(proxies []netip.Prefix) { e.trust.Store(&proxies) }

// Route puts r in the place of what the edge had for r.Route.App. It is in
// force for every request that is picked after the call has returned. The
// counters of a release that r has no backend for are dropped.
func (e *Edge) Route(r muru.Routing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := r.Route.App
	t := e.table.Load()
	a, known := t.apps[name]
	var old *muru.Route
	var before *state
	if known {
		before = a.state.Load()
		old = &before.routing.Route
	} else {
		a = &app{name: name}
	}
	a.state.Store(e.newState(a, r))
	if !known || !sameShape(old, &r.Route) {
		e.table.Store(t.with(a, old, &r.Route))
	}
	if before != nil {
		e.forget(before, r.Backends)
	}
}

// Remove forgets an app: its requests find no route.
func (e *Edge) Remove(app string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.table.Load()
	a, known := t.apps[app]
	if !known {
		return
	}
	before := a.state.Load()
	e.table.Store(t.with(a, &before.routing.Route, nil))
	a.state.Store(nil)
	delete(e.judges, app)
	e.forget(before, nil)
}

// Judge makes sink hear of the app's randomised requests, and of each of the
// thresholds that passes, from the app's next Routing on. A nil sink ends that
// at once: requests picked after the call are heard of by nobody, those picked
// before it still are.
//
// A sink's methods are called with a lock of the request held; they must not
// wait for the edge.
func (e *Edge) Judge(app string, thresholds []muru.Threshold, sink muru.Sink) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if sink != nil {
		e.judges[app] = &judge{thresholds: append([]muru.Threshold(nil), thresholds...), sink: sink}
		return
	}
	delete(e.judges, app)
	if a := e.table.Load().apps[app]; a != nil {
		quiet := *a.state.Load()
		quiet.judge = nil
		a.state.Store(&quiet)
	}
}

// newState is called with e.mu held.
func (e *Edge) newState(a *app, r muru.Routing) *state {
	s := &state{
		app:     a,
		routing: r,
		targets: make(map[muru.ReleaseID]*target, len(r.Backends)),
		divided: r.Split.Divided() || r.Shadow != nil && r.Shadow.Share > 0,
		judge:   e.judges[r.Route.App],
		marks:   canonicalMarks(r.Marks),
	}
	for id, backend := range r.Backends {
		if e.stats[id] == nil {
			e.stats[id] = newReleaseStats(id)
		}
		s.targets[id] = &target{backend: backend, stats: e.stats[id]}
	}
	return s
}

// forget drops the counters of the releases that before had and kept has not;
// it is called with e.mu held. Requests still in them count into the void.
func (e *Edge) forget(before *state, kept map[muru.ReleaseID]muru.Backend) {
	for id := range before.targets {
		if kept[id] == nil {
			delete(e.stats, id)
		}
	}
}
