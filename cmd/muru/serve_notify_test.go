package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

func TestWarningsArePostedAsJSON(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
	}))
	t.Cleanup(receiver.Close)
	got := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(bodies)
	}
	s := startServe(t, visitortest.ShortDir(t), nil, "--listen", "127.0.0.1:0", "--notify", receiver.URL+"/hook?key=SECRET")
	s.url()
	s.must("deploy", "shop", shopDir(t), "--workers", "1")
	s.must("deploy", "shop", shopDir(t), "--workers", "1", "--hold")
	s.must("rollout", "canary", "shop@r2", "--hold", "1h")
	s.must("rollout", "abort", "shop", "--reason", "lunch")
	if !visitortest.Within(10*time.Second, func() bool { return len(got()) > 0 }) {
		t.Fatal("nothing is posted")
	}
	s.stop(syscall.SIGTERM)
	all := got()
	var e struct {
		Seq                           int
		Time                          time.Time
		Level, Kind, Subject, Message string
	}
	if err := json.Unmarshal([]byte(all[0]), &e); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || e.Seq == 0 || e.Time.IsZero() || e.Level != "warning" || e.Kind != "rollout.aborted" || e.Subject != "shop@r2" ||
		e.Message != "rollout 1: by "+userName(t)+" at 10%: lunch" {
		t.Errorf("posted %q", all)
	}
}

func TestNotifyURLThatIsNone(t *testing.T) {
	t.Parallel()
	refused(t, visitortest.ShortDir(t), nil, 2, `muru: --notify: "hooks.example/muru" is not a URL\nhint: write it like https://hooks\.example/muru`, "--notify", "hooks.example/muru")
}
