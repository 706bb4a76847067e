package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muru"
)

func tableOf(routes ...muru.Route) *table {
	t := newTable()
	for i := range routes {
		t = t.with(&app{name: routes[i].App}, nil, &routes[i])
	}
	return t
}

func (t *table) name(host, path, method string, h http.Header) string {
	if a := t.find(host, path, method, h); a != nil {
		return a.name
	}
	return ""
}

func TestRoutesAreFoundByHostThenPathThenWhatElseTheyAskFor(t *testing.T) {
	table := tableOf(
		muru.Route{App: "any"},
		muru.Route{App: "api", Path: "/api/"},
		muru.Route{App: "deep", Path: "/api/v2"},
		muru.Route{App: "shop", Hosts: []string{"shop.example", "WWW.shop.example"}},
		muru.Route{App: "admin", Hosts: []string{"shop.example"}, Path: "/admin"},
		muru.Route{App: "wild", Hosts: []string{"*.example"}},
		muru.Route{App: "wilder", Hosts: []string{"*.eu.example"}, Path: "/"},
		muru.Route{App: "beta", Hosts: []string{"shop.example"}, Headers: map[string]string{"x-beta": "yes"}},
		muru.Route{App: "writes", Hosts: []string{"shop.example"}, Path: "/admin", Methods: []string{"POST"}},
		muru.Route{App: "six", Hosts: []string{"::1"}},
	)
	for _, c := range []struct{ host, path, method, header, want string }{
		{"shop.example", "/", "GET", "", "shop"},
		{"SHOP.example:8080", "/x", "GET", "", "shop"},
		{"shop.example.", "/x", "GET", "", "shop"},
		{"www.shop.example", "/x", "GET", "", "shop"},
		{"shop.example", "/admin", "GET", "", "admin"},
		{"shop.example", "/admin/", "GET", "", "admin"},
		{"shop.example", "/admin/users", "GET", "", "admin"},
		{"shop.example", "/administer", "GET", "", "shop"},
		{"shop.example", "/admin", "POST", "", "writes"},
		{"shop.example", "/x", "GET", "yes", "beta"},
		{"shop.example", "/x", "GET", "no", "shop"},
		{"blog.example", "/api", "GET", "", "wild"},
		{"a.b.example", "/", "GET", "", "wild"},
		{"a.eu.example", "/", "GET", "", "wilder"},
		{"example", "/", "GET", "", "any"},
		{"", "/", "GET", "", "any"},
		{"elsewhere", "/api", "GET", "", "api"},
		{"elsewhere", "/api/v1", "GET", "", "api"},
		{"elsewhere", "/api/v2/x", "GET", "", "deep"},
		{"elsewhere", "/api/v22", "GET", "", "api"},
		{"elsewhere", "//api", "GET", "", "any"},
		{"elsewhere", "/api%2Fv2", "GET", "", "any"},
		{"[::1]:8080", "/", "GET", "", "six"},
		{strings.Repeat("a.", 5000) + "example", "/", "GET", "", "any"},
		{"elsewhere", strings.Repeat("/", 60000), "GET", "", "any"},
	} {
		h := http.Header{}
		if c.header != "" {
			h.Set("X-Beta", c.header)
		}
		if got := table.name(c.host, c.path, c.method, h); got != c.want {
			t.Errorf("%.30s%.30s %s %s: %q, want %q", c.host, c.path, c.method, c.header, got, c.want)
		}
	}
}

func TestMatchPathDecodesAllButSlashes(t *testing.T) {
	for _, c := range [][3]string{
		{"/a b", "", "/a b"},
		{"/a/b", "/a%2Fb", "/a%2Fb"},
		{"/a/b", "/a%2fb", "/a%2Fb"},
		{"/admin/b", "/%61dmin%2fb", "/admin%2Fb"},
		{"/a!b", "/a%21b", "/a!b"},
	} {
		if got := matchPath(c[0], c[1]); got != c[2] {
			t.Errorf("matchPath(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// Whatever routes came and went, the table finds what a plain search through
// all of them finds.
func TestTheTableAgreesWithASearchThroughAllRoutes(t *testing.T) {
	hosts := []string{"*", "a.example", "b.example", "*.example", "*.b.example"}
	prefixes := []string{"", "/", "/a", "/a/b", "/ab", "/a/b/c"}
	requests := []string{"/", "/a", "/a/", "/ab", "/a/b", "/a/b/cd", "/a/b/c/d", "//a", "/b"}
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		now := map[string]muru.Route{}
		apps := map[string]*app{}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			name := rapid.SampledFrom([]string{"k", "l", "m", "n"}).Draw(t, "app")
			old, known := now[name]
			var before, after *muru.Route
			if known {
				before = &old
			} else {
				apps[name] = &app{name: name}
			}
			if known && rapid.Bool().Draw(t, "remove") {
				delete(now, name)
			} else {
				route := muru.Route{
					App:   name,
					Hosts: rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 0, 3, rapid.ID[string]).Draw(t, "hosts"),
					Path:  rapid.SampledFrom(prefixes).Draw(t, "path"),
				}
				if rapid.Bool().Draw(t, "methods") {
					route.Methods = []string{"GET"}
				}
				now[name], after = route, &route
			}
			table = table.with(apps[name], before, after)
		}
		for _, host := range []string{"a.example", "x.b.example", "b.example", "other"} {
			for _, path := range requests {
				for _, method := range []string{"GET", "POST"} {
					if got, want := table.name(host, path, method, nil), slowFind(now, host, path, method); got != want {
						t.Fatalf("%s %s%s: %q, want %q of %v", method, host, path, got, want, now)
					}
				}
			}
		}
	})
}

// slowFind ranks every route that matches and takes the best.
func slowFind(routes map[string]muru.Route, host, path, method string) string {
	best, bestRank := "", ""
	for name, r := range routes {
		prefix := strings.TrimRight(r.Path, "/")
		if path != prefix && !strings.HasPrefix(path, prefix+"/") {
			continue
		}
		if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) {
			continue
		}
		patterns := r.Hosts
		if len(patterns) == 0 {
			patterns = []string{"*"}
		}
		for _, p := range patterns {
			hostRank := 0
			switch {
			case p == "*":
				hostRank = 1
			case p == host:
				hostRank = 900
			case strings.HasPrefix(p, "*") && strings.HasSuffix(host, p[1:]):
				hostRank = 100 + len(p)
			}
			if hostRank == 0 {
				continue
			}
			// Of equals, the first name: 'z' minus its letter ranks it higher.
			rank := fmt.Sprintf("%03d %03d %d %c", hostRank, len(prefix), len(r.Methods), 'z'-name[0]+'a')
			if rank > bestRank {
				best, bestRank = name, rank
			}
		}
	}
	return best
}
