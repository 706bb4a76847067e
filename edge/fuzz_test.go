package edge

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"muru"
)

func FuzzCookies(f *testing.F) {
	for _, line := range []string{"", "a=1; muru_id=2", "muru_id==;;=;muru_preview=r6 s;muru_preview", "muru_id=a;muru_id=b", "\x00;\xff=muru_preview="} {
		f.Add(line, line)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		lines := []string{a, b}
		value := cookieValue(lines, idCookie)
		if strings.Contains(value, ";") {
			t.Errorf("value %q", value)
		}
		left := cookieHeader(lines)
		if cookieValue([]string{left}, previewCookie) != "" {
			t.Errorf("a preview is left in %q", left)
		}
		if got := cookieValue([]string{left}, idCookie); got != value {
			t.Errorf("muru_id %q became %q", value, got)
		}
	})
}

func FuzzStickyCookie(f *testing.F) {
	for _, text := range []string{"shop@r6.7.1000", "shop@r5.0.0", "shop@r6.-1.5", "blog@r1.1.10001", ".."} {
		f.Add(text)
	}
	e := New(Options{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6"), 7: says("r7")}, func(r *muru.Routing) { r.Route.Sticky = time.Hour }))
	s := e.table.Load().apps["shop"].state.Load()
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := parseAssignment(text); ok && a.String() != text {
			t.Errorf("%q is read as %q", text, a)
		}
		ch := s.pick(&client{header: http.Header{"Cookie": {"muru_sticky=" + text}}}, "x", time.Now())
		if ch.release != rel(5) && ch.release != rel(6) {
			t.Errorf("%q reaches %v", text, ch.release)
		}
		if ch.randomised && (ch.share < 0 || ch.share > 1000) {
			t.Errorf("%q counts with a share of %d", text, ch.share)
		}
	})
}

func FuzzPreview(f *testing.F) {
	for _, text := range []string{"r6", "shop@r6", "r6 secret", "r6:secret", "blog@r6", `"r6"`, "r", "r6 secret ", "r99999999999999999999", " "} {
		f.Add(text)
	}
	e := New(Options{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6"), 7: says("r7")}, func(r *muru.Routing) { r.Route.PreviewKey = "secret" }))
	s := e.table.Load().apps["shop"].state.Load()
	f.Fuzz(func(t *testing.T, text string) {
		for _, h := range []http.Header{{"Muru-Preview": {text}}, {"Cookie": {"muru_preview=" + text}}} {
			ch := s.pick(&client{header: h}, "x", time.Now())
			if ch.preview && !strings.Contains(text, "secret") {
				t.Errorf("%q is a preview without its secret", text)
			}
			if ch.release == rel(7) && !ch.preview {
				t.Errorf("%q reaches a held release", text)
			}
		}
	})
}

func FuzzAccept(f *testing.F) {
	for _, text := range []string{"*/*", "text/html;q=0.5,application/json", ";q=", "text/html;q=1;q=0,,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := acceptedFormat([]string{text, text}); got > formatProblem || got != acceptedFormat([]string{text}) {
			t.Errorf("%q: %d", text, got)
		}
	})
}

func FuzzForwarded(f *testing.F) {
	for _, text := range []string{"192.0.2.1", "1.1.1.1, [::1]:80", "::1%eth0", ",,,", "10.0.0.1,x"} {
		f.Add(text)
	}
	peer := netip.MustParseAddr("10.0.0.1")
	trusts := netip.MustParsePrefix("10.0.0.0/8").Contains
	f.Fuzz(func(t *testing.T, text string) {
		got := forwardedClient(peer, []string{text}, trusts)
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q: %v", text, got)
		}
		// What the client puts in front of what a proxy wrote changes nothing.
		if a, b := forwardedClient(peer, []string{text, "192.0.2.1"}, trusts), netip.MustParseAddr("192.0.2.1"); a != b {
			t.Errorf("%q in front: %v", text, a)
		}
		if s := forwardedScheme([]string{text}, "http"); !slices.Contains([]string{"http", "https"}, s) {
			t.Errorf("%q: scheme %q", text, s)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, text := range []string{"http://a/b?c", "http://a?b", "http://a", "*", "://", "/a"} {
		f.Add(text, "/%2F%2f%")
	}
	f.Fuzz(func(t *testing.T, target, raw string) {
		if got := originForm(target); strings.Contains(target, "://") && !strings.HasPrefix(got, "/") {
			t.Errorf("%q: %q", target, got)
		}
		_ = matchPath(raw, raw)
		if h := plainHost(target); h != strings.ToLower(h) {
			t.Errorf("%q: %q", target, h)
		}
	})
}
