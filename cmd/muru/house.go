package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"

	"muru"
	"muru/edge"
	"muru/host"
	"muru/rollout"
)

// The deadlines of the shutdown, in its order.
const (
	drainEdgeFor  = 15 * time.Second // requests that are being answered
	stopEngineFor = 5 * time.Second
	stopHostFor   = 10 * time.Second // workers that finish, then end
)

// keepEvents is how many events the log keeps.
const keepEvents = 100_000

// A house is everything that serves: event log, edge, host and engine in one
// process, on one state directory.
type house struct {
	state  string
	token  string // by which our own requests learn which release answered
	engine *rollout.Engine
	events *rollout.Log
	edge   *edge.Edge
	host   *host.Host

	address string // that the edge listens on
	served  chan error
	close   []func(context.Context) error // in the order of shutdown
}

var (
	_ rollout.Edge = (*edge.Edge)(nil)
	_ rollout.Host = (*host.Host)(nil)
)

// openHouse builds and starts everything on the state directory, "" for a
// temporary one, and listens on listen. The caller closes it.
func openHouse(ctx context.Context, state, listen string) (h *house, err error) {
	h = &house{token: rand.Text(), served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close(context.WithoutCancel(ctx)))
			h = nil
		}
	}()
	unlock, err := h.openState(state)
	if err != nil {
		return h, err
	}
	diagnostics := &lumberjack.Logger{Filename: filepath.Join(h.state, "muru.log"), MaxSize: 10, MaxBackups: 2}
	access := &lumberjack.Logger{Filename: filepath.Join(h.state, "access.log"), MaxSize: 100, MaxBackups: 3}
	log := slog.New(slog.NewJSONHandler(diagnostics, nil))
	h.close = append(h.close, func(context.Context) error { return errors.Join(access.Close(), diagnostics.Close()) }, unlock)

	h.events = rollout.NewLog(rollout.RealClock{}, keepEvents)
	reporter := rollout.NewReporter(h.events)
	h.edge = edge.New(edge.Options{AccessLog: access, Token: h.token, Log: log})
	h.host = host.New(host.Options{StateDir: h.state, Reporter: reporter, Log: log})
	if err := h.host.Open(ctx); err != nil {
		return h, err
	}
	h.before(stopHostFor, h.host.Close)
	h.engine = rollout.New(rollout.Options{
		Edge: h.edge, Host: h.host, Clock: rollout.RealClock{}, Log: h.events, Reporter: reporter,
	})
	h.before(stopEngineFor, h.engine.Close)
	addr, err := h.edge.Listen(ctx, listen)
	if err != nil {
		return h, err
	}
	h.address = addr.String()
	h.before(drainEdgeFor, h.edge.Close)
	go func() { h.served <- h.edge.Serve() }() // ends when edge.Close has closed the listener
	h.before(drainEdgeFor, func(context.Context) error { return nil })
	reporter.Report(muru.Event{
		Kind: muru.DaemonStarted, Subject: "muru",
		Message: fmt.Sprintf("%s, pid %d, 0 apps", version, os.Getpid()),
	})
	return h, nil
}

// runnerOptions are what a runner in this house acts on.
func (h *house) runnerOptions() runnerOptions {
	return runnerOptions{Engine: h.engine, Events: h.events, Token: h.token, Address: h.address, State: h.state}
}

// before puts a step with its deadline in front of the steps of the shutdown.
func (h *house) before(limit time.Duration, step func(context.Context) error) {
	h.close = append([]func(context.Context) error{func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return step(ctx)
	}}, h.close...)
}

// Close shuts down in order: the listener and the requests on it, the engine,
// the workers, the logs, the state directory. Each has its own deadline, and
// a failing step does not keep the later ones from running.
func (h *house) Close(ctx context.Context) error {
	var errs []error
	for _, step := range h.close {
		errs = append(errs, step(ctx))
	}
	h.close = nil
	return errors.Join(errs...)
}

// openState makes and locks the state directory. The returned step unlocks
// it, and removes a temporary one.
func (h *house) openState(dir string) (func(context.Context) error, error) {
	temporary := dir == ""
	if temporary {
		made, err := os.MkdirTemp("", "muru-")
		if err != nil {
			return nil, fmt.Errorf("make a state directory: %w", err)
		}
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	h.state = dir
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		e := muru.Errorf(muru.KindFailed, "%s is in use by another muru", dir).WithHint("name another directory with --state")
		e.Err = errStateLocked
		return nil, e
	}
	return func(context.Context) error {
		err := lock.Close()
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}, nil
}
