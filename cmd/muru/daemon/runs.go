package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muru"
	"muru/control"
	"muru/rollout"
)

// runsKept is how many runs that ended are remembered.
const runsKept = 100

// runsAtOnce bounds the runs that go on: a loop in a shell or a timer that
// starts runs which never end would take all memory and threads of what serves.
const runsAtOnce = 256

// A daemonRun is a run that nobody needs to watch.
type daemonRun struct {
	recipe Recipe
	number int
	begun  time.Time
	cancel context.CancelCauseFunc
	output output // ended when the run has
}

// StartRun checks a recipe and starts it.
func (r *Runner) StartRun(ctx context.Context, q control.Run) (int, error) {
	dir, err := callerDir(q.Dir)
	if err != nil {
		return 0, err
	}
	rec := Recipe{Path: q.File, Args: q.Args, Dir: dir, By: callerName(ctx)}
	usage, err := r.check(rec)
	if err != nil {
		return 0, err
	}
	if usage != "" {
		return 0, muru.Errorf(muru.KindUsage, "%s", usage)
	}
	select {
	case r.beginning <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-r.beginning }()
	if err := r.mayBegin(); err != nil {
		return 0, err
	}
	number := r.begin(rec)
	r.goOn(&daemonRun{recipe: rec, number: number, begun: time.Now()})
	return number, nil
}

// mayBegin refuses a run while the runner is closed or has too many.
func (r *Runner) mayBegin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return stopping()
	}
	if r.working() >= runsAtOnce {
		return muru.Errorf(muru.KindRefused, "%d runs go on already", runsAtOnce).
			WithHint("muru runs lists them, muru cancel N ends one")
	}
	return nil
}

// goOn has a run that has begun go on by itself. Close waits for its end.
func (r *Runner) goOn(run *daemonRun) {
	ctx, cancel := context.WithCancelCause(context.Background())
	run.cancel = cancel
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // while it began
		cancel(control.ErrStopping)
	}
	r.runs[run.number] = run
	r.forgetRuns()
	go func() {
		defer cancel(nil)
		t := new(talk)
		t.begin(run.output.add)
		err := r.run(ctx, run.recipe, run.number, t, t.call)
		t.end()
		run.output.end(err, time.Now())
	}()
}

// working counts the runs that go on. r.mu is held.
func (r *Runner) working() (n int) {
	for _, run := range r.runs {
		if _, done, _ := run.output.ended(); !done {
			n++
		}
	}
	return n
}

// forgetRuns drops the oldest runs that ended. r.mu is held.
func (r *Runner) forgetRuns() {
	var ended []int
	for n, run := range r.runs {
		if _, done, _ := run.output.ended(); done {
			ended = append(ended, n)
		}
	}
	slices.Sort(ended)
	for _, n := range ended[:max(0, len(ended)-runsKept)] {
		delete(r.runs, n)
	}
}

func (r *Runner) runNumbered(n int) (*daemonRun, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.runs[n]; run != nil {
		return run, nil
	}
	return nil, muru.Errorf(muru.KindNotFound, "there is no run %d", n).WithHint("muru runs lists them")
}

// await waits for the end of the run, or for ctx.
func (run *daemonRun) await(ctx context.Context) error {
	select {
	case <-run.output.done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of run %d: %w", run.number, context.Cause(ctx))
	}
}

// Attach says what a run has said and says, until it ends.
func (r *Runner) Attach(ctx context.Context, n int, out func(control.Message)) error {
	run, err := r.runNumbered(n)
	if err != nil {
		return err
	}
	return run.output.follow(ctx, out)
}

// CancelRun cancels a run and waits until what it owned is released.
func (r *Runner) CancelRun(ctx context.Context, n int) error {
	run, err := r.runNumbered(n)
	if err != nil {
		return err
	}
	if _, done, _ := run.output.ended(); done {
		return muru.Errorf(muru.KindRefused, "run %d has ended", n)
	}
	run.cancel(&rollout.CancelledError{By: callerName(ctx)})
	return run.await(ctx)
}

// Runs returns the runs that are known, oldest first.
func (r *Runner) Runs(context.Context) ([]control.RunInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	infos := []control.RunInfo{}
	for _, run := range r.runs {
		infos = append(infos, run.info())
	}
	slices.SortFunc(infos, func(a, b control.RunInfo) int { return a.Number - b.Number })
	return infos, nil
}

func (run *daemonRun) info() control.RunInfo {
	info := control.RunInfo{
		Number: run.number, File: run.recipe.Path, Args: run.recipe.Args, Dir: run.recipe.Dir, By: run.recipe.By,
		State: control.RunRunning, Started: run.begun.UTC(),
	}
	at, done, err := run.output.ended()
	if !done {
		return info
	}
	at = at.UTC()
	info.Ended, info.State = &at, control.RunFinished
	if err == nil {
		return info
	}
	info.State = control.RunFailed
	if _, ok := errors.AsType[*rollout.CancelledError](err); ok || errors.Is(err, control.ErrStopping) {
		info.State = control.RunCancelled
	}
	info.Error, _, _ = strings.Cut(err.Error(), "\n")
	return info
}
