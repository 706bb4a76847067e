package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"muru"
	"muru/host/wire"
)

// captureTime bounds each of the ways to capture a worker's stacks: asking
// it, and, when its interpreter is held by C code, faulthandler.
const captureTime = 250 * time.Millisecond

// runtimePrefix begins the files of the worker's own code, which says nothing
// about the application.
const runtimePrefix = "muru_worker/"

var errNotConnected = errors.New("it has not connected yet")

// capture returns where every thread of the worker is. It is run by the
// supervisor. Without an answer it is empty.
func (w *worker) capture() []muru.Stack {
	if w.r.plan.Kind != muru.Python {
		return nil
	}
	threads, err := w.threads()
	if err != nil {
		w.r.log.say(w.number, "capture the stacks of pid %d: %v", w.proc.pid, err)
	}
	return w.stacksOf(threads)
}

func (w *worker) threads() ([]wire.ThreadStack, error) {
	w.r.mu.Lock()
	control := w.control
	w.r.mu.Unlock()
	if control == nil {
		// Until it has connected it need not know the signal, and would die.
		return nil, errNotConnected
	}
	asked, stop := context.WithTimeout(context.Background(), captureTime)
	defer stop()
	if threads, err := control.Stacks(asked); err == nil {
		return threads, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), captureTime)
	defer cancel()
	return wire.Dump(ctx, w.files.stacks, w.r.plan.Source, func() error {
		return syscall.Kill(w.proc.pid, wire.DumpSignal)
	})
}

// stacksOf joins threads with the requests on them. Threads of the
// application's own come after ours; muru's control threads are left out.
func (w *worker) stacksOf(threads []wire.ThreadStack) []muru.Stack {
	now := time.Now()
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	var ours, others []muru.Stack
	for _, t := range threads {
		s := muru.Stack{Release: w.r.id, Worker: w.number, PID: w.proc.pid, Frames: applicationFrames(t.Frames)}
		at := w.slotOf(t.Ident)
		if at == nil {
			if len(s.Frames) > 0 {
				s.Thread = len(w.slots) + len(others)
				others = append(others, s)
			}
			continue
		}
		s.Thread = at.index
		if on := at.now(); on != nil {
			s.Request, s.Method, s.Path, s.Age = on.id, on.method, on.path, now.Sub(on.began)
			s.Stuck = at.stuck != nil
		} else {
			s.Frames = nil // between two requests
		}
		ours = append(ours, s)
	}
	slices.SortFunc(ours, func(a, b muru.Stack) int { return a.Thread - b.Thread })
	return append(ours, others...)
}

func (w *worker) slotOf(ident uint64) *slot {
	for _, s := range w.slots {
		if s.ident == ident && ident != 0 {
			return s
		}
	}
	return nil
}

// applicationFrames leaves out what is not the application's: the worker's
// own code and what called that, the worker's code that the application
// called (such as for its request's body), and the import machinery.
func applicationFrames(frames []muru.Frame) []muru.Frame {
	ours := func(f muru.Frame) bool { return strings.HasPrefix(f.File, runtimePrefix) }
	inner := slices.IndexFunc(frames, func(f muru.Frame) bool { return !ours(f) })
	if inner < 0 {
		return nil
	}
	outer := slices.IndexFunc(frames[inner:], ours)
	switch {
	case outer >= 0:
		frames = frames[inner : inner+outer]
	case inner > 0:
		return nil // the worker waits, called by Python's own machinery
	}
	return slices.DeleteFunc(slices.Clone(frames), func(f muru.Frame) bool {
		return strings.HasPrefix(f.File, "<frozen importlib")
	})
}

// stackLines are the lines of a stack as the log has them.
func stackLines(s muru.Stack) []string { return strings.Split(s.String(), "\n") }

// Stacks captures where the threads of a release's workers are; worker -1 is
// all of them, the replaced ones that still run included. It takes at most
// half a second for each worker. refused: the release has no Python workers
// (a command worker that prints its stacks on a signal may end by that, so it
// gets the signal only just before it is killed); not_found: there is no such
// worker.
func (h *Host) Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error) {
	r := h.release(id)
	if r == nil {
		return nil, muru.Errorf(muru.KindNotFound, "%s is not running: it has no stacks", id)
	}
	switch r.plan.Kind {
	case muru.External:
		return nil, muru.Errorf(muru.KindRefused, "%s is external: its server is not ours to look into", id)
	case muru.Command:
		return nil, muru.Errorf(muru.KindRefused, "%s runs a command: its stacks are captured only just before a worker is killed, and printed to its log", id)
	}
	var all []muru.Stack
	found := false
	for _, w := range r.running() {
		if worker >= 0 && w.number != worker {
			continue
		}
		found = true
		stacks, err := w.look(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, stacks...)
	}
	if !found {
		return nil, muru.Errorf(muru.KindNotFound, "%s has no worker %d", id, worker)
	}
	return all, nil
}

// look captures the worker's stacks from any goroutine.
func (w *worker) look(ctx context.Context) ([]muru.Stack, error) {
	answer := make(chan []muru.Stack, 1)
	w.order(func() { answer <- w.capture() })
	select {
	case stacks := <-answer:
		return stacks, nil
	case <-w.gone:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// running are the workers by number.
func (r *release) running() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*worker
	for number := range r.seats {
		for _, w := range r.workers {
			if w.number == number {
				all = append(all, w)
			}
		}
	}
	return all
}

// whereItHangs says where a worker that is not ready is, for the cause of a
// failed start; empty if that is not known.
func (w *worker) whereItHangs(ctx context.Context) string {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*captureTime, errors.New("no stacks in time"))
	defer cancel()
	stacks, err := w.look(ctx)
	if err != nil {
		return ""
	}
	for _, s := range stacks {
		if len(s.Frames) > 0 {
			w.keep(stacks, "not ready; every thread:")
			return s.StuckAt()
		}
	}
	return ""
}
