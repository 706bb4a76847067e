package rollout

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"muru"
	"muru/rollout/rollouttest"
	"muru/store"
)

const (
	historyReleases = 1000
	historyEvents   = 100_000
)

// writeHistory fills a state file as a year of one app would: one release
// serves, one is warm, one held, all others have stopped.
func writeHistory(tb testing.TB, path string) {
	tb.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	var ops []store.Op
	put := func(key string, value []byte) { ops = append(ops, store.Put(key, value, 0)) }
	a := newActor(nil, muru.Route{App: "shop"})
	a.last = historyReleases
	a.split, _ = muru.NewSplit("", rel(historyReleases-1))
	for n := 1; n <= historyReleases; n++ {
		r := wholeRelease()
		r.ID, r.State = rel(n), muru.Stopped
		switch n {
		case historyReleases:
			r.State = muru.Held
		case historyReleases - 1:
			r.State = muru.Serving
		case historyReleases - 2:
			r.State = muru.Warm
		}
		a.history = append(a.history, n)
		put(releaseKey(r.ID), encode(r.record()))
	}
	a.history = a.history[:historyReleases-1]
	put(appKey("shop"), encode(a.record()))
	for n := 1; n <= historyReleases; n++ {
		put(rolloutKey(n), encode(wholeRollout(muru.RolledBack).record()))
	}
	for n := 1; n <= historyEvents; n++ {
		e := wholeEvent()
		e.Subject = rel(n/100 + 1).String()
		e.Data = map[string]any{"rollout": n/100 + 1, "run": n / 50}
		put(eventKey(n), encodeEvent(e))
	}
	for part := range slices.Chunk(ops, store.MaxOps) {
		if _, err := s.Txn(context.Background(), nil, part, nil); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// withHistory opens an engine on a state file with a long history and returns
// how long it took until what serves was ready.
func withHistory(tb testing.TB, path string) (w *world, took time.Duration) {
	tb.Helper()
	w = &world{path: path, edge: &rollouttest.Edge{}, host: &rollouttest.Host{}}
	began := time.Now()
	var err error
	if w.bolt, err = store.Open(path, store.Options{}); err != nil {
		tb.Fatal(err)
	}
	if w.log, err = OpenLog(context.Background(), w.bolt, LogOptions{}); err != nil {
		tb.Fatal(err)
	}
	w.e = New(Options{Edge: w.edge, Host: w.host, Log: w.log, Bug: panicked})
	if err := w.e.Restore(context.Background()); err != nil {
		tb.Fatal(err)
	}
	took = time.Since(began)
	tb.Cleanup(func() {
		ctx := context.Background()
		_, _, _ = w.e.Close(ctx), w.log.Close(ctx), w.bolt.Close()
	})
	return w, took
}

func TestLongHistoryDoesNotHoldUpAStart(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	began := time.Now()
	writeHistory(t, path)
	// Under one on a machine of its own; see the benchmark. One that is so busy
	// that it wrote the history for longer than this takes as long to read it.
	bound := max(5*time.Second, time.Since(began)/2)
	w, took := withHistory(t, path)
	if !w.host.Running(rel(historyReleases - 1)) {
		t.Error("what served does not serve")
	}
	t.Logf("serves after %s", took)
	if took > bound {
		t.Errorf("serves after %s", took)
	}
	if got := len(w.e.Events(EventQuery{Limit: 100})); got != 100 {
		t.Errorf("%d events", got)
	}
	all, _ := w.e.Releases("shop")
	rollouts, _ := w.e.Rollouts("")
	if len(all) != historyReleases || len(rollouts) != historyReleases {
		t.Errorf("%d releases, %d rollouts", len(all), len(rollouts))
	}
}

// BenchmarkRestore is a start with a thousand releases, a thousand rollouts
// and a hundred thousand events, until the listener could open. The file is
// checked whole by it.
func BenchmarkRestore(b *testing.B) {
	path := filepath.Join(fastDir(b), "muru.db")
	writeHistory(b, path)
	for b.Loop() {
		w, _ := withHistory(b, path)
		b.StopTimer()
		ctx := context.Background()
		_, _, _ = w.e.Close(ctx), w.log.Close(ctx), w.bolt.Close()
		b.StartTimer()
	}
}

// BenchmarkLook is what events() and status() read with that history.
func BenchmarkLook(b *testing.B) {
	path := filepath.Join(fastDir(b), "muru.db")
	writeHistory(b, path)
	w, _ := withHistory(b, path)
	w.log.disk.tasks.Wait() // older events are in memory
	for name, q := range map[string]EventQuery{
		"newest": {Limit: 50}, "all": {}, "rollout": {Rollout: 12}, "kind that is rare": {Kind: "app.*"},
	} {
		b.Run("events/"+name, func(b *testing.B) {
			for b.Loop() {
				w.e.Events(q)
			}
		})
	}
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			w.e.Apps()
			w.e.Releases("")
			w.e.Rollouts("")
		}
	})
	b.Run("commit", func(b *testing.B) {
		for i := range b.N {
			path := RouteChange{"health", func(r *muru.Route) { r.Health = fmt.Sprintf("/%d", i) }, func(r muru.Route) string { return r.Health }}
			if _, _, err := w.e.App(context.Background(), AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{path}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
