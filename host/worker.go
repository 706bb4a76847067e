package host

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"muru"
	"muru/host/upstream"
	"muru/host/wire"
)

// worker is one process of a release. Its replacement is another worker with
// the same number.
type worker struct {
	r      *release
	number int
	token  string // proves that a connection comes from this process
	files  workerFiles
	proc   *process // nil until launched; then it stays
	out    *follower
	client *upstream.Client // of a command worker
	port   int              // likewise

	oomBefore int64 // see oom.go

	orders   chan func()   // run by its supervisor
	launched chan struct{} // closed when its process runs
	ready    chan struct{} // closed when it is ready
	gone     chan struct{} // closed when it is dead and everything about that is done
	heard    chan struct{} // closed when its first control connection has ended
	idle     chan struct{} // capacity 1: the last request has left a worker that gets no new ones

	// Guarded by the release's mu.
	state       muru.WorkerState
	resting     bool // it broke a connection a moment ago
	slots       []*slot
	busy        int
	served      int
	recent      [recentPaths]string // the last requests given to it, a ring
	received    int
	casualties  []string // requests that broke with it
	control     *wire.Control
	imported    bool
	importError string // what it reported
	refusal     string // why a command worker that listens is not ready
	readySince  time.Time

	supervision // owned by its supervisor
}

// recentPaths is how many requests worker.crashed names at most.
const recentPaths = 4

// workerFiles are a worker's files, at a stable place. A process that has
// been replaced goes on with the ones it has open; its stacks are read by
// name, so each process has a name of its own for them.
type workerFiles struct{ out, stacks, socket, pid string }

func filesOf(dir, token string) workerFiles {
	return workerFiles{
		out:    filepath.Join(dir, "out"),
		stacks: filepath.Join(dir, "stacks."+token[:8]),
		socket: filepath.Join(dir, "http.sock"),
		pid:    filepath.Join(dir, "pid"),
	}
}

// renew makes the directory and removes the files of the process before.
func (f workerFiles) renew() error {
	if err := os.MkdirAll(filepath.Dir(f.out), 0o700); err != nil {
		return err
	}
	for _, path := range []string{f.out, f.socket, f.pid} {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// order has f run by the worker's supervisor, which alone may signal the
// process. It does not wait; after the worker's end f is dropped.
func (w *worker) order(f func()) {
	select {
	case w.orders <- f:
		return
	case <-w.gone:
		return
	default:
	}
	// The supervisor is busy with a capture, and many ask at once.
	go func() {
		select {
		case w.orders <- f:
		case <-w.gone:
		}
	}()
}

// tellIdle tells the supervisor that nothing is in the worker any more.
func (w *worker) tellIdle() {
	select {
	case w.idle <- struct{}{}:
	default:
	}
}

// remember notes the path of a request given to it. The release's mu is held.
func (w *worker) remember(path string) {
	w.recent[w.received%recentPaths] = path
	w.received++
}

// casualty notes a request that broke, for worker.crashed.
func (r *release) casualty(w *worker, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(w.casualties) < recentPaths {
		w.casualties = append(w.casualties, path)
	}
}

// lastRequests are the paths that were in the worker when it died; if there
// were none, the latest before.
func (w *worker) lastRequests() []string {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	paths := slices.Clone(w.casualties)
	for _, s := range w.slots {
		if s.req != nil && len(paths) < recentPaths {
			paths = append(paths, s.req.x.Path)
		}
	}
	if len(paths) > 0 {
		return paths
	}
	for i := max(0, w.received-recentPaths); i < w.received; i++ {
		paths = append(paths, w.recent[i%recentPaths])
	}
	return paths
}

// becomeReady opens the worker to requests; only the first call does anything.
func (w *worker) becomeReady() {
	r := w.r
	r.mu.Lock()
	if w.state != muru.WorkerStarting {
		r.mu.Unlock()
		return
	}
	w.state, w.readySince = muru.WorkerReady, time.Now()
	given := r.offerAll(w)
	r.mu.Unlock()
	given.hand()
	w.report(muru.LevelNotice, muru.WorkerReadyEvent, "worker %d (pid %d) is ready", w.number, w.proc.pid)
	close(w.ready) // after the event, which so comes before those of its release
}

// Workers describes the processes of a release, the replaced ones that still
// run included, by number and age. Empty for external releases and for those
// the host does not have.
func (h *Host) Workers(id muru.ReleaseID) []muru.Worker {
	r := h.release(id)
	if r == nil {
		return nil
	}
	now := time.Now()
	r.mu.Lock()
	var all []muru.Worker
	for _, w := range r.workers {
		if w.proc != nil {
			all = append(all, w.describe(now))
		}
	}
	r.mu.Unlock()
	for i := range all {
		w := &all[i]
		rss, cpu := usage(w.PID)
		w.RSS = rss
		if age := now.Sub(w.Started); age > 0 {
			w.CPU = 100 * cpu.Seconds() / age.Seconds()
		}
	}
	slices.SortStableFunc(all, func(a, b muru.Worker) int { return a.Number - b.Number })
	return all
}

// describe is the worker without what the system knows. The release's mu is
// held.
func (w *worker) describe(now time.Time) muru.Worker {
	d := muru.Worker{
		Release: w.r.id, Number: w.number, PID: w.proc.pid, State: w.state, Served: w.served, Busy: w.busy,
		Restarts: w.r.seats[w.number].restarts, Started: w.proc.started,
	}
	var oldest time.Time
	for _, s := range w.slots {
		on := s.now()
		if on != nil && (oldest.IsZero() || on.began.Before(oldest)) {
			oldest = on.began
			d.Request, d.Age = on.path, now.Sub(on.began)
		}
	}
	return d
}

// now is what is on the slot: its request, or the one that is stuck there.
// The release's mu is held.
func (s *slot) now() *onSlot {
	if s.stuck != nil {
		return s.stuck
	}
	if s.req == nil {
		return nil
	}
	x := s.req.x
	return &onSlot{id: x.ID, method: x.Method, path: x.Path, began: s.req.began}
}
