package builtins

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muru"
	"muru/rollout"
)

// newLoadStage is a stage on the real clock whose shop is served by handler.
func newLoadStage(t *testing.T, handler http.HandlerFunc) (*stage, string) {
	t.Helper()
	s := newEmptyStage(t, rollout.RealClock{})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.edge.URLFunc = func(muru.Route) string { return server.URL + "/" }
	if _, err := s.run(`deploy("shop", "shop/v5")`); err != nil {
		t.Fatal(err)
	}
	return s, server.URL
}

func TestTrafficCountsStatusesAndReleases(t *testing.T) {
	var n atomic.Int64
	s, _ := newLoadStage(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Muru-Token") != "token" || r.Header.Get("Cookie") != "" || r.Header.Get("X-Kind") != "test" {
			w.WriteHeader(418)
			return
		}
		release := "shop@r1"
		if i := n.Add(1); i%4 == 0 {
			release = "shop@r2"
			w.Header().Set("Muru-Release", release)
			w.WriteHeader(500)
			return
		}
		w.Header().Set("Muru-Release", release)
		io.WriteString(w, strings.Repeat("x", 100))
	})
	got := s.value(`traffic("shop", clients = 2, duration = "200ms", headers = {"X-Kind": "test"})`).(*Record)
	l, _ := native[*load](got)
	tally := l.tally()
	if int64(tally.requests()) != n.Load() || tally.statuses[500] != int(n.Load()/4) || tally.statuses[200]+tally.statuses[500] != tally.requests() {
		t.Errorf("%s, the server saw %d", tally, n.Load())
	}
	if tally.releases["shop@r1"] != tally.statuses[200] || tally.releases["shop@r2"] != tally.statuses[500] {
		t.Errorf("releases %v of %s", tally.releases, tally)
	}
	want := fmt.Sprintf("STATUS COUNT\n200    %d\n500    %d", tally.statuses[200], tally.statuses[500])
	if Format(got) != want {
		t.Errorf("prints as\n%s\nwant\n%s", Format(got), want)
	}
	if !strings.HasPrefix(got.String(), fmt.Sprintf("%d requests in ", tally.requests())) {
		t.Errorf("short form %s", got)
	}
}

func TestTrafficKeepsConnectionsAndPicksEveryPath(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]int)
	remotes := make(map[string]bool)
	s, _ := newLoadStage(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.RequestURI()]++
		remotes[r.RemoteAddr] = true
	})
	s.value(`traffic("shop", clients = 3, paths = ["/", "/search?q=tea"], duration = "200ms")`)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 || seen["/"] == 0 || seen["/search?q=tea"] == 0 {
		t.Errorf("asked for %v", seen)
	}
	if len(remotes) > 8 { // a few more are dialled while others become free
		t.Errorf("%d connections for 3 clients and thousands of requests", len(remotes))
	}
}

func TestTrafficReachesAnAppByItsHostName(t *testing.T) {
	hosts := make(chan string, 100000)
	s, _ := newLoadStage(t, func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host + r.URL.Path })
	s.value(`[app("shop", hosts = ["shop.example.test"], path = "/shop"), traffic("shop", duration = "50ms")]`)
	if got := <-hosts; got != "shop.example.test/shop" {
		t.Errorf("asked %s", got)
	}
}

func TestTrafficWithCookiesIsTheSameClient(t *testing.T) {
	var minted atomic.Int64
	s, _ := newLoadStage(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("muru_id"); err != nil {
			minted.Add(1)
			http.SetCookie(w, &http.Cookie{Name: "muru_id", Value: "x", Path: "/"})
		}
	})
	s.value(`traffic("shop", clients = 3, cookies = True, duration = "100ms")`)
	if minted.Load() != 3 {
		t.Errorf("%d identities for 3 clients with cookies", minted.Load())
	}
}

func TestTrafficGivesUpOnRequestsThatHang(t *testing.T) {
	s, _ := newLoadStage(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
	})
	got := s.value(`traffic("shop", clients = 2, paths = ["/", "/hang"], timeout = "50ms", duration = "300ms")`)
	l, _ := native[*load](got)
	if tally := l.tally(); tally.gaveUp == 0 || tally.statuses[200] == 0 || len(tally.statuses) != 1 {
		t.Errorf("got %s", tally)
	}
	if !strings.HasSuffix(got.String(), " gave up") || !strings.Contains(Format(got), "\ngave up ") {
		t.Errorf("prints as %s and\n%s", got, Format(got))
	}
}

func TestTrafficCountsConnectionsThatAreCut(t *testing.T) {
	var n atomic.Int64
	s, url := newLoadStage(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "part")
			panic(http.ErrAbortHandler)
		}
	})
	got := s.value(`traffic("` + url + `", clients = 1, duration = "200ms").statuses`)
	if text := got.String(); !strings.HasPrefix(text, "{0: ") || !strings.Contains(text, ", 200: ") {
		t.Errorf("got %s", text)
	}
}

func TestTrafficKeepsItsRateWhateverTheAnswersTake(t *testing.T) {
	s, _ := newLoadStage(t, func(http.ResponseWriter, *http.Request) { <-time.After(40 * time.Millisecond) })
	got := s.value(`traffic("shop", rate = "100/s", duration = "500ms").requests`)
	if n := got.String(); len(n) != 2 || n < "35" || n > "55" {
		t.Errorf("%s requests in 500 ms at 100/s", n)
	}
}

func TestStopLetsRequestsInFlightFinish(t *testing.T) {
	inside := make(chan struct{}, 100)
	release := make(chan struct{})
	s, _ := newLoadStage(t, func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-release
	})
	l, _ := native[*load](s.value(`traffic("shop", clients = 2, duration = "1h", timeout = "20s", wait = False)`))
	<-inside
	<-inside
	go func() {
		<-l.sending.Done() // stop was called, and waits for the two
		close(release)
	}()
	got, err := l.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tally := l.tally(); tally.running || tally.statuses[200] != 2 || tally.requests() != 2 {
		t.Errorf("got %s", tally)
	}
	if running, _ := got.(*Record).Attr("running"); running.String() != "False" {
		t.Error("what stop returns says that it runs")
	}
}

func TestTrafficOfARunEndsWithIt(t *testing.T) {
	inside := make(chan struct{}, 1)
	s, _ := newLoadStage(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case inside <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	})
	got := s.value(`traffic("shop", duration = "1h", timeout = "1h", wait = False)`)
	if running, _ := got.(*Record).Attr("running"); running.String() != "True" {
		t.Error("it does not run")
	}
	<-inside
	began := time.Now()
	if err := s.set.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("closing took %s", took)
	}
	if l, _ := native[*load](got); l.tally().running {
		t.Error("it still runs")
	}
	if _, err := s.run(`traffic("shop", wait = False)`); err == nil {
		t.Error("traffic was started after the end of the run")
	}
}

func TestCancelEndsTrafficThatIsWaitedFor(t *testing.T) {
	s, _ := newLoadStage(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	file, err := s.runtime.Parse("test.star", []byte(`traffic("shop", duration = "1h", timeout = "1h")`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := file.Run(ctx, nil); muru.KindOf(err) != muru.KindCanceled {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("cancelled after %s", took)
	}
	eventually(t, "the load has ended", func() bool {
		s.set.loads.mu.Lock()
		defer s.set.loads.mu.Unlock()
		return len(s.set.loads.active) == 0
	})
}
