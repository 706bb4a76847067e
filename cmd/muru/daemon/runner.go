package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
	script "muru/starlark"
	"muru/stdlib"
)

// endRunFor bounds the cleaning up after a recipe or a call.
const endRunFor = 20 * time.Second

// RunnerOptions are what a runner acts on. Engine and Events are needed, but
// for Check.
type RunnerOptions struct {
	Engine  *rollout.Engine
	Events  *rollout.Log
	Token   string           // makes the edge say which release answered
	Address string           // where the edge listens
	State   string           // state directory, for secrets; empty: no secrets of it
	Version string           // of this muru
	Bug     func(script.Bug) // is told of panics; may be nil

	// Listen makes the edge listen, for the site's file alone.
	Listen func(context.Context, builtins.Listener) error
	Limits script.Limits // of each run and input; zero: the usual ones

	Tidy   func(context.Context) (control.GCReport, error) // removes what is past its retention
	Backup func(context.Context, io.Writer) error          // copies the state file
}

// A Runner is the muru of this process: runs, sessions and calls on an engine.
// It is what the control API serves, and what an embedded muru uses directly.
// It is safe for concurrent use. It starts nothing until it is asked to;
// Close ends everything that it runs and waits.
type Runner struct {
	o       RunnerOptions
	started time.Time
	host    string

	// beginning holds a value while a run begins, which waits for the disk. mu
	// is not held meanwhile: a call, which may be a rollback, needs that.
	beginning chan struct{}

	mu       sync.Mutex // guards what follows
	closed   bool
	runs     map[int]*daemonRun
	sessions map[*session]bool
}

var _ control.Muru = (*Runner)(nil)

// NewRunner returns a runner. It starts nothing.
func NewRunner(o RunnerOptions) *Runner {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if o.Limits == (script.Limits{}) {
		o.Limits = script.DefaultLimits()
	}
	return &Runner{
		o: o, started: time.Now(), host: host, beginning: make(chan struct{}, 1),
		runs: make(map[int]*daemonRun), sessions: make(map[*session]bool),
	}
}

// Close refuses what comes and cancels what runs, and waits until it has
// ended, or ctx. Rollouts go on: they are the engine's. Closing twice waits
// twice.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	var errs []error
	select {
	case r.beginning <- struct{}{}: // what was beginning is among the runs now
		<-r.beginning
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("wait for a run that begins: %w", context.Cause(ctx)))
	}
	r.mu.Lock()
	var runs []*daemonRun
	for _, run := range r.runs {
		runs = append(runs, run)
	}
	var sessions []*session
	for s := range r.sessions {
		sessions = append(sessions, s)
	}
	r.mu.Unlock()
	for _, run := range runs {
		run.cancel(control.ErrStopping)
	}
	for _, run := range runs {
		errs = append(errs, run.await(ctx))
	}
	for _, s := range sessions {
		errs = append(errs, s.end(ctx, control.ErrStopping))
	}
	return errors.Join(errs...)
}

// stopping is the error for what is asked of a closed runner.
func stopping() error {
	return &muru.Error{Kind: muru.KindRefused, Message: "muru is stopping", Err: control.ErrStopping}
}

func (r *Runner) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Call evaluates one expression with names of its own.
func (r *Runner) Call(ctx context.Context, c control.Call, out func(control.Message)) error {
	if r.isClosed() {
		return stopping()
	}
	dir, err := callerDir(c.Dir)
	if err != nil {
		return err
	}
	t := new(talk)
	set := builtins.New(r.env(t, dir, callerName(ctx)))
	t.begin(out)
	defer t.end()
	eval, err := r.runtime(set, t, dir).NewSession().Eval(ctx, c.Source)
	if err == nil {
		err = t.value(eval)
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRunFor)
	defer cancel()
	return errors.Join(err, set.Close(after))
}

// GC removes what is past its retention.
func (r *Runner) GC(ctx context.Context) (control.GCReport, error) {
	if r.o.Tidy == nil {
		return control.GCReport{}, muru.Errorf(muru.KindRefused, "this muru keeps nothing that could be removed")
	}
	return r.o.Tidy(ctx)
}

// Backup writes a copy of the state file.
func (r *Runner) Backup(ctx context.Context, w io.Writer) error {
	if r.o.Backup == nil {
		return muru.Errorf(muru.KindRefused, "this muru has no state file")
	}
	return r.o.Backup(ctx, w)
}

// env is what builtins act on for somebody.
func (r *Runner) env(t *talk, dir, by string) builtins.Env {
	return builtins.Env{
		Engine: r.o.Engine, Terminal: t, Dir: dir, By: by, EdgeToken: r.o.Token, EdgeAddress: r.o.Address,
		Secret: readSecret(secretDirs(r.o.State)...), OnCall: t.call,
	}
}

// runtime is the language with a set of builtins.
func (r *Runner) runtime(set *builtins.Set, t builtins.Terminal, dir string) *script.Runtime {
	return script.New(script.Options{
		Predeclared: set.Predeclared(),
		Print:       t.Print,
		Limits:      r.o.Limits,
		Stdlib:      stdlib.FS,
		Dir:         dir,
		Bug:         r.o.Bug,
	})
}

// nowhere is the directory of whoever named none: every relative path in it
// is refused by the system.
const nowhere = "/dev/null"

// callerDir checks the directory that relative paths start from.
func callerDir(dir string) (string, error) {
	if dir == "" {
		return nowhere, nil
	}
	if !filepath.IsAbs(dir) {
		return "", muru.Errorf(muru.KindUsage, "the directory %q is not absolute", dir)
	}
	return filepath.Clean(dir), nil
}

// callerName is who asks, the user of this process if nobody said.
func callerName(ctx context.Context) string {
	if by := control.Caller(ctx); by != "" {
		return by
	}
	return currentUser()
}

// endedRollouts is how many rollouts that ended a State shows.
const endedRollouts = 50

// State returns what there is now.
func (r *Runner) State(ctx context.Context) (control.State, error) {
	s := control.State{
		Version: r.o.Version, PID: os.Getpid(), Host: r.host, You: callerName(ctx), Started: r.started.UTC(),
		Apps: []control.AppInfo{}, Releases: []control.ReleaseInfo{}, Rollouts: []control.RolloutInfo{},
	}
	for _, e := range r.o.Engine.Events(rollout.EventQuery{Limit: 1}) {
		s.LastEvent = e.Seq
	}
	for _, a := range r.o.Engine.Apps() {
		s.Apps = append(s.Apps, control.AppInfoOf(a))
	}
	releases, err := r.o.Engine.Releases("")
	if err != nil {
		return s, fmt.Errorf("list the releases: %w", err)
	}
	for _, rel := range releases {
		s.Releases = append(s.Releases, control.ReleaseInfoOf(rel))
	}
	rollouts, err := r.o.Engine.Rollouts("")
	if err != nil {
		return s, fmt.Errorf("list the rollouts: %w", err)
	}
	ended := 0
	for _, ro := range slices.Backward(rollouts) {
		if !ro.Live() {
			if ended++; ended > endedRollouts {
				continue
			}
		}
		s.Rollouts = append(s.Rollouts, control.RolloutInfoOf(ro))
	}
	slices.Reverse(s.Rollouts)
	return s, nil
}
