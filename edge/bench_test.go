package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"muru"
)

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10, 10000} {
		var routes []muru.Route
		for i := range n / 2 {
			routes = append(routes,
				muru.Route{App: fmt.Sprintf("h%d", i), Hosts: []string{fmt.Sprintf("h%d.example", i)}},
				muru.Route{App: fmt.Sprintf("p%d", i), Path: fmt.Sprintf("/team/p%d", i)})
		}
		e := New(Options{})
		for _, r := range routes {
			e.Route(muru.Routing{Route: r})
		}
		t := e.table.Load()
		b.Run(fmt.Sprintf("%d routes", n), func(b *testing.B) {
			for b.Loop() {
				if t.find("h3.example", "/a/b/c", "GET", nil) == nil || t.find("other", "/team/p3/x/y", "GET", nil) == nil {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprintf("changing a split among %d routes", n), func(b *testing.B) {
			for b.Loop() {
				e.Route(muru.Routing{Route: routes[0]})
			}
		})
	}
}

func BenchmarkPick(b *testing.B) {
	e := New(Options{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}))
	s := e.table.Load().apps["shop"].state.Load()
	h := http.Header{"Cookie": {"session=abcdef; muru_id=01M6TE1RN0DZ6YEXWKNV4W5AKN; theme=dark"}}
	now := time.Now()
	for b.Loop() {
		c := client{header: h}
		if ch := s.pick(&c, "x", now); ch.target == nil {
			b.Fatal("nothing picked")
		}
	}
}

// BenchmarkRequest is one request over a kept connection, with a split, a
// judge and an access log.
func BenchmarkRequest(b *testing.B) {
	e := New(Options{AccessLog: io.Discard})
	addr, err := e.Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve() }()
	e.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: 30 * time.Second}}, &nobody{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}))
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		b.Fatal(err)
	}
	request := []byte("GET /orders/1 HTTP/1.1\r\nHost: a\r\nUser-Agent: bench\r\nAccept: */*\r\nCookie: muru_id=01M6TE1RN0DZ6YEXWKNV4W5AKN\r\n\r\n")
	r := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			b.Fatal(err)
		}
	}
	conn.Close()
	if err := e.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-served
}

type nobody struct{}

func (*nobody) Done(muru.Fact)                    {}
func (*nobody) Overdue(muru.Fact, muru.Threshold) {}
func (*nobody) Pair(_, _ muru.Fact)               {}

// BenchmarkServe is the edge's own part: no socket, no net/http server.
func BenchmarkServe(b *testing.B) {
	for _, c := range extras {
		b.Run(c.what, func(b *testing.B) {
			serve := server(b, io.Discard, c.change)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// extras are what a routing may ask for beside an answer.
var extras = []struct {
	what   string
	change func(*muru.Routing)
}{
	{"nothing more", func(*muru.Routing) {}},
	{"shield and marks", func(r *muru.Routing) { r.Shield, r.Marks = true, []string{"X-Cart-Lost", "X-Slow"} }},
	{"shadow of others", func(r *muru.Routing) { r.Shadow = &muru.Shadow{Release: rel(6), Share: 1} }},
	{"shadow copy", func(r *muru.Routing) {
		r.Split, _ = muru.NewSplit("rollout 1", rel(5), muru.SplitArm{Release: rel(6)})
		r.Shadow = &muru.Shadow{Release: rel(6), Share: muru.Buckets}
	}},
}

// server returns what answers one request of a client of the baseline.
func server(tb testing.TB, log io.Writer, change func(*muru.Routing)) func() {
	e := New(Options{AccessLog: log})
	e.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: 30 * time.Second}}, &nobody{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}, change))
	r, err := http.NewRequest("GET", "/orders/1", nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RequestURI, r.Host, r.RemoteAddr = "/orders/1", "a", "192.0.2.1:1"
	r.Header = http.Header{"User-Agent": {"bench"}, "Accept": {"*/*"}, "Cookie": {"muru_id=" + idIn(false)}}
	w := &sinkWriter{h: http.Header{}}
	return func() {
		clear(w.h)
		e.ServeHTTP(w, r)
	}
}

func TestShieldAndMarksThatAreNotNeededCostNoAllocation(t *testing.T) {
	plain := testing.AllocsPerRun(500, server(t, nil, extras[0].change))
	for _, c := range extras[1:3] {
		if n := testing.AllocsPerRun(500, server(t, nil, c.change)); n != plain {
			t.Errorf("%s: %v allocations instead of %v", c.what, n, plain)
		}
	}
}

type sinkWriter struct{ h http.Header }

func (w *sinkWriter) Header() http.Header         { return w.h }
func (w *sinkWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *sinkWriter) WriteHeader(int)             {}
