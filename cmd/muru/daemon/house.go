package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"

	"muru"
	"muru/edge"
	"muru/host"
	"muru/rollout"
	script "muru/starlark"
	"muru/store"
)

// The deadlines of the shutdown, in its order.
const (
	drainEdgeFor  = 15 * time.Second // requests that are being answered
	stopEngineFor = 5 * time.Second
	stopHostFor   = 10 * time.Second // workers that finish, then end
	closeFilesFor = 5 * time.Second
)

// eventsInMemory is how many events are answered from memory; older ones are
// read from the store.
const eventsInMemory = 100_000

// ErrStateLocked is returned when another process uses the state directory.
var ErrStateLocked = errors.New("the state directory is in use")

// Options are where a house lives. The zero value is a temporary house.
type Options struct {
	State   string // state directory, empty: a temporary one, which Close removes
	Version string // of this muru, for whoever asks
}

// A House is everything that serves: store, event log, edge, host and engine
// in one process, on one state directory. It is opened, restored, and then
// listens; Close takes it down in the opposite order. One goroutine opens and
// closes it; meanwhile it is safe for concurrent use.
type House struct {
	state    string
	version  string
	token    string // by which our own requests learn which release answered
	log      *slog.Logger
	store    *store.Bolt
	events   *rollout.Log
	reporter *rollout.Reporter
	edge     *edge.Edge
	host     *host.Host
	engine   *rollout.Engine
	keep     rollout.Policy // what is kept of the past

	address string     // the first that the edge listens on
	served  chan error // why serving ended
	undo    []func(context.Context) error
}

var (
	_ rollout.Edge = (*edge.Edge)(nil)
	_ rollout.Host = (*host.Host)(nil)
)

// Open opens a house that serves what its state directory has, at an address;
// port 0 is one that is free. The caller closes it.
func Open(ctx context.Context, o Options, address string) (*House, error) {
	h, err := openHouse(ctx, o)
	if err != nil {
		return nil, err
	}
	if err = h.restore(ctx); err == nil {
		err = h.listen(ctx, address)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// Address is where the edge listens, the first if there are several.
func (h *House) Address() string { return h.address }

// Ended gives why serving ended, if that happens before Close.
func (h *House) Ended() <-chan error { return h.served }

// NewRunner returns a runner in this house. Close closes it first, if nobody
// has.
func (h *House) NewRunner() *Runner {
	r := NewRunner(h.runnerOptions())
	h.atClose(endRunFor, r.Close)
	return r
}

// openHouse opens everything on the state directory. Nothing serves yet. The
// caller closes it.
func openHouse(ctx context.Context, o Options) (h *House, err error) {
	h = &House{version: o.Version, token: rand.Text(), keep: DefaultRetention(), served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close(context.WithoutCancel(ctx)))
			h = nil
		}
	}()
	if err := h.openState(o.State); err != nil {
		return h, err
	}
	diagnostics := &lumberjack.Logger{Filename: filepath.Join(h.state, "muru.log"), MaxSize: 10, MaxBackups: 2}
	access := &lumberjack.Logger{Filename: filepath.Join(h.state, "access.log"), MaxSize: 100, MaxBackups: 3}
	h.atClose(closeFilesFor, func(context.Context) error { return errors.Join(access.Close(), diagnostics.Close()) })
	h.log = slog.New(slog.NewJSONHandler(diagnostics, nil))

	if err := h.openStore(ctx); err != nil {
		return h, err
	}
	h.reporter = rollout.NewReporter(h.events)
	h.edge = edge.New(edge.Options{AccessLog: access, Token: h.token, Log: h.log})
	h.host = host.New(host.Options{StateDir: h.state, Reporter: h.reporter, Log: h.log})
	if err := h.host.Open(ctx); err != nil {
		return h, err
	}
	h.atClose(stopHostFor, h.host.Close)
	h.engine = rollout.New(rollout.Options{
		Edge: h.edge, Host: h.host, Clock: rollout.RealClock{}, Log: h.events, Reporter: h.reporter,
		Bug: func(text string) { h.log.Error("BUG", "in", "rollout", "text", text) },
	})
	h.atClose(stopEngineFor, h.engine.Close)
	return h, nil
}

// openStore opens the store and the event log in it.
func (h *House) openStore(ctx context.Context) (err error) {
	path := filepath.Join(h.state, "muru.db")
	if h.store, err = store.Open(path, store.Options{}); err != nil {
		return err
	}
	h.atClose(closeFilesFor, func(context.Context) error { return h.store.Close() })
	h.events, err = rollout.OpenLog(ctx, h.store, rollout.LogOptions{Clock: rollout.RealClock{}, Max: eventsInMemory, Path: path})
	if err != nil {
		return fmt.Errorf("open the event log: %w", err)
	}
	h.atClose(closeFilesFor, h.events.Close)
	return nil
}

// restore brings back what served, was held and was kept warm when the last
// muru on this state directory ended, and returns when what serves is ready
// or has failed.
func (h *House) restore(ctx context.Context) error {
	if err := h.engine.Restore(ctx); err != nil {
		return fmt.Errorf("restore the state in %s: %w", h.state, err)
	}
	known := func(id muru.ReleaseID) bool { _, err := h.engine.Release(id); return err == nil }
	if err := h.host.Sweep(known); err != nil {
		h.log.Error("remove old logs", "error", err) // they cost room, no more
	}
	h.reporter.Report(muru.Event{
		Kind: muru.DaemonStarted, Subject: "muru",
		Message: fmt.Sprintf("%s, pid %d, %d apps", h.version, os.Getpid(), len(h.engine.Apps())),
	})
	return nil
}

// listen opens the listeners and serves on them until Close.
func (h *House) listen(ctx context.Context, addresses ...string) error {
	var serving sync.WaitGroup
	h.atClose(drainEdgeFor, func(ctx context.Context) error {
		err := h.edge.Close(ctx)
		serving.Wait() // Close has closed what it serves on
		return err
	})
	for i, address := range addresses {
		addr, err := h.edge.Listen(ctx, address)
		if err != nil {
			return err
		}
		if i == 0 {
			h.address = addr.String()
		}
	}
	serving.Go(func() { h.served <- h.edge.Serve() }) // has room for it
	return nil
}

// RunnerOptions are what a runner in this house acts on.
func (h *House) runnerOptions() RunnerOptions {
	return RunnerOptions{
		Engine: h.engine, Events: h.events, Token: h.token, Address: h.address, State: h.state, Version: h.version,
		Tidy: h.tidy, Backup: h.store.Snapshot,
		Bug: func(b script.Bug) {
			h.log.Error("BUG", "id", b.ID, "in", "recipe", "value", fmt.Sprint(b.Value), "stack", string(b.Stack))
		},
	}
}

// atClose makes step a part of Close, before all steps there are, with a
// deadline of its own.
func (h *House) atClose(limit time.Duration, step func(context.Context) error) {
	h.undo = append(h.undo, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return step(ctx)
	})
}

// Close shuts down in order: the listeners and the requests on them, the
// engine, the workers, the event log and the store, the logs, the state
// directory. A failing step does not keep the later ones from running.
func (h *House) Close(ctx context.Context) error {
	var errs []error
	for _, step := range slices.Backward(h.undo) {
		errs = append(errs, step(ctx))
	}
	h.undo = nil
	return errors.Join(errs...)
}

// openState makes and locks the state directory; Close unlocks it, and removes
// a temporary one.
func (h *House) openState(dir string) error {
	temporary := dir == ""
	if temporary {
		made, err := os.MkdirTemp("", "muru-")
		if err != nil {
			return fmt.Errorf("make a state directory: %w", err)
		}
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return stateError(dir, err)
	}
	h.state = dir
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return stateError(dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		e := muru.Errorf(muru.KindFailed, "%s is in use by another muru", dir).WithHint("name another directory with --state")
		e.Err = ErrStateLocked
		return e
	}
	h.atClose(closeFilesFor, func(context.Context) error {
		err := lock.Close()
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	})
	return nil
}

// stateError says why a state directory cannot be used.
func stateError(dir string, err error) error {
	kind := muru.KindFailed
	if errors.Is(err, fs.ErrPermission) {
		kind = muru.KindDenied
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the path is in the text already, and mkdir is not what people asked for
	}
	return muru.Errorf(kind, "the state directory %s cannot be used: %w", dir, err).WithHint("name one of your own with --state")
}
