package rollouttest

import (
	"context"
	"io"
	"sync"

	"muru"
)

// A Host is a [rollout.Host] whose releases start at once and answer 200.
type Host struct {
	StartFunc    func(ctx context.Context, r muru.Release) (muru.Backend, error)
	DrainFunc    func(ctx context.Context, id muru.ReleaseID) (muru.Drained, error)
	StopFunc     func(ctx context.Context, id muru.ReleaseID) (muru.Drained, error)
	RecallFunc   func(id muru.ReleaseID)
	InFlightFunc func(id muru.ReleaseID) (requests, streams, websockets int)
	ReadyFunc    func(id muru.ReleaseID) bool
	WorkersFunc  func(id muru.ReleaseID) []muru.Worker
	StacksFunc   func(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error)
	LogsFunc     func(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error)

	mu      sync.Mutex // guards what is below
	running map[muru.ReleaseID]bool
}

// Start starts a release, which then counts as running and ready.
func (h *Host) Start(ctx context.Context, r muru.Release) (muru.Backend, error) {
	var b muru.Backend = Answering(200, "ok")
	if h.StartFunc != nil {
		var err error
		if b, err = h.StartFunc(ctx, r); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		h.running = map[muru.ReleaseID]bool{}
	}
	h.running[r.ID] = true
	return b, nil
}

// Drain returns at once.
func (h *Host) Drain(ctx context.Context, id muru.ReleaseID) (muru.Drained, error) {
	if h.DrainFunc != nil {
		return h.DrainFunc(ctx, id)
	}
	return muru.Drained{}, nil
}

// Stop ends a release at once.
func (h *Host) Stop(ctx context.Context, id muru.ReleaseID) (muru.Drained, error) {
	var d muru.Drained
	var err error
	if h.StopFunc != nil {
		d, err = h.StopFunc(ctx, id)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, id)
	return d, err
}

// Recall finds nothing that waits.
func (h *Host) Recall(id muru.ReleaseID) {
	if h.RecallFunc != nil {
		h.RecallFunc(id)
	}
}

// InFlight says nothing is in any release.
func (h *Host) InFlight(id muru.ReleaseID) (requests, streams, websockets int) {
	if h.InFlightFunc != nil {
		return h.InFlightFunc(id)
	}
	return 0, 0, 0
}

// Ready reports whether the release was started and not stopped.
func (h *Host) Ready(id muru.ReleaseID) bool {
	if h.ReadyFunc != nil {
		return h.ReadyFunc(id)
	}
	return h.Running(id)
}

// Running reports whether the release was started and not stopped.
func (h *Host) Running(id muru.ReleaseID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[id]
}

// Workers says one worker is ready for a running release.
func (h *Host) Workers(id muru.ReleaseID) []muru.Worker {
	if h.WorkersFunc != nil {
		return h.WorkersFunc(id)
	}
	if !h.Running(id) {
		return nil
	}
	return []muru.Worker{{Release: id, PID: 4242, State: muru.WorkerReady}}
}

// Stacks has none.
func (h *Host) Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error) {
	if h.StacksFunc != nil {
		return h.StacksFunc(ctx, id, worker)
	}
	return nil, nil
}

// Logs has no lines.
func (h *Host) Logs(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error) {
	if h.LogsFunc != nil {
		return h.LogsFunc(ctx, id, q)
	}
	return nil, nil
}

// Backend is a [muru.Backend] made of a func.
type Backend func(ctx context.Context, x *muru.Exchange) muru.Outcome

// Do calls the func.
func (b Backend) Do(ctx context.Context, x *muru.Exchange) muru.Outcome { return b(ctx, x) }

// Answering returns a backend that gives every request the same answer.
func Answering(status int, body string) Backend {
	return func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		if x.Body != nil {
			io.Copy(io.Discard, x.Body)
		}
		x.Start(x.Arrived)
		if err := x.Answer.Head(status, []muru.Field{{Name: "Content-Type", Value: "text/plain"}}, int64(len(body))); err != nil {
			return muru.Outcome{Err: muru.ErrClientGone, Answered: true}
		}
		io.WriteString(x.Answer, body)
		return muru.Outcome{Answered: true}
	}
}
