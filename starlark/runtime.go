package starlark

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"go.starlark.net/starlark"
)

// Limits bound what one run, or one [Call], may use. A zero field is no
// limit.
type Limits struct {
	// Steps of the interpreter, over all threads of the run together.
	Steps int64

	// Wall time, builtins that wait included.
	Wall time.Duration

	// Memory in bytes, for a run as a whole ([Call] ignores it). It is
	// enforced by watching the growth of the process's heap and is coarse:
	// see memory.go.
	Memory int64
}

// DefaultLimits are for a recipe somebody runs: far above what one needs,
// low enough that a mistake ends within a minute or so. There is no limit of
// wall time, because a canary may take days.
func DefaultLimits() Limits {
	return Limits{Steps: 1_000_000_000, Memory: 512 << 20}
}

// GateSteps is the budget of one call of a gate function.
const GateSteps = 100_000

// Options say where and with what recipes run. The zero value runs the bare
// language without a way to print.
type Options struct {
	// Predeclared are the builtins every file sees. The map is copied; its
	// values must be frozen or safe for concurrent use.
	Predeclared starlark.StringDict

	// Setup is called last for every thread that is made: for the recipe,
	// each loaded module, and each call from Go. It may set locals and must
	// not run anything on the thread. ctx is [ContextOf] the thread.
	Setup func(ctx context.Context, thread *starlark.Thread)

	// Print receives the text of each print(), without a line end. It is
	// called by all threads of a run and must be safe for concurrent use.
	// Nil drops the text.
	Print func(text string)

	// Limits of each run.
	Limits Limits

	// Stdlib holds the modules loaded as "@std//name.star". Nil: none.
	Stdlib fs.FS

	// Dir is the directory relative paths start from, the caller's working
	// directory. Empty: the process's.
	Dir string

	// Bug is told of every panic that was turned into the failure of a run.
	// It must be safe for concurrent use. Nil drops the report.
	Bug func(Bug)
}

// A Runtime runs recipes with one set of options. It starts nothing, holds
// no run, and is safe for concurrent use.
type Runtime struct {
	options     Options
	predeclared starlark.StringDict
}

// New returns a runtime with the options o. Names of the language that o
// does not predeclare itself get the versions in universe.go, which can be
// stopped.
func New(o Options) *Runtime {
	predeclared := universe()
	maps.Copy(predeclared, o.Predeclared)
	if dir, err := filepath.Abs(o.Dir); err == nil {
		o.Dir = dir
	}
	return &Runtime{options: o, predeclared: predeclared}
}

// Run opens the recipe at path and runs it with the command line args. The
// value is what main returned, None if the file defines no main. Every error
// is an [*Error]; see [Runtime.Open] and [File.Run].
func (rt *Runtime) Run(ctx context.Context, path string, args []string) (starlark.Value, error) {
	file, err := rt.Open(path)
	if err != nil {
		return nil, err
	}
	return file.Run(ctx, args)
}
