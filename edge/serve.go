package edge

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"muru"
)

// A request is one request in the edge, from its head to its line in the
// access log. Its goroutine alone uses it; backends see its exchange.
type request struct {
	edge    *Edge
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // ends when the client leaves or the edge is cut
	conn    *conn           // nil in tests without a listener
	arrived time.Time
	id      string

	last     bool   // the connection ends with the answer, whatever its client wants
	trusted  bool   // the peer is a trusted proxy
	peerText string // the peer's address
	address  string // the client's

	state  *state // nil: no route
	client client
	choice choice
	x      muru.Exchange
	body   body
	answer answer
	watch  *watch // nil when no judge hears of it

	status    int
	reason    muru.Reason
	rescuer   *target // the baseline it was tried once more on; nil: it was not
	shielded  bool    // so, because the route is shielded
	copied    bool    // a shadow copy was thought of
	ended     bool    // counted
	abort     bool    // the connection must be cut
	pageBytes int64
}

// ServeHTTP answers one request. It is the handler of [Edge.Serve].
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{edge: e, w: w, r: r, ctx: r.Context(), conn: connOf(r.Context()), arrived: time.Now()}
	if q.conn != nil && q.conn.spent.Load() {
		panic(http.ErrAbortHandler) // no request, but what was left of a body
	}
	q.id = newRequestID(q.arrived)
	q.answer.q = q
	e.active.Add(1)
	defer e.active.Add(-1)
	if q.conn != nil {
		q.conn.kept.Store(false)
		q.conn.coming.Store(false) // after active was raised, so that takeLast sees one of the two
		q.last = q.ambiguous()
		q.conn.current.Store(q)
		defer q.conn.current.Store(nil)
	}
	defer q.log()
	q.serve()
	if q.abort {
		panic(http.ErrAbortHandler) // net/http's way of cutting a connection
	}
}

func (q *request) serve() {
	q.findClient()
	if u := q.r.URL; q.r.Method == http.MethodConnect || u.Opaque != "" || u.Path != "" && u.Path[0] != '/' {
		// We are no tunnel, * is for us alone, and net/http lets foo:bar pass.
		q.refuse(muru.ReasonMalformed, "")
		return
	}
	if q.state = q.find(); q.state == nil {
		q.refuse(muru.ReasonNoRoute, "")
		return
	}
	route := &q.state.routing.Route
	if q.answersItself(route) {
		return
	}
	q.choice = q.state.pick(&q.client, q.id, q.arrived)
	switch {
	case route.Maintenance != "" && !q.choice.preview:
		q.choice = choice{}
		q.refuse(muru.ReasonMaintenance, route.Maintenance)
	case q.choice.reason != muru.ReasonNone:
		q.refuse(q.choice.reason, "")
	case route.MaxBody > 0 && q.r.ContentLength > route.MaxBody:
		q.choice = choice{}
		q.refuse(muru.ReasonBodyTooLarge, "")
	default:
		q.exchange()
		q.dispatch()
	}
}

// findClient finds out who sent the request.
func (q *request) findClient() {
	var peer netip.Addr
	if q.conn != nil {
		peer = q.conn.peer
	} else {
		peer = peerAddr(q.r.RemoteAddr)
	}
	q.peerText = peer.String()
	q.address = q.peerText
	if q.edge.trusts(peer) {
		q.trusted = true
		q.address = forwardedClient(peer, q.r.Header["X-Forwarded-For"], q.edge.trusts).String()
	}
	q.client = client{header: q.r.Header, address: q.address}
}

// find loads what is in force for the request's route, nil if it has none.
func (q *request) find() *state {
	path := matchPath(q.r.URL.Path, q.r.URL.RawPath)
	a := q.edge.table.Load().find(q.r.Host, path, q.r.Method, q.r.Header)
	if a == nil {
		return nil
	}
	return a.state.Load()
}

// answersItself answers a route's health path (whatever serves: it says that
// the edge is there) and its redirects. Both are whole paths, compared as
// decoded; those outside the route's own path are never asked for here.
func (q *request) answersItself(route *muru.Route) bool {
	path := q.r.URL.Path
	h := q.w.Header()
	if route.Health != "" && path == route.Health && (q.r.Method == http.MethodGet || q.r.Method == http.MethodHead) {
		h["Content-Type"] = []string{"text/plain; charset=utf-8"}
		h["Cache-Control"] = []string{"no-store"}
		h["Content-Length"] = []string{"3"}
		q.status = http.StatusOK
		q.partOrKeep(h)
		q.w.WriteHeader(q.status)
		if q.r.Method == http.MethodGet {
			n, _ := q.w.Write([]byte("ok\n"))
			q.pageBytes = int64(n)
		}
		return true
	}
	if location, ok := route.Redirects[path]; ok {
		h["Location"] = []string{location}
		h["Content-Length"] = []string{"0"}
		q.status = http.StatusPermanentRedirect
		q.partOrKeep(h)
		q.w.WriteHeader(q.status)
		return true
	}
	return false
}

// refuse answers a request that no release gets. detail is the app's own text
// for maintenance; elsewhere it is empty.
func (q *request) refuse(reason muru.Reason, detail string) {
	q.status, q.reason = reason.Status(), reason
	q.edge.nobody.count(reason)
	sentence := reason.Sentence()
	if detail != "" {
		sentence = detail
	}
	q.writePage(q.status, reason, sentence)
}

// ownFields adds what the edge has to say to the client besides the answer.
func (q *request) ownFields(h http.Header) {
	ch := &q.choice
	secure := q.x.Scheme == "https"
	if ch.mint != "" {
		h["Set-Cookie"] = append(h["Set-Cookie"], setCookie(idCookie, ch.mint, "/", secure))
	}
	if ch.sticky != "" {
		path := routePrefix(&q.state.routing.Route)
		if path == "" {
			path = "/"
		}
		h["Set-Cookie"] = append(h["Set-Cookie"], setCookie(stickyCookie, ch.sticky, path, secure))
	}
	if ch.mint != "" || ch.sticky != "" {
		h["Cache-Control"] = []string{privateCacheControl(h["Cache-Control"])}
	}
	if ch.target != nil && q.hasToken() {
		answering := ch.target
		if q.rescuer != nil {
			answering = q.rescuer
		}
		h["Muru-Release"] = []string{answering.stats.id.String()}
	}
}

func (q *request) hasToken() bool {
	token := q.r.Header["Muru-Token"]
	want := q.edge.options.Token
	return want != "" && len(token) == 1 && subtle.ConstantTimeCompare([]byte(token[0]), []byte(want)) == 1
}

// clientLeft reports whether the request's context ended because the client
// went, and not because the edge is cut.
func (q *request) clientLeft() bool {
	return q.ctx.Err() != nil && !errors.Is(context.Cause(q.ctx), muru.ErrDrainCut)
}

func (q *request) queueWait() time.Duration {
	wait, _ := q.x.QueueWait()
	return wait
}

func (q *request) bytesIn() int64 {
	if u := q.answer.upgraded; u != nil {
		return u.read.Load()
	}
	return q.body.read.Load()
}

func (q *request) bytesOut() int64 {
	if u := q.answer.upgraded; u != nil {
		return u.wrote.Load()
	}
	return q.answer.written + q.pageBytes
}

// log writes the request's line, whatever happened.
func (q *request) log() { q.edge.access.request(q, time.Now()) }
