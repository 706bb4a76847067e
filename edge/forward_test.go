package edge

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"muru"
)

// capture answers with ok and hands over what it got.
func capture(got chan<- *muru.Exchange) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		copied := x.Again()
		out := say(x, 200, "ok")
		got <- copied
		return out
	}
}

func valuesOf(x *muru.Exchange, name string) []string {
	var all []string
	for _, f := range x.Header {
		if f.Name == name {
			all = append(all, f.Value)
		}
	}
	return all
}

func TestTheAppGetsTheRequestAsItWasSent(t *testing.T) {
	f := newFront(t, Options{})
	got := make(chan *muru.Exchange, 1)
	f.Route(shop(-1, map[int]muru.Backend{5: capture(got)}))
	for _, c := range []struct{ target, wantTarget, path, query string }{
		{"/orders/1?full=yes&a=%20", "/orders/1?full=yes&a=%20", "/orders/1", "full=yes&a=%20"},
		{"//orders//1", "//orders//1", "//orders//1", ""},
		{"/a/../b/./c", "/a/../b/./c", "/a/../b/./c", ""},
		{"/a%2Fb%20c", "/a%2Fb%20c", "/a/b c", ""},
		{"/a?", "/a?", "/a", ""},
		{"/?a=/../?b", "/?a=/../?b", "/", "a=/../?b"},
		{"http://shop.example/a?b", "/a?b", "/a", "b"},
		{"http://shop.example?b", "/?b", "/", "b"},
		{"http://shop.example", "/", "/", ""},
	} {
		conn := f.dial()
		conn.send("GET " + c.target + " HTTP/1.1\r\nHost: shop.example:81\r\nConnection: close\r\n\r\n")
		if r := conn.response("GET"); r.StatusCode != 200 {
			t.Fatalf("%s: %s", c.target, r.Status)
		}
		x := <-got
		if x.Target != c.wantTarget || x.Path != c.path || x.Query != c.query {
			t.Errorf("%s: target %q path %q query %q", c.target, x.Target, x.Path, x.Query)
		}
		wantHost := "shop.example:81"
		if strings.HasPrefix(c.target, "http") {
			wantHost = "shop.example"
		}
		if x.Host != wantHost || x.Proto != "HTTP/1.1" || x.Scheme != "http" || x.Method != "GET" {
			t.Errorf("%+v", x)
		}
		if x.Local != f.address || x.Remote != conn.LocalAddr().String() {
			t.Errorf("local %q remote %q", x.Local, x.Remote)
		}
		if x.Body != nil || x.Length != 0 {
			t.Errorf("a body of %d bytes, %v", x.Length, x.Body)
		}
	}
}

func TestWhatIsOursOrTheConnectionsDoesNotReachTheApp(t *testing.T) {
	f := newFront(t, Options{Token: "t"})
	got := make(chan *muru.Exchange, 1)
	f.Route(shop(-1, map[int]muru.Backend{5: capture(got)}))
	f.get("/", "X-Request-Id: mine", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil",
		"X-Forwarded-Port: 1", "Forwarded: for=1.2.3.4", "X-Real-Ip: 1.2.3.4", "X_Forwarded_For: 1.2.3.4",
		"Connection: X-Named, x-forwarded-for, keep-alive", "X-Named: gone", "Keep-Alive: 5", "Te: gzip", "Proxy-Authorization: secret",
		"Muru-Preview: r5 secret", "Muru-Token: t", "Muru-Anything: x",
		"Cookie: a=1; muru_preview=r5; b=2", "Cookie: muru_preview=r5 secret; muru_id=me", "X-Kept: 1", "X-Kept: 2",
		"Accept: */*", "User-Agent: test", "Host: shop.example")
	x := <-got
	slices.SortStableFunc(x.Header, func(a, b muru.Field) int { return strings.Compare(a.Name, b.Name) })
	want := []muru.Field{
		{Name: "Accept", Value: "*/*"},
		{Name: "Cookie", Value: "a=1; b=2; muru_id=me"},
		{Name: "User-Agent", Value: "test"},
		{Name: "X-Forwarded-For", Value: "127.0.0.1"},
		{Name: "X-Forwarded-Host", Value: "shop.example"},
		{Name: "X-Forwarded-Proto", Value: "http"},
		{Name: "X-Kept", Value: "1"},
		{Name: "X-Kept", Value: "2"},
		{Name: "X-Request-Id", Value: x.ID},
	}
	if !slices.Equal(x.Header, want) {
		t.Errorf("header\n%v\nwant\n%v", x.Header, want)
	}
	if len(x.ID) != 26 {
		t.Errorf("id %q", x.ID)
	}
}

func TestATrustedProxyIsBelieved(t *testing.T) {
	f := newFront(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}})
	got := make(chan *muru.Exchange, 1)
	f.Route(shop(5000, map[int]muru.Backend{5: capture(got), 6: capture(got)}))
	r := f.get("/", "X-Forwarded-For: 6.6.6.6, 192.0.2.9, 10.1.1.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example",
		"X-Forwarded-Port: 443")
	x := <-got
	if x.Scheme != "https" || x.Remote != "192.0.2.9:0" {
		t.Errorf("scheme %q remote %q", x.Scheme, x.Remote)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "6.6.6.6, 192.0.2.9, 10.1.1.1, 127.0.0.1", "X-Forwarded-Proto": "https",
		"X-Forwarded-Host": "shop.example", "X-Forwarded-Port": "443",
	} {
		if all := valuesOf(x, name); len(all) != 1 || all[0] != want {
			t.Errorf("%s: %q, want %q", name, all, want)
		}
	}
	if cookie := r.Header.Get("Set-Cookie"); !strings.HasSuffix(cookie, "; Path=/; HttpOnly; SameSite=Lax; Secure") {
		t.Errorf("cookie %q", cookie)
	}
}

func TestForwardedClientIsTheLastThatNoTrustedProxyIs(t *testing.T) {
	trusts := netip.MustParsePrefix("10.0.0.0/8").Contains
	for _, c := range []struct {
		header []string
		want   string
	}{
		{nil, "10.0.0.1"},
		{[]string{""}, "10.0.0.1"},
		{[]string{"192.0.2.1"}, "192.0.2.1"},
		{[]string{"6.6.6.6, 192.0.2.1"}, "192.0.2.1"},
		{[]string{"6.6.6.6", "192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		{[]string{"192.0.2.1:443"}, "192.0.2.1"},
		{[]string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{[]string{"[2001:db8::1]"}, "2001:db8::1"},
		{[]string{"2001:db8::1"}, "2001:db8::1"},
		{[]string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{[]string{"192.0.2.1, unknown, 10.0.0.7"}, "10.0.0.7"},
		{[]string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{[]string{strings.Repeat("10.0.0.2,", 10000) + strings.Repeat("x", 10000)}, "10.0.0.1"},
	} {
		if got := forwardedClient(netip.MustParseAddr("10.0.0.1"), c.header, trusts).String(); got != c.want {
			t.Errorf("%.60q: %s, want %s", c.header, got, c.want)
		}
	}
}

// Who reads Muru-Release believes it to be ours.
func TestAnAppCannotSpeakForMuru(t *testing.T) {
	f := newFront(t, Options{Token: "t0ken"})
	forged := []muru.Field{{Name: "Muru-Release", Value: "shop@r9"}, {Name: "Muru-Anything", Value: "x"}, {Name: "X-Muru", Value: "own"}}
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if x.Upgrade {
			c, err := x.Answer.Upgrade(101, append(forged, muru.Field{Name: "Upgrade", Value: "echo"}))
			if err == nil {
				err = c.Close()
			}
			return muru.Outcome{Err: err, Answered: true}
		}
		err := errors.Join(
			x.Answer.Inform(103, forged),
			x.Answer.Head(200, forged, -1),
			x.Answer.Trailer(forged))
		return muru.Outcome{Err: err, Answered: true}
	})}))
	for _, head := range []string{"", "Connection: Upgrade\r\nUpgrade: echo\r\n", "Muru-Token: t0ken\r\n"} {
		conn := f.dial()
		conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + head + "\r\n")
		all := readAll(t, conn)
		want := strings.Count(head, "Muru-") // our own then
		if got := strings.Count(all, "\r\nMuru-"); got != want || strings.Contains(all, "r9") || !strings.Contains(all, "X-Muru: own") {
			t.Errorf("with %q: %s", head, all)
		}
	}
}
