// Package edge takes HTTP requests and gives each to the release that its
// client belongs to. It speaks HTTP/1.1 in clear text over net/http.
//
// The way of a request, and where to start reading: [Edge.ServeHTTP]
// (serve.go) gives it an id, finds its route in the [table] (table.go) and
// picks a release (pick.go); dispatch.go hands it to the release's
// [muru.Backend] as a [muru.Exchange] (forward.go builds it) with an [answer]
// (answer.go) to write to; whatever ends it, [muru.ReasonOf]
// turns the cause into a reason and so a status, page.go writes muru's own
// answers, watch.go tells the judge, stats.go counts and accesslog.go writes
// one line. Beside it: rescue.go has the baseline answer what a candidate
// failed, shadow.go sends copies to a release that answers nobody, pair.go
// tells the judge of a request and its copy together, marks.go finds the
// answer fields that a judge counts. The client's side is conn.go and body.go:
// pace.go ends bodies that trickle, ambiguous.go connections that could be read
// in two ways, and parting.go is how they all end when the edge closes. listen.go
// takes addresses, and canlisten.go tries them.
//
// Who owns what: an [Edge] owns the routing table, the counters and the
// goroutines of shadow copies, which its Close ends; nothing else. The table is
// immutable behind an atomic pointer, and so is the state of each app in it;
// writers build a new one under Edge.mu and swap. A request keeps the state it
// was picked under until it ends, so nothing it does can be changed from
// outside.
//
// Precedence of what picks a release, highest first:
//
//	Muru-Preview: r6         the header; not randomised
//	muru_preview=r6          the cookie; not randomised
//	muru_sticky=shop@r6.7.1000   on sticky routes: release, rollout, share
//	the split                by the client's bucket
//	the baseline             owns the buckets that nobody else does
//
// Decisions that are not visible from outside:
//
//   - An untidy path (//, .., %2F) is neither redirected nor cleaned: routes
//     match on the decoded path, in which an encoded slash is not a slash, and
//     the app gets the target as it was sent.
//   - Request header names with an underscore are dropped: in the CGI form of
//     a header X_Forwarded_For could not be told from X-Forwarded-For.
//   - An answer that is no stream keeps its head back until the first byte of
//     its body, so that a worker that dies before it is no cut connection.
//   - An answer may begin before its request's body has ended. A connection
//     whose body was not read to its end is closed after the answer (body.go).
//   - What net/http cannot parse it answers itself: a status, no page, no line
//     in the access log.
//   - A shielded request waits for what its backend reads of the answer that is
//     dropped, which is little; the release's own deadlines bound it.
//   - Of a request with both Content-Length and Transfer-Encoding net/http
//     shows the latter alone. The app gets no Content-Length then, so there
//     are no two readings, and the connection ends with the answer
//     (ambiguous.go).
//   - muru_sticky has the route's path, so that two apps on one host keep one
//     each; muru_id has the path /.
package edge
