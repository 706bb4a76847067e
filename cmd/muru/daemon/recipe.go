package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
)

// A Recipe is a file to run, with its arguments, for somebody.
type Recipe struct {
	Path string // relative to Dir, or absolute
	Args []string
	Dir  string // absolute: where relative paths start
	By   string // who asked, empty: the user of this process
}

// Check reads and checks a recipe and its arguments; nothing is started, and
// no muru is needed. If the arguments ask for help, usage is that.
func Check(rec Recipe) (usage string, err error) {
	return NewRunner(RunnerOptions{}).check(rec)
}

func (r *Runner) check(rec Recipe) (usage string, err error) {
	file, err := r.runtime(builtins.New(builtins.Env{}), new(talk), rec.Dir).Open(rec.Path)
	if err != nil {
		return "", err
	}
	if file.WantsHelp(rec.Args) {
		return file.Usage(), nil
	}
	return "", file.CheckArgs(rec.Args)
}

// A RecipeError is a recipe's own failure: whatever its kind, the recipe was
// started and ended badly.
type RecipeError struct{ err error }

// Error is what the recipe failed with.
func (e *RecipeError) Error() string { return e.err.Error() }

// Unwrap returns it.
func (e *RecipeError) Unwrap() error { return e.err }

// RunRecipe executes a recipe here, shows on terminal what it says, and
// returns when it and the rollouts it started have ended and what it owns is
// released. The end of ctx cancels it, and aborts them. A recipe that failed
// is a [*RecipeError].
func (r *Runner) RunRecipe(ctx context.Context, rec Recipe, terminal builtins.Terminal) error {
	return r.run(ctx, rec, r.begin(rec), terminal, nil)
}

// begin numbers a run and says that it has started.
func (r *Runner) begin(rec Recipe) (number int) {
	by := rec.By
	if by == "" {
		by = currentUser()
	}
	return r.o.Engine.BeginRun(filepath.Base(rec.Path), strings.Join(rec.Args, " "), by)
}

// run executes a recipe as run number, waits for the rollouts it started, and
// releases what it owns, however it ended. With the cause
// [control.ErrStopping] it leaves its rollouts to the engine.
func (r *Runner) run(ctx context.Context, rec Recipe, number int, terminal builtins.Terminal, onCall func(name, about string) func()) error {
	set := builtins.New(builtins.Env{
		Engine: r.o.Engine, Terminal: terminal, Dir: rec.Dir, Run: number, By: fmt.Sprintf("run %d", number),
		EdgeToken: r.o.Token, EdgeAddress: r.o.Address,
		Secret: readSecret(secretDirs(r.o.State)...), OnCall: onCall,
		Listen: r.o.Listen, Site: r.o.Listen != nil,
	})
	_, err := r.runtime(set, terminal, rec.Dir).Run(ctx, rec.Path, rec.Args)
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
		err = &RecipeError{err}
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

// currentUser names the user of this process, for events.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
