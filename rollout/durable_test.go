package rollout

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"muru/rollout/rollouttest"
	"muru/store"
)

// inDurableWorld runs fn in a bubble with an engine on a state file.
func inDurableWorld(t *testing.T, fn func(w *world)) { inWrappedWorld(t, nil, fn) }

// inWrappedWorld puts something between the engine and the file.
func inWrappedWorld(t *testing.T, wraps func(store.Store) store.Store, fn func(w *world)) {
	t.Helper()
	path := filepath.Join(fastDir(t), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ctx: t.Context(), path: path, host: &rollouttest.Host{}, wraps: wraps}
		w.start()
		defer w.stop()
		fn(w)
		w.invariants()
	})
}

// fastDir returns a directory in memory where the machine has one: the tests
// open hundreds of state files and wait for each transaction to be on disk.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "muru-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start opens everything on the state file, as a muru that is started.
func (w *world) start() {
	w.t.Helper()
	bolt, err := store.Open(w.path, store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.bolt = bolt
	var s store.Store = bolt
	if w.wraps != nil {
		s = w.wraps(bolt)
	}
	if w.log, err = OpenLog(w.ctx, s, LogOptions{Path: w.path}); err != nil {
		w.t.Fatal(err)
	}
	w.edge = &rollouttest.Edge{}
	fresh := &rollouttest.Host{
		StartFunc: w.host.StartFunc, DrainFunc: w.host.DrainFunc, StopFunc: w.host.StopFunc, ReadyFunc: w.host.ReadyFunc,
	}
	w.host = fresh
	w.e = New(Options{Edge: w.edge, Host: w.host, Log: w.log, Reporter: NewReporter(w.log), Bug: panicked})
	if err := w.e.Restore(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// stop closes everything in order.
func (w *world) stop() {
	w.t.Helper()
	ctx := context.Background()
	if err := w.e.Close(ctx); err != nil {
		w.t.Error(err)
	}
	if err := w.log.Close(ctx); err != nil {
		w.t.Error(err)
	}
	if err := w.bolt.Close(); err != nil {
		w.t.Error(err)
	}
}

// stopRoughly closes everything; a disk that is full may keep the last from
// being written.
func (w *world) stopRoughly() {
	w.t.Helper()
	_ = w.e.Close(context.Background())
	_ = w.log.Close(context.Background())
	if err := w.bolt.Close(); err != nil {
		w.t.Error(err)
	}
}

// restart stops everything and starts it again.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}
