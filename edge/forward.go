package edge

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"muru"
)

// exchange fills q.x: the request as the app gets it.
func (q *request) exchange() {
	r := q.r
	x := &q.x
	x.ID, x.Method, x.Proto, x.Arrived = q.id, r.Method, r.Proto, q.arrived
	x.Target = r.RequestURI
	if !strings.HasPrefix(x.Target, "/") {
		x.Target = originForm(x.Target)
	}
	x.Path, x.Query, x.Host = r.URL.Path, r.URL.RawQuery, r.Host
	if x.Path == "" {
		x.Path = "/"
	}
	x.Scheme = "http"
	x.Remote, x.Local = r.RemoteAddr, ""
	if q.conn != nil {
		x.Local = q.conn.local
	}
	if q.trusted {
		x.Scheme = forwardedScheme(r.Header["X-Forwarded-Proto"], x.Scheme)
		if q.address != q.peerText {
			// The port of a client behind a proxy is not known.
			x.Remote = net.JoinHostPort(q.address, "0")
		}
	}
	upgrade := upgradeOf(r)
	x.Upgrade = upgrade != ""
	x.Header = q.header(upgrade)
	x.Length = r.ContentLength
	if r.Body != nil && r.Body != http.NoBody && x.Length != 0 {
		q.body.from, q.body.conn = r.Body, q.conn
		q.body.control = http.NewResponseController(q.w)
		q.body.limit = q.state.routing.Route.MaxBody
		q.body.pace.grace, q.body.pace.tooLow = q.edge.bodyGrace, q.body.tooSlow
		q.body.expects = len(r.Header["Expect"]) > 0
		// Without it net/http reads the body to its end before the answer's
		// first byte. What has no connection has no such wish.
		_ = q.body.control.EnableFullDuplex()
		x.Body = &q.body
	}
	x.Answer = &q.answer
}

// originForm takes the scheme and host off a target: GET http://host/a?b is
// allowed in every request and means /a?b.
func originForm(target string) string {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			if rest[i] == '?' {
				return "/" + rest[i:]
			}
			return rest[i:]
		}
		return "/"
	}
	return target
}

// upgradeOf returns the protocol a request wants to change to, empty if none.
// h2c is none: it is between a client and its server, which is us.
func upgradeOf(r *http.Request) string {
	if len(r.Header["Upgrade"]) == 0 || !r.ProtoAtLeast(1, 1) {
		return ""
	}
	upgrade := r.Header["Upgrade"][0]
	if strings.EqualFold(strings.TrimSpace(upgrade), "h2c") || !hasToken(r.Header["Connection"], "upgrade") {
		return ""
	}
	return upgrade
}

// hasToken reports whether a comma-separated header has a token, given in
// lower case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// header builds what the app gets of the request's header. Not in it: fields
// of this connection alone, Content-Length (it is x.Length), Host (it is
// x.Host), everything of ours, names with an underscore, and what only a
// trusted proxy may say. Expect is in it: a server that wants to refuse before
// the body comes may do so, and its client reads the body only then.
func (q *request) header(upgrade string) []muru.Field {
	h := q.r.Header
	named := namedFields(h["Connection"])
	fields := make([]muru.Field, 0, len(h)+8)
	for name, values := range h {
		if q.drops(name) || named[name] {
			continue
		}
		for _, value := range values {
			fields = append(fields, muru.Field{Name: name, Value: value})
		}
	}
	if cookies := h["Cookie"]; len(cookies) > 0 && !named["Cookie"] {
		if line := cookieHeader(cookies); line != "" {
			fields = append(fields, muru.Field{Name: "Cookie", Value: line})
		}
	}
	if upgrade != "" {
		fields = append(fields, muru.Field{Name: "Connection", Value: "Upgrade"}, muru.Field{Name: "Upgrade", Value: upgrade})
	}
	forwardedFor, proto, host := q.peerText, "http", q.r.Host
	if q.trusted {
		proto = q.x.Scheme
		if before := strings.Join(h["X-Forwarded-For"], ", "); before != "" {
			forwardedFor = before + ", " + forwardedFor
		}
		if said := h["X-Forwarded-Host"]; len(said) > 0 {
			host = said[0]
		}
	}
	return append(fields,
		muru.Field{Name: "X-Forwarded-For", Value: forwardedFor},
		muru.Field{Name: "X-Forwarded-Proto", Value: proto},
		muru.Field{Name: "X-Forwarded-Host", Value: host},
		muru.Field{Name: "X-Request-Id", Value: q.id},
	)
}

// drops reports whether a request field does not go to the app as it came.
func (q *request) drops(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		"Content-Length", "Host", "Cookie",
		"X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host":
		return true
	case "Forwarded", "X-Real-Ip":
		return !q.trusted
	}
	if strings.HasPrefix(name, "X-Forwarded-") {
		return !q.trusted
	}
	return strings.HasPrefix(name, "Muru-") || strings.IndexByte(name, '_') >= 0
}

// namedFields returns the fields that a Connection header says are of this
// connection alone. It is nil in the usual cases. A set, because a hostile
// client can name thousands.
func namedFields(connection []string) map[string]bool {
	if len(connection) == 0 {
		return nil
	}
	if len(connection) == 1 && slices.Contains([]string{"keep-alive", "Keep-Alive", "close", "Upgrade", "upgrade"}, connection[0]) {
		return nil
	}
	named := map[string]bool{}
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return named
}
