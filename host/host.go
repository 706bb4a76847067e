package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muru"
	"muru/host/wire"
)

// Options configure a [Host]. StateDir and Reporter are needed.
type Options struct {
	StateDir string // made if it does not exist
	Reporter muru.Reporter
	Log      *slog.Logger // of the daemon itself; nil: nothing is logged

	Orphan    time.Duration // until a Python worker without a daemon ends; 0: 60 seconds
	StopGrace time.Duration // from SIGTERM to SIGKILL; 0: 5 seconds
	Backoff   time.Duration // before the second restart, doubled for each later one; 0: 100ms
	LogSize   int64         // bytes after which a release's log is rotated; 0: 16 MiB
}

// A Host runs releases. Make one with [New], then Open and in the end Close
// it. It is safe for concurrent use.
type Host struct {
	stateDir string
	socket   string
	reporter muru.Reporter
	diary    *slog.Logger
	orphan   time.Duration
	grace    time.Duration
	backoff  time.Duration
	logSize  int64

	// Tests replace these.
	oomKills     func() int64
	freePort     func() (int, error)
	startProcess func(argv, env []string, dir string, out *os.File) (*process, error)

	installing sync.Mutex // held while the worker's runtime is written: two would take it from each other's workers
	listener   *wire.Listener
	followers  followers
	cancel     context.CancelFunc
	tasks      sync.WaitGroup

	mu       sync.Mutex // guards all below
	open     bool
	ports    map[int]bool // given to command workers
	oomSeen  int64        // kills by the kernel for want of memory that are accounted for
	releases map[muru.ReleaseID]*release
}

// New returns a host that has started nothing.
func New(opt Options) *Host {
	h := &Host{
		stateDir: opt.StateDir, reporter: opt.Reporter, diary: opt.Log,
		orphan: opt.Orphan, grace: opt.StopGrace, backoff: opt.Backoff, logSize: opt.LogSize,
		ports:        make(map[int]bool),
		oomKills:     oomKills,
		freePort:     freePort,
		startProcess: startProcess,
		releases:     make(map[muru.ReleaseID]*release),
	}
	if h.reporter == nil {
		panic("BUG: host: Options.Reporter is nil")
	}
	if h.diary == nil {
		h.diary = slog.New(slog.DiscardHandler)
	}
	if h.orphan == 0 {
		h.orphan = time.Minute
	}
	if h.grace == 0 {
		h.grace = 5 * time.Second
	}
	if h.backoff == 0 {
		h.backoff = 100 * time.Millisecond
	}
	if h.logSize == 0 {
		h.logSize = logFileSize
	}
	return h
}

// Open ends what an earlier daemon left running in the state directory and
// listens for workers. The caller guarantees that no other host uses the
// directory, by a lock of its own that it holds from before Open until after
// Close: a second one would kill the workers of the first. usage: the
// directory's path is too long for a socket. Close must follow if it succeeds.
func (h *Host) Open(ctx context.Context) (err error) {
	if h.stateDir, err = filepath.Abs(h.stateDir); err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	h.socket = filepath.Join(h.stateDir, "host.sock")
	if len(h.socket) > wire.MaxSocketPath {
		return muru.Errorf(muru.KindUsage, "the path of the state directory is too long: %s has %d bytes, and a socket's path at most %d",
			h.socket, len(h.socket), wire.MaxSocketPath).WithHint("choose a shorter --state")
	}
	if err := os.MkdirAll(h.stateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if err := endLeftovers(filepath.Join(h.stateDir, "run")); err != nil {
		return err
	}
	if _, err := h.installRuntime(); err != nil {
		return err
	}
	if h.listener, err = wire.Listen(h.socket, h.diary); err != nil {
		return err
	}
	h.run()
	return nil
}

// installRuntime writes the worker's runtime, unless it is there. It is called
// before each start of a worker: without it none would start again when the
// directory was removed under us, as cleaners of /tmp do.
func (h *Host) installRuntime() (wire.Runtime, error) {
	h.installing.Lock()
	defer h.installing.Unlock()
	runtime, err := wire.Install(filepath.Join(h.stateDir, "runtime"))
	if err != nil {
		return runtime, fmt.Errorf("write the worker's runtime: %w", err)
	}
	return runtime, nil
}

// run starts what the host does by itself.
func (h *Host) run() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.tasks.Add(2)
	go func() {
		defer h.tasks.Done()
		if err := h.listener.Serve(ctx, h.attach); err != nil && ctx.Err() == nil {
			h.diary.Error("listen for workers", "error", err)
		}
	}()
	go func() {
		defer h.tasks.Done()
		h.followers.run(ctx)
	}()
	h.mu.Lock()
	h.open = true
	h.mu.Unlock()
}

// Close ends every release without draining it: its requests are cut, its
// workers get SIGTERM and, after the grace (at most until ctx ends), SIGKILL.
// When it returns nothing of the host runs any more. Drain the edge and stop
// the engine before.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	was := h.open
	h.open = false
	var all []*release
	for _, r := range h.releases {
		all = append(all, r)
	}
	h.mu.Unlock()
	if !was {
		return nil
	}
	grace := h.grace
	if end, ok := ctx.Deadline(); ok {
		grace = max(0, min(grace, time.Until(end)))
	}
	var ending sync.WaitGroup
	for _, r := range all {
		ending.Go(func() {
			r.close()
			r.cutAll()
			h.stop(context.WithoutCancel(ctx), r, false, grace)
		})
	}
	ending.Wait()
	h.cancel()
	err := h.listener.Close()
	h.tasks.Wait()
	return err
}

// Start starts a release's workers and returns when all of them are ready: a
// python worker when it has imported the application and all its threads are
// connected, a command worker when it listens on $PORT or $MURU_SOCKET (and
// answers the plan's Ready path below 400), an external server when it can be
// connected to (and likewise). It takes at most timeouts.ready.
//
// Its errors: what [Inspect] returns; not_ready with the cause as its message
// and the end of the log as Detail; the cause of ctx. Nothing is left running
// then. A release that is running already is refused.
func (h *Host) Start(ctx context.Context, rel muru.Release) (muru.Backend, error) {
	r, err := newRelease(h, rel)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	_, running := h.releases[rel.ID]
	refused := running || !h.open
	if !refused {
		h.releases[rel.ID] = r
	}
	h.mu.Unlock()
	switch {
	case running:
		r.log.close()
		return nil, muru.Errorf(muru.KindRefused, "%s is running already", rel.ID)
	case refused:
		r.log.close()
		return nil, muru.Errorf(muru.KindRefused, "the host is closed")
	}
	if err := r.start(ctx); err != nil {
		h.stop(ctx, r, false, 0) // Close may be at it, too
		return nil, r.fail(ctx, err)
	}
	return r, nil
}

// Stop drains a release and ends it: from the call on its backend returns
// [muru.ErrDraining], what is inside has the deadlines of [Host.Drain], then
// the workers get SIGTERM and, after a grace, SIGKILL. When ctx ends the rest
// of the drain is skipped: what is inside is cut. It always ends the release;
// a second call waits for the same end. A release the host does not have is
// stopped already.
func (h *Host) Stop(ctx context.Context, id muru.ReleaseID) (muru.Drained, error) {
	r := h.release(id)
	if r == nil {
		return muru.Drained{}, nil
	}
	return h.stop(ctx, r, true, h.grace), nil
}

func (h *Host) stop(ctx context.Context, r *release, drain bool, grace time.Duration) muru.Drained {
	r.stopping.Do(func() {
		r.close()
		d := r.startDrain()
		if drain {
			_, _ = d.wait(ctx) // ctx's end means: now
		}
		r.mu.Lock()
		for q := range d.inside {
			if _, still := r.inside[q]; still && q.cut == nil {
				d.count(q)
				r.cutLocked(q, muru.ErrDrainCut)
			}
		}
		r.mu.Unlock()
		r.stopped = d.finish()
		r.terminate(grace)
		h.forget(r)
	})
	<-r.over
	return r.stopped
}

func (h *Host) forget(r *release) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.releases[r.id] == r {
		delete(h.releases, r.id)
	}
}

// Ready reports whether at least one worker can answer. An external release
// is ready unless its server could not be reached the last time.
func (h *Host) Ready(id muru.ReleaseID) bool {
	r := h.release(id)
	return r != nil && r.isReady()
}

// Logs returns lines of a release's log, oldest first, each stamped as in the
// file. The log outlives the release. refused: the release is external;
// usage: the query's Match is not a regular expression.
func (h *Host) Logs(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error) {
	if r := h.release(id); r != nil && r.plan.Kind == muru.External {
		return nil, muru.Errorf(muru.KindRefused, "%s is external: its server keeps its own log", id)
	}
	h.followers.poll()
	return readLog(ctx, logPath(h.stateDir, id), q)
}

func (h *Host) release(id muru.ReleaseID) *release {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.releases[id]
}

// attach takes the connection of a worker's thread.
func (h *Host) attach(hello wire.Hello, conn net.Conn) {
	h.mu.Lock()
	var to *release
	for id, r := range h.releases {
		if id.String() == hello.Release {
			to = r
			break
		}
	}
	h.mu.Unlock()
	if to == nil || !to.attach(hello, conn) {
		_ = conn.Close() // of a worker that was given up, or is none of ours
	}
}

func (h *Host) harm(id muru.ReleaseID, harm muru.Harm) { h.reporter.Harm(id, harm) }

// report adds an event about a worker to the log.
func (w *worker) report(level muru.Level, kind, format string, args ...any) {
	w.reportOn(nil, level, kind, format, args...)
}

// reportOn adds an event about a worker because of a request, nil for none: the
// texts have no room for its path, so the event's data names it.
func (w *worker) reportOn(on *onSlot, level muru.Level, kind, format string, args ...any) {
	data := map[string]any{"worker": w.number, "pid": w.proc.pid}
	if on != nil {
		data["request"], data["method"], data["path"] = on.id, on.method, on.path
	}
	w.r.host.reporter.Report(muru.Event{
		Level: level, Kind: kind, Subject: w.r.id.String(), Message: fmt.Sprintf(format, args...), Data: data,
	})
}
