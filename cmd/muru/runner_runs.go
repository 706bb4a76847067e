package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
)

// runsKept is how many runs that ended are remembered.
const runsKept = 100

// A recipe is a file to run, with its arguments, for somebody.
type recipe struct {
	path string // relative to dir, or absolute
	args []string
	dir  string // absolute
	by   string
}

// check reads and checks the recipe and its arguments; nothing is started. If
// the arguments ask for help, usage is that.
func (r *runner) check(rec recipe) (usage string, err error) {
	file, err := r.runtime(builtins.New(builtins.Env{}), new(talk), rec.dir).Open(rec.path)
	if err != nil {
		return "", err
	}
	if file.WantsHelp(rec.args) {
		return file.Usage(), nil
	}
	return "", file.CheckArgs(rec.args)
}

// begin numbers a run and says that it has started.
func (r *runner) begin(rec recipe) (number int) {
	return r.o.Engine.BeginRun(filepath.Base(rec.path), strings.Join(rec.args, " "), rec.by)
}

// run executes a recipe as run number, waits for the rollouts it started, and
// releases what it owns, however it ended. With the cause
// [control.ErrStopping] it leaves its rollouts to the engine.
func (r *runner) run(ctx context.Context, rec recipe, number int, terminal builtins.Terminal, onCall func(name, about string) func()) error {
	set := builtins.New(builtins.Env{
		Engine: r.o.Engine, Terminal: terminal, Dir: rec.dir, Run: number, By: fmt.Sprintf("run %d", number),
		EdgeToken: r.o.Token, EdgeAddress: r.o.Address,
		Secret: readSecret(secretDirs(r.o.State)...), OnCall: onCall,
		Listen: r.o.Listen, Site: r.o.Listen != nil,
	})
	_, err := r.runtime(set, terminal, rec.dir).Run(ctx, rec.path, rec.args)
	if err == nil {
		err = set.Finish(ctx) // a run ends when its rollouts have
	}
	how := rollout.RunFinished
	switch {
	case err != nil && ctx.Err() != nil:
		how = rollout.RunCancelled
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	case err != nil:
		how = rollout.RunFailed
		err = &recipeError{err}
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRunFor)
	defer cancel()
	closed := set.Close(after)
	if errors.Is(context.Cause(ctx), control.ErrStopping) {
		r.o.Engine.Report(muru.Event{
			Level: muru.LevelWarning, Kind: muru.RunCancelled, Subject: fmt.Sprintf("run %d", number),
			Message: "by muru: it stops; the run's rollouts go on", By: "muru", Data: map[string]any{"run": number},
		})
		return errors.Join(err, closed)
	}
	return errors.Join(err, closed, r.o.Engine.EndRun(after, number, how, err))
}

// A daemonRun is a run that nobody needs to watch.
type daemonRun struct {
	recipe recipe
	number int
	begun  time.Time
	cancel context.CancelCauseFunc
	output output // ended when the run has
}

// StartRun checks a recipe and starts it.
func (r *runner) StartRun(ctx context.Context, q control.Run) (int, error) {
	dir, err := callerDir(q.Dir)
	if err != nil {
		return 0, err
	}
	rec := recipe{path: q.File, args: q.Args, dir: dir, by: callerName(ctx)}
	usage, err := r.check(rec)
	if err != nil {
		return 0, err
	}
	if usage != "" {
		return 0, muru.Errorf(muru.KindUsage, "%s", usage)
	}
	run := &daemonRun{recipe: rec, begun: time.Now()}
	runCtx, cancel := context.WithCancelCause(context.Background())
	run.cancel = cancel
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		cancel(nil)
		return 0, stopping()
	}
	run.number = r.begin(rec)
	r.runs[run.number] = run
	r.forgetRuns()
	go func() {
		defer cancel(nil)
		t := new(talk)
		t.begin(run.output.add)
		err := r.run(runCtx, rec, run.number, t, t.call)
		t.end()
		run.output.end(err, time.Now())
	}()
	return run.number, nil
}

// forgetRuns drops the oldest runs that ended. r.mu is held.
func (r *runner) forgetRuns() {
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

func (r *runner) runNumbered(n int) (*daemonRun, error) {
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
func (r *runner) Attach(ctx context.Context, n int, out func(control.Message)) error {
	run, err := r.runNumbered(n)
	if err != nil {
		return err
	}
	return run.output.follow(ctx, out)
}

// CancelRun cancels a run and waits until what it owned is released.
func (r *runner) CancelRun(ctx context.Context, n int) error {
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
func (r *runner) Runs(context.Context) ([]control.RunInfo, error) {
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
		Number: run.number, File: run.recipe.path, Args: run.recipe.args, Dir: run.recipe.dir, By: run.recipe.by,
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
