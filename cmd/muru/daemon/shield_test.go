package daemon

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/edge"
	"muru/host"
)

// failingApp fails in each of the ways that its paths say, as a WSGI
// application and as a server of its own.
const failingApp = `
import os, socketserver, time
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/raises":
        raise KeyError(path)
    if path == "/large":
        start_response("500 Oh", [("Content-Length", "1000000")])
        return [b"x" * 1000000]
    if path == "/endless":
        start_response("503 Oh", [("Content-Type", "text/plain")])
        return endless()
    status = "500 Oh" if path == "/small" else "200 OK"
    start_response(status, [("Content-Length", "3"), ("X-Shadow", environ.get("HTTP_MURU_SHADOW", "0"))])
    return [b"r6\n"]

def endless():
    while True:
        yield b"x"
        time.sleep(0.01)

class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

class Handler(WSGIRequestHandler):
    def log_message(self, *args):
        pass

if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ["PORT"]), application, Server, Handler).serve_forever()
`

// pairs is a sink that keeps what it hears.
type pairs struct {
	mu    sync.Mutex // guards all below
	done  []muru.Fact
	pairs [][2]muru.Fact
}

func (p *pairs) Done(f muru.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, f)
}

func (p *pairs) Overdue(muru.Fact, muru.Threshold) {}

func (p *pairs) Pair(user, shadow muru.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pairs = append(p.pairs, [2]muru.Fact{user, shadow})
}

func (p *pairs) heard() (done []muru.Fact, both [][2]muru.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, p.pairs
}

// silent takes reports for nobody.
type silent struct{}

func (silent) Report(muru.Event)              {}
func (silent) Harm(muru.ReleaseID, muru.Harm) {}

// shieldStage is an edge before two real releases, of which r6 fails.
type shieldStage struct {
	*edge.Edge
	host     *host.Host
	url      string
	backends map[muru.ReleaseID]muru.Backend
	sink     *pairs
}

func newShieldStage(t *testing.T, kind muru.ReleaseKind) *shieldStage {
	t.Helper()
	state := visitortest.ShortDir(t)
	h := host.New(host.Options{StateDir: state, Reporter: silent{}})
	if err := h.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &shieldStage{Edge: edge.New(edge.Options{}), host: h, backends: map[muru.ReleaseID]muru.Backend{}, sink: &pairs{}}
	good, err := filepath.Abs("../testdata/apps/shop")
	if err != nil {
		t.Fatal(err)
	}
	bad := visitortest.ShortDir(t)
	if err := os.WriteFile(filepath.Join(bad, "app.py"), []byte(failingApp), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := muru.ReleasePlan{
		Kind: muru.Python, Source: good, Entry: "app:application", Workers: 1, Threads: 2,
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
	}
	s.start(t, 5, plan)
	plan.Source = bad
	if plan.Kind = kind; kind == muru.Command {
		plan.Entry, plan.Command = "", []string{"python3", "app.py"}
	}
	s.start(t, 6, plan)
	address, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		<-served
	})
	s.url = "http://" + address.String()
	s.Judge("shop", nil, s.sink)
	return s
}

func (s *shieldStage) start(t *testing.T, number int, plan muru.ReleasePlan) {
	t.Helper()
	id := muru.ReleaseID{App: "shop", Number: number}
	b, err := s.host.Start(t.Context(), muru.Release{ID: id, ReleasePlan: plan})
	if err != nil {
		t.Fatal(err)
	}
	s.backends[id] = b
}

func (s *shieldStage) route(t *testing.T, share muru.Share, shield bool, shadow *muru.Shadow) {
	t.Helper()
	r5, r6 := muru.ReleaseID{App: "shop", Number: 5}, muru.ReleaseID{App: "shop", Number: 6}
	split, err := muru.NewSplit("", r5, muru.SplitArm{Release: r6, Share: share})
	if err != nil {
		t.Fatal(err)
	}
	s.Route(muru.Routing{
		Route: muru.Route{App: "shop"}, Generation: 1, Split: split, Backends: s.backends, Shield: shield, Shadow: shadow,
	})
}

var failingKinds = map[string]muru.ReleaseKind{"python": muru.Python, "command": muru.Command}

// waysToFail are the paths of failingApp and the statuses that a judge hears
// of. A server of its own answers a KeyError by itself.
var waysToFail = map[string]int{"/raises": 500, "/small": 500, "/large": 500, "/endless": 503}

func TestFailuresOfARealReleaseAreShielded(t *testing.T) {
	for name, kind := range failingKinds {
		t.Run(name, func(t *testing.T) {
			s := newShieldStage(t, kind)
			s.route(t, muru.Buckets, true, nil)
			for path, status := range waysToFail {
				for range 3 {
					began := time.Now()
					a := visitortest.Visit(t.Context(), http.DefaultClient, s.url+path)
					if a.Err != nil || a.Code >= 500 || a.Body == "r6\n" || time.Since(began) > 3*time.Second {
						t.Errorf("%s: %+v after %v", path, a, time.Since(began))
					}
					done, _ := s.sink.heard()
					if f := done[len(done)-1]; f.Release.Number != 6 || f.Status != status || !f.Shielded {
						t.Errorf("%s: %+v", path, f)
					}
				}
			}
			if a := visitortest.Visit(t.Context(), http.DefaultClient, s.url+"/"); a.Code != 200 || a.Body != "r6\n" {
				t.Errorf("what does not fail: %+v", a)
			}
			if !visitortest.Within(5*time.Second, func() bool {
				requests, streams, _ := s.host.InFlight(muru.ReleaseID{App: "shop", Number: 6})
				return requests+streams == 0
			}) {
				t.Error("something is left in the release")
			}
		})
	}
}

func TestARealReleaseGetsShadowCopies(t *testing.T) {
	for name, kind := range failingKinds {
		t.Run(name, func(t *testing.T) {
			s := newShieldStage(t, kind)
			s.route(t, 0, false, &muru.Shadow{Release: muru.ReleaseID{App: "shop", Number: 6}, Share: muru.Buckets})
			want := map[string]int{"/": 200}
			for path, status := range waysToFail {
				want[path] = status
			}
			n := 0
			for path, status := range want {
				a := visitortest.Visit(t.Context(), http.DefaultClient, s.url+path)
				if a.Err != nil || a.Code >= 500 || a.Body == "r6\n" {
					t.Errorf("%s: %+v", path, a)
				}
				n++
				if !visitortest.Within(5*time.Second, func() bool { _, both := s.sink.heard(); return len(both) == n }) {
					t.Fatalf("%s: no pair", path)
				}
				_, both := s.sink.heard()
				if p := both[n-1]; p[0].Release.Number != 5 || p[0].Status != a.Code || p[1].Release.Number != 6 || p[1].Status != status {
					t.Errorf("%s: %+v", path, p)
				}
				busy := s.backends[muru.ReleaseID{App: "shop", Number: 6}].(muru.BusyBackend)
				if !visitortest.Within(5*time.Second, func() bool { return !busy.Busy() }) {
					t.Fatalf("%s: the release is not rid of the copy", path)
				}
			}
			if done, _ := s.sink.heard(); len(done) != 0 {
				t.Errorf("also heard of %+v", done)
			}
		})
	}
}
