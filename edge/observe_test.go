package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"muru"
)

func TestCountersAreKeptPerReleaseAndGoWithIt(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5"), 6: fails(muru.ErrApp)}))
	f.get("/")
	f.get("/")
	f.get("/", "Muru-Preview: r6")
	f.get("/", "Muru-Preview: r9")
	metrics := func() string {
		var b strings.Builder
		f.WriteMetrics(&b)
		return b.String()
	}
	text := metrics()
	for _, want := range []string{
		`muru_requests_total{app="shop",release="r5",code="2xx"} 2`,
		`muru_requests_total{app="shop",release="r6",code="5xx"} 1`,
		`muru_own_answers_total{app="shop",release="r6",reason="app_error"} 1`,
		`muru_own_answers_total{app="",release="",reason="no_such_release"} 1`,
		`muru_request_seconds_count{app="shop",release="r5"} 2`,
		`muru_queue_wait_seconds_count{app="shop",release="r5"} 2`,
		`muru_requests_in_flight{app="shop",release="r5"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if c := f.Counts(rel(5)); c != (Counts{Requests: 2}) {
		t.Errorf("%+v", c)
	}
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5")}))
	if text := metrics(); strings.Contains(text, `"r6"`) || !strings.Contains(text, `"r5"`) {
		t.Errorf("after r6 left:\n%s", text)
	}
	f.Remove("shop")
	if text := metrics(); strings.Contains(text, `"shop"`) {
		t.Errorf("after shop left:\n%s", text)
	}
	if c := f.Counts(rel(5)); c != (Counts{}) {
		t.Errorf("%+v", c)
	}
}

func TestEachRequestIsOneLineWithoutSecrets(t *testing.T) {
	var log lines
	f := newFront(t, Options{AccessLog: &log, Token: "token"})
	f.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: fails(muru.ErrWorkerDied)}, func(r *muru.Routing) {
		r.Route.PreviewKey = "sesame"
	}))
	f.do("POST", "/orders/1?card=4242", strings.NewReader("four"), "Muru-Preview: r5 sesame", "Cookie: session=s3cret", "Muru-Token: token", "Authorization: Basic x")
	f.get("/", "Cookie: muru_id="+idIn(true))
	f.get("/", "Host: elsewhere.example")
	f.Remove("shop")
	f.get("/x\"y%0A")
	f.access.flush()
	eventually(t, func() bool { f.access.flush(); return strings.Count(log.String(), "\n") == 4 })
	text := log.String()
	for _, secret := range []string{"4242", "sesame", "s3cret", "token", "Basic", idIn(true)} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the log:\n%s", secret, text)
		}
	}
	var all []map[string]any
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, m)
	}
	first := all[0]
	for name, want := range map[string]any{
		"app": "shop", "release": "r5", "method": "POST", "path": "/orders/1", "host": f.address, "status": 200.0,
		"bytes_in": 0.0, "bytes_out": 2.0, "client": "127.0.0.1", "preview": true,
	} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if at, _ := first["time"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$`).MatchString(at) {
		t.Errorf("time %v", first["time"])
	}
	if _, ok := first["reason"]; ok {
		t.Errorf("a reason without need: %v", first)
	}
	if second := all[1]; second["rescued"] != true || second["status"] != 200.0 || second["release"] != "r6" {
		t.Errorf("%v", second)
	}
	if last := all[3]; last["status"] != 404.0 || last["reason"] != "no_route" || last["path"] != "/x%22y%0A" {
		t.Errorf("%v", last)
	}
}

func TestListeningOnATakenPortSaysSo(t *testing.T) {
	f := newFront(t, Options{})
	_, err := New(Options{}).Listen(t.Context(), f.address)
	if !errors.Is(err, ErrPortTaken) || muru.KindOf(err) != muru.KindFailed {
		t.Fatalf("%v", err)
	}
	e, ok := errors.AsType[*muru.Error](err)
	if !ok || e.Error() != f.address+" is taken: another program listens there" || e.Hint == "" {
		t.Errorf("%q, hint %q", e.Error(), e.Hint)
	}
	for _, address := range []string{"", "8080", "127.0.0.1:99999", "300.0.0.1:1"} {
		_, err := New(Options{}).Listen(t.Context(), address)
		if address == "" {
			continue // any address, any port: as net has it
		}
		if e, ok := errors.AsType[*muru.Error](err); !ok || e.Hint == "" {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestCanListenSaysWhatListenWould(t *testing.T) {
	f := newFront(t, Options{})
	for _, address := range []string{f.address, "8080", "127.0.0.1:99999", "300.0.0.1:1", "192.0.2.1:8080"} {
		_, want := New(Options{}).Listen(t.Context(), address)
		got := CanListen(t.Context(), address)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
	_, port, _ := net.SplitHostPort(f.address)
	if err := CanListen(t.Context(), ":"+port); !errors.Is(err, ErrPortTaken) {
		t.Errorf("everywhere: %v", err)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0"} {
		if err := CanListen(t.Context(), address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestNobodyIsConnectedWhileAnAddressIsTried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	stop, tried := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(tried)
		for {
			select {
			case <-stop:
				return
			default:
				if err := CanListen(t.Context(), address); err != nil {
					tried <- err
					return
				}
			}
		}
	}()
	for range 300 {
		if c, err := net.Dial("tcp", address); err == nil && c.LocalAddr().String() != address { // or it met itself
			c.Close()
			t.Error("somebody was let in")
			break
		}
	}
	close(stop)
	if err := <-tried; err != nil {
		t.Error(err)
	}
}

func TestURLsAreWherePeopleReachARoute(t *testing.T) {
	e := New(Options{})
	if got := e.URL(muru.Route{}); got != "" {
		t.Errorf("before listening: %q", got)
	}
	addr, err := e.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	_, port, _ := strings.Cut(addr.String(), ":")
	for _, c := range []struct {
		route muru.Route
		want  string
	}{
		{muru.Route{}, "http://127.0.0.1:" + port + "/"},
		{muru.Route{Path: "/api/"}, "http://127.0.0.1:" + port + "/api"},
		{muru.Route{Hosts: []string{"*", "shop.example"}}, "http://shop.example:" + port + "/"},
	} {
		if got := e.URL(c.route); got != c.want {
			t.Errorf("%+v: %s, want %s", c.route, got, c.want)
		}
	}
}

func TestCloseWaitsForRequestsInFlight(t *testing.T) {
	e := New(Options{})
	addr, err := e.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, started, release := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() { served <- e.Serve() }()
	e.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		<-release
		return say(x, 200, "whole")
	})}))
	f := &front{Edge: e, t: t, address: addr.String()}
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-started
	closed := make(chan error, 1)
	go func() { closed <- e.Close(context.Background()) }()
	if err := <-served; err != nil {
		t.Error(err)
	}
	select {
	case err := <-closed:
		t.Errorf("closed with a request in flight: %v", err)
	default:
	}
	close(release)
	if r := conn.response("GET"); readAll(t, r.Body) != "whole" {
		t.Error("not whole")
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestRequestIDsAreULIDsOfTheirTime(t *testing.T) {
	seen := map[string]bool{}
	now := time.UnixMilli(1_700_000_000_000)
	for range 1000 {
		id := newRequestID(now)
		if !strings.HasPrefix(id, "01HF7YAT00") || len(id) != 26 || seen[id] {
			t.Fatalf("%s", id)
		}
		seen[id] = true
	}
	if a, b := newClientID(), newClientID(); a == b || !isClientID(a) {
		t.Errorf("%s %s", a, b)
	}
}
