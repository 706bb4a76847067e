package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"muru"
	"muru/host/upstream"
)

// release is one running release: its queue, its workers, its log.
type release struct {
	host *Host
	id   muru.ReleaseID
	plan muru.ReleasePlan
	dir  string // of its workers' directories
	log  *releaseLog

	stacksSignal syscall.Signal // before the kill of a stuck command worker; 0: none

	interpreter interpreter // of a python release

	external  *upstream.Client // for an external server
	unbounded bool             // external without a bound on its requests: no queue

	ctx      context.Context // ends when the release ends for good
	end      context.CancelFunc
	over     chan struct{} // closed when everything has ended
	stopping sync.Once
	stopped  muru.Drained // set by stopping, before over is closed
	begun    time.Time
	failures chan string // why a worker did not become ready, while starting
	tasks    sync.WaitGroup
	ahead    atomic.Int64 // bytes of bodies that were read ahead

	mu       sync.Mutex // guards all below, and what is said to be guarded by it
	closed   bool       // takes no new requests
	starting bool       // a worker that ends now fails the start
	ending   bool       // no worker is replaced any more
	queue    queue
	idle     []*slot // the one used last at the end; see popIdle
	inside   map[*request]struct{}
	count    [3]int    // of inside, by class
	seats    []*seat   // by worker number
	workers  []*worker // all that run, the replaced ones included
	down     bool      // the external server could not be reached last

	downSaid   time.Time // when the log last said that it does not answer
	downUnsaid int       // requests it has failed since
}

// seat is a worker's number and what must be remembered from one process to
// the next.
type seat struct {
	restarts int
	deaths   int       // in a row, without a healthy minute between
	since    time.Time // of the first of them
}

func newRelease(h *Host, rel muru.Release) (*release, error) {
	plan, err := Inspect(rel.ReleasePlan)
	if err != nil {
		return nil, err
	}
	r := &release{
		host: h, id: rel.ID, plan: plan,
		dir:      filepath.Join(h.stateDir, "run", fmt.Sprintf("%s-%s", rel.ID.App, rel.ID.Name())),
		over:     make(chan struct{}),
		failures: make(chan string, 1),
		starting: true,
		begun:    time.Now(),
		inside:   make(map[*request]struct{}),
	}
	r.stacksSignal, _ = signalNamed(plan.Stacks) // checked by Inspect
	if r.log, err = openReleaseLog(logPath(h.stateDir, rel.ID), h.logSize, h.diary); err != nil {
		return nil, err
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	for range plan.Workers {
		r.seats = append(r.seats, &seat{})
	}
	if plan.Kind == muru.External {
		r.external = upstream.New(upstream.Options{Network: "tcp", Address: plan.Upstream})
		r.unbounded = plan.Threads == 0
		for i := range plan.Threads {
			r.idle = append(r.idle, &slot{index: i})
		}
	}
	return r, nil
}

// start starts the workers and returns when all are ready.
func (r *release) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.plan.Timeouts.Ready, errNotReady)
	defer cancel()
	if r.plan.Kind == muru.External {
		return r.startExternal(ctx)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make the release's directory: %w", err)
	}
	var workers []*worker
	for number := range r.seats {
		w, err := r.spawn(number)
		if err != nil {
			return err
		}
		workers = append(workers, w)
		if number < len(r.seats)-1 {
			w.headStart(ctx)
		}
	}
	for _, w := range workers {
		select {
		case <-w.ready:
		case cause := <-r.failures:
			return errors.New(cause)
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != errNotReady {
				return cause
			}
			return errors.New(w.notReady(r.plan.Timeouts.Ready))
		case <-r.ctx.Done():
			return errors.New("it was stopped while it started")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting = false
	// One may have died between its readiness and now.
	select {
	case cause := <-r.failures:
		return errors.New(cause)
	default:
		return nil
	}
}

// startApart is how long at most the next worker of a release waits for the one
// before it to be ready. All at once they would take every core from what
// serves meanwhile.
const startApart = 300 * time.Millisecond

// headStart returns when the worker is ready or has had its time to be.
func (w *worker) headStart(ctx context.Context) {
	timer := time.NewTimer(startApart)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errNotReady is the cause of the ready timeout.
var errNotReady = errors.New("not ready in time")

// fail words why a release did not start, after everything of it has ended.
func (r *release) fail(ctx context.Context, cause error) error {
	var worded *muru.Error
	if errors.As(cause, &worded) || ctx.Err() != nil {
		return cause
	}
	err := muru.Errorf(muru.KindNotReady, "%w", cause)
	lines, readErr := readLog(context.WithoutCancel(ctx), r.log.path, muru.LogQuery{Lines: 10, Since: r.begun})
	if readErr != nil {
		r.host.diary.Error("read the end of a log", "release", r.id, "error", readErr)
	}
	err.Detail = lines
	return err
}

// terminate ends the release: no replacement, SIGTERM to all workers, SIGKILL
// after grace, and waits for all of it.
func (r *release) terminate(grace time.Duration) {
	r.mu.Lock()
	r.closed, r.ending = true, true
	workers := append([]*worker(nil), r.workers...)
	r.mu.Unlock()
	r.end()
	for _, w := range workers {
		w.order(func() { w.terminate(grace) })
	}
	r.tasks.Wait()
	// Whoever is still inside waits for a worker that will not come, or for
	// an external server.
	r.cutAll()
	if r.external != nil {
		r.external.Close()
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.host.diary.Error("remove the release's directory", "release", r.id, "error", err)
	}
	r.log.close()
	close(r.over)
}

func (r *release) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := range r.inside {
		r.cutLocked(q, muru.ErrDrainCut)
	}
}

// close makes the backend refuse new requests.
func (r *release) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// isReady reports whether a worker can answer.
func (r *release) isReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plan.Kind == muru.External {
		return !r.closed && !r.down
	}
	for _, w := range r.workers {
		if w.state == muru.WorkerReady {
			return !r.closed
		}
	}
	return false
}
