package edge

import (
	"cmp"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"

	"muru"
)

// A table finds the app of a request. It is immutable: writers make a new one
// from it. Looking up costs a few map accesses whatever the number of routes.
type table struct {
	apps  map[string]*app
	exact map[string]*paths // by host, lower case
	wild  map[string]*paths // by the end of the host: ".example.com"
	any   *paths
}

// An app is one app's place in the tables. Its state changes without a new
// table, so that moving a share costs nothing more with 10,000 apps.
type app struct {
	name   string
	state  atomic.Pointer[state] // nil: removed
	copies atomic.Int64          // shadow copies under way
}

// state is one Routing in force. It is immutable.
type state struct {
	app     *app
	routing muru.Routing
	targets map[muru.ReleaseID]*target
	divided bool     // by the split or a shadow: what a client gets depends on who it is
	judge   *judge   // nil: nobody listens
	marks   []string // routing.Marks in canonical form
}

// A target is a release that can be picked.
type target struct {
	backend muru.Backend
	stats   *releaseStats
}

// A judge is who hears of an app's randomised requests.
type judge struct {
	thresholds []muru.Threshold
	sink       muru.Sink
}

// paths are the routes of one host pattern by path prefix without a slash at
// its end, so the root is "".
type paths struct {
	byPrefix map[string][]match
	longest  int // length of the longest prefix: longer ones need no look
}

// A match is a route under one prefix and what else it asks for.
type match struct {
	app     *app
	methods []string
	headers []muru.Field
}

func newTable() *table {
	return &table{
		apps:  map[string]*app{},
		exact: map[string]*paths{},
		wild:  map[string]*paths{},
		any:   &paths{byPrefix: map[string][]match{}},
	}
}

// find returns the app that serves a request, nil if none does. An exact host
// comes before a wildcard and that before any; within a host the longer
// prefix comes first, and within a prefix the route that asks for more.
func (t *table) find(host, path, method string, header http.Header) *app {
	host = plainHost(host)
	if p := t.exact[host]; p != nil {
		if a := p.find(path, method, header); a != nil {
			return a
		}
	}
	if len(t.wild) > 0 && len(host) <= 255 {
		for i := strings.IndexByte(host, '.'); i >= 0; {
			if p := t.wild[host[i:]]; p != nil {
				if a := p.find(path, method, header); a != nil {
					return a
				}
			}
			next := strings.IndexByte(host[i+1:], '.')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	return t.any.find(path, method, header)
}

func (p *paths) find(path, method string, header http.Header) *app {
	end := len(path)
	if end > p.longest {
		end = max(0, strings.LastIndexByte(path[:p.longest+1], '/'))
	}
	for {
		for _, m := range p.byPrefix[path[:end]] {
			if m.matches(method, header) {
				return m.app
			}
		}
		if end == 0 {
			return nil
		}
		end = max(0, strings.LastIndexByte(path[:end], '/'))
	}
}

func (m *match) matches(method string, header http.Header) bool {
	if len(m.methods) > 0 && !slices.Contains(m.methods, method) {
		return false
	}
	for _, f := range m.headers {
		if !slices.Contains(header[f.Name], f.Value) {
			return false
		}
	}
	return true
}

// plainHost returns a Host header's name in lower case without port and
// without the dot that may end it.
func plainHost(host string) string {
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
	} else if i := strings.IndexByte(host, ':'); i >= 0 && i == strings.LastIndexByte(host, ':') {
		host = host[:i] // more than one colon: a bare IPv6 address, as in a route
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// matchPath returns the path that routes match on: decoded, except for
// slashes, since /a%2Fb is one segment. rawPath is url.URL's, empty unless it
// differs from the plain encoding of path.
func matchPath(path, rawPath string) string {
	if rawPath != "" && strings.Contains(strings.ToLower(rawPath), "%2f") {
		// Rare, so decoding twice is cheap enough: hide the slashes, decode
		// the rest segment by segment.
		var b strings.Builder
		for i := 0; i < len(rawPath); i++ {
			c := rawPath[i]
			if c == '%' && i+2 < len(rawPath) {
				if d := unhex(rawPath[i+1])<<4 | unhex(rawPath[i+2]); d != '/' {
					b.WriteByte(d)
				} else {
					b.WriteString("%2F")
				}
				i += 2
				continue
			}
			b.WriteByte(c)
		}
		return b.String()
	}
	return path
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// sameShape reports whether two routes of one app are found alike, so that no
// new table is needed.
func sameShape(a, b *muru.Route) bool {
	return a.Path == b.Path && slices.Equal(a.Hosts, b.Hosts) &&
		slices.Equal(a.Methods, b.Methods) && maps.Equal(a.Headers, b.Headers)
}

// with returns a copy of t in which a is found by route instead of by old,
// either of which may be nil.
func (t *table) with(a *app, old, route *muru.Route) *table {
	n := &table{apps: maps.Clone(t.apps), exact: t.exact, wild: t.wild, any: t.any}
	if old != nil {
		delete(n.apps, a.name)
		n.edit(old, func(matches []match) []match {
			return slices.DeleteFunc(slices.Clone(matches), func(m match) bool { return m.app == a })
		})
	}
	if route != nil {
		n.apps[a.name] = a
		m := newMatch(a, route)
		n.edit(route, func(matches []match) []match {
			all := append(slices.Clone(matches), m)
			slices.SortStableFunc(all, compareMatches)
			return all
		})
	}
	return n
}

// edit replaces the routes under route's hosts and prefix by what change makes
// of them, copying the maps it touches.
func (t *table) edit(route *muru.Route, change func([]match) []match) {
	prefix := routePrefix(route)
	hosts := route.Hosts
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	for _, host := range hosts {
		host = strings.ToLower(host)
		suffix, wild := strings.CutPrefix(host, "*")
		switch {
		case host == "*":
			t.any = t.any.with(prefix, change)
		case wild:
			t.wild = withPaths(t.wild, suffix, prefix, change)
		default:
			t.exact = withPaths(t.exact, plainHost(host), prefix, change)
		}
	}
}

func withPaths(all map[string]*paths, host, prefix string, change func([]match) []match) map[string]*paths {
	all = maps.Clone(all)
	old := all[host]
	if old == nil {
		old = &paths{}
	}
	if next := old.with(prefix, change); len(next.byPrefix) > 0 {
		all[host] = next
	} else {
		delete(all, host)
	}
	return all
}

func (p *paths) with(prefix string, change func([]match) []match) *paths {
	n := &paths{byPrefix: maps.Clone(p.byPrefix)}
	if n.byPrefix == nil {
		n.byPrefix = map[string][]match{}
	}
	if matches := change(n.byPrefix[prefix]); len(matches) > 0 {
		n.byPrefix[prefix] = matches
	} else {
		delete(n.byPrefix, prefix)
	}
	for prefix := range n.byPrefix {
		n.longest = max(n.longest, len(prefix))
	}
	return n
}

func routePrefix(route *muru.Route) string {
	path := strings.TrimRight(route.Path, "/")
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	return path
}

func newMatch(a *app, route *muru.Route) match {
	m := match{app: a, methods: slices.Clone(route.Methods)}
	for name, value := range route.Headers {
		m.headers = append(m.headers, muru.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value})
	}
	return m
}

func compareMatches(a, b match) int {
	byMethods := cmp.Compare(min(1, len(b.methods)), min(1, len(a.methods)))
	return cmp.Or(cmp.Compare(len(b.headers), len(a.headers)), byMethods, cmp.Compare(a.app.name, b.app.name))
}
