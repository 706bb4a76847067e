package host

import (
	"sync"

	"muru/host/wire"
)

// An interpreter is what a release's python was found to stand for, so that it
// is found out once, and not at each start of a worker. The zero value knows
// nothing.
type interpreter struct {
	mu     sync.Mutex // guards what follows; held while it is found out
	python string     // as found
	means  string     // what that stands for; empty: not asked
}

// python returns the interpreter to start a worker with, env being its
// environment. The release's python is looked for each time: a .venv that is gone
// is an error, and another one another interpreter.
func (r *release) python(env []string) (string, error) {
	found, err := wire.FindPython(r.plan.Source)
	if err != nil {
		return "", err
	}
	i := &r.interpreter
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.python == found && i.means != "" {
		return i.means, nil
	}
	means, err := wire.Interpreter(r.ctx, found, r.plan.Source, env)
	if err != nil {
		// It starts all the same, only slower.
		r.host.diary.Warn("find the interpreter behind a script", "release", r.id, "error", err)
	}
	i.python, i.means = found, means
	return means, nil
}
