package starlark

import (
	"context"
	"maps"
	"sync"

	"go.starlark.net/starlark"

	"muru"
)

// run is one execution of a File.
type run struct {
	file        *File
	predeclared starlark.StringDict
	compute     *activity

	handed *handedOver // shared by the runs of a session

	mu      sync.Mutex          // guards modules
	modules map[*source]*loaded // executed, or being
}

// handedOver are the functions that another thread may call: they are frozen,
// with the globals of their modules.
type handedOver struct {
	sync.Mutex
	functions map[*starlark.Function]bool // guarded by Mutex
	session   *Session                    // nil: no session's
}

// Run executes the recipe: its top level, then main, if it defines one, with
// the command line args as parameters. args are checked first, as far as
// that is possible without executing anything. It returns what main
// returned, or None.
//
// The run ends with ctx, within 200 ms unless one primitive operation takes
// longer; the error is then of kind canceled and errors.Is reports
// context.Canceled. A used-up budget is an error of kind budget. Every error
// is an [*Error]; those about args are of kind usage.
func (f *File) Run(ctx context.Context, args []string) (starlark.Value, error) {
	if err := f.CheckArgs(args); err != nil {
		return nil, newError(nil, err)
	}
	r := f.newRun()
	return r.bounded(ctx, func(thread *starlark.Thread) (starlark.Value, error) {
		globals, err := f.source.program.Init(thread, r.predeclared)
		globals.Freeze()
		if err != nil {
			return nil, err
		}
		return f.callMain(thread, globals["main"], args)
	})
}

// bounded runs do on a thread of r under the limits of its runtime.
func (r *run) bounded(ctx context.Context, do func(*starlark.Thread) (starlark.Value, error)) (starlark.Value, error) {
	limits := r.file.rt.options.Limits
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if limits.Wall > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limits.Wall, wallBudget(limits.Wall))
		defer stop()
	}
	if limits.Memory > 0 {
		defer watchMemory(r.compute, limits.Memory, cancel)()
	}
	return r.onThread(ctx, threadOptions{name: r.file.source.name, meter: newMeter(limits.Steps, cancel)}, do)
}

func (f *File) newRun() *run {
	r := &run{
		file:        f,
		predeclared: maps.Clone(f.rt.predeclared),
		compute:     new(activity),
		modules:     make(map[*source]*loaded),
		handed:      &handedOver{functions: make(map[*starlark.Function]bool)},
	}
	r.predeclared[runName] = runValue{r}
	return r
}

func (f *File) callMain(thread *starlark.Thread, main starlark.Value, args []string) (starlark.Value, error) {
	if main == nil {
		return starlark.None, nil // CheckArgs has refused args
	}
	fn, ok := main.(*starlark.Function)
	if !ok {
		return nil, muru.Errorf(muru.KindUsage, "%s: main is no function but of type %s", f.source.name, main.Type())
	}
	positional, named, err := Args(f.source.name, fn, args)
	if err != nil {
		return nil, err
	}
	return starlark.Call(thread, fn, positional, named)
}

// runName is the predeclared name, not an identifier, under which a function
// finds the run its module was executed in.
const runName = "\x00run"

// runValue makes a run a Starlark value, which no code can reach.
type runValue struct{ run *run }

func (runValue) String() string        { return "run" }
func (runValue) Type() string          { return "run" }
func (runValue) Freeze()               {}
func (runValue) Truth() starlark.Bool  { return true }
func (runValue) Hash() (uint32, error) { return 0, nil }

// runOf returns the run whose code defined fn, nil for a builtin.
func runOf(fn starlark.Callable) *run {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return nil
	}
	v, _ := f.Module().Predeclared()[runName].(runValue)
	return v.run
}
