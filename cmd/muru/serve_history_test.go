package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/control"
	"muru/rollout"
	"muru/store"
)

const (
	historyReleases = 1000
	historyEvents   = 100_000
)

// writeHistory makes a state directory in which an app had many releases,
// each served by a server at upstream, and much has happened.
func writeHistory(t *testing.T, state, upstream string) {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("written in %v", time.Since(began)) }()
	h, err := openHouse(t.Context(), state, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	call := control.Call{Source: fmt.Sprintf("len([deploy(\"shop\", upstream = %q) for _ in range(%d)])", upstream, historyReleases), Dir: "/"}
	if err := h.NewRunner().Call(t.Context(), call, func(control.Message) {}); err != nil {
		t.Error(control.ErrorText(err))
	}
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Logf("deployed in %v", time.Since(began))
	path := filepath.Join(state, "muru.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := rollout.OpenLog(t.Context(), db, rollout.LogOptions{Clock: rollout.RealClock{}, Max: historyEvents, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range historyEvents {
		events.Append(muru.Event{
			Level: muru.Level(i % 2), Kind: "worker.ready", Subject: fmt.Sprintf("shop@r%d", 1+i/100),
			Message: fmt.Sprintf("worker %d (pid %d) is ready", i%4, 1000+i), Data: map[string]any{"worker": i % 4, "pid": 1000 + i},
		})
	}
	if err := errors.Join(events.Close(context.Background()), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLongHistoryHoldsUpNeitherTheStartNorQuestions(t *testing.T) {
	state := visitortest.ShortDir(t)
	if dir, err := os.MkdirTemp("/dev/shm", "mt-"); err == nil { // a thousand deploys wait for the disk
		state = dir
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	server := newHelloServer(t)
	writeHistory(t, state, server)

	address := freeAddress(t)
	began := time.Now()
	s := startServe(t, state, nil, "--listen", address, "--keep-events", "0", "--keep-releases", "0", "--keep-age", "0")
	var opened time.Time
	if !visitortest.Within(20*time.Second, func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		opened = time.Now()
		return c.Close() == nil
	}) {
		t.Fatalf("the listener does not open:\n%s", s.printed())
	}
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), "http://"+address+"/"); a.Body != "hello" {
		t.Errorf("it answers %+v", a)
	}
	t.Logf("the listener opens after %v, an answer comes %v later", opened.Sub(began), time.Since(opened))
	if took := time.Since(opened); took > time.Second {
		t.Errorf("serving %v after the listener opened", took)
	}
	s.url()
	if out := s.must("releases", "shop"); strings.Count(out, "\n") != historyReleases+1 {
		t.Errorf("%d lines of releases", strings.Count(out, "\n"))
	}
	for _, source := range []string{
		`events()`, `events("shop@r3")`, `events(kind = "rollout.*")`, `events(level = "warning", limit = 1000)`, `status()`, `status("shop")`, `releases("shop")`,
	} {
		var took []time.Duration
		for range 9 {
			asked := time.Now()
			s.call(source)
			took = append(took, time.Since(asked))
		}
		slices.Sort(took)
		t.Logf("%s takes %v, at worst %v", source, took[len(took)/2], took[len(took)-1])
		if median := took[len(took)/2]; median > time.Second { // under 50 ms on a machine of its own
			t.Errorf("%s takes %v", source, median)
		}
	}
	newest := s.must("events", "--limit", "1")
	if !regexp.MustCompile(`daemon\.started`).MatchString(newest) {
		t.Errorf("the newest event is %s", newest)
	}
	s.stop(syscall.SIGTERM)

	// The same again with the usual retention: what is too much goes.
	s = startServe(t, state, nil, "--listen", address)
	s.url()
	if !visitortest.Within(20*time.Second, func() bool { return strings.Count(s.must("releases", "shop"), "\n") == 20+2+1 }) {
		t.Errorf("old releases are kept: %d lines", strings.Count(s.must("releases", "shop"), "\n"))
	}
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), "http://"+address+"/"); a.Body != "hello" {
		t.Errorf("it answers %+v", a)
	}
	s.stop(syscall.SIGTERM)
}

// newHelloServer is a server that somebody else runs; it returns its address.
func newHelloServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

func TestGCRemovesWhatIsPastItsRetentionAndNothingElse(t *testing.T) {
	t.Parallel()
	state := visitortest.ShortDir(t)
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0", "--keep-releases", "1", "--keep-events", "10")
	s.url()
	shop := shopDir(t)
	for range 4 { // r4 serves, r3 is warm, r2 and r1 have stopped
		s.must("deploy", "shop", shop, "--workers", "1")
	}
	s.must("deploy", "shop", shop, "--workers", "1", "--hold")
	if !visitortest.Within(10*time.Second, func() bool { return strings.Count(s.must("events", "--kind", "release.stopped"), "\n") == 2 }) {
		t.Fatalf("the releases are\n%s", s.must("releases", "shop"))
	}
	log := filepath.Join(state, "logs", "shop-r1.log")
	if _, err := os.Stat(log); err != nil {
		t.Fatal(err)
	}
	out := s.must("gc")
	if !regexp.MustCompile(`^muru: removed 1 releases \(shop@r1\), \d+ events\n$`).MatchString(out) {
		t.Errorf("it says %q", out)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("its log is there still")
	}
	if out := s.must("gc"); out != "muru: nothing is past its retention\n" {
		t.Errorf("again it says %q", out)
	}
	if out := s.must("gc", "--json"); out != `{"releases":[],"rollouts":[],"events":0}`+"\n" {
		t.Errorf("as JSON: %s", out)
	}
	before := lasting(t, s.client())
	if n := strings.Count(s.must("events", "--limit", "1000"), "\n"); n != 10 {
		t.Errorf("%d events are kept", n)
	}
	s.stop(syscall.SIGTERM)
	s = startServe(t, state, nil, "--listen", strings.TrimPrefix(s.url(), "http://"))
	s.url()
	if !visitortest.Within(10*time.Second, func() bool { return lasting(t, s.client()) == before }) {
		t.Errorf("after a restart it is\n%s\nand was\n%s", lasting(t, s.client()), before)
	}
	if _, err := s.client().GC(control.WithCaller(t.Context(), "ana")); err != nil {
		t.Error(err)
	}
	s.stop(syscall.SIGTERM)
}
