package starlark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"muru"
)

// A Session runs one input after the other, as somebody types them, with
// variables that persist. An input is in [SessionDialect]: for and if may
// stand at top level and variables be assigned again. Functions see what a
// variable of an earlier input is now, not what it was when they were
// defined; a function that was handed to another thread (a gate's, a branch
// of parallel) keeps the values of that moment, which are frozen, as do the
// other functions that were defined by then.
//
// A session owns its variables and nothing that runs: between inputs there
// is no thread of it, except those that somebody else makes with [Call]. Its
// methods are safe for concurrent use; one input runs at a time.
type Session struct {
	rt     *Runtime
	busy   sync.Mutex // held while an input runs
	handed *handedOver

	// Used by whoever holds busy.
	inputs  int
	sources map[string]*source // everything that ever ran here, by name

	// names are the builtins and the variables: what inputs are resolved
	// against and their functions look up. The goroutine that holds busy
	// changes it, unless it is sealed, under the lock of handed. Once sealed,
	// other threads may read it: the next change is made to a copy.
	names   starlark.StringDict
	current *run // the last that was given names; guarded by handed
	sealed  bool // guarded by handed

	mu        sync.Mutex // guards variables
	variables starlark.StringDict
}

// NewSession returns a session without variables. It starts nothing and needs
// no closing.
func (rt *Runtime) NewSession() *Session {
	s := &Session{
		rt:        rt,
		sources:   make(map[string]*source),
		names:     maps.Clone(rt.predeclared),
		variables: make(starlark.StringDict),
	}
	s.handed = &handedOver{functions: make(map[*starlark.Function]bool), session: s}
	return s
}

// LastValue is the variable that holds the last value that was not None.
const LastValue = "_"

// Eval runs one input and returns the value of its last statement if that is
// an expression, else nil. A value other than None is then in [LastValue],
// too. "x?" is help(x). Loads start at Options.Dir and read the file anew.
//
// Each input has the whole of Options.Limits, and ends with ctx as
// [File.Run] does. Whatever the error, what the input had assigned by then
// stays. Errors are *[Error]; one of kind refused says that another input
// runs.
func (s *Session) Eval(ctx context.Context, input string) (starlark.Value, error) {
	var value starlark.Value
	err := s.EvalWith(ctx, input, func() func() { return func() {} }, func(v starlark.Value) error {
		value = v
		return nil
	})
	return value, err
}

// EvalWith is [Session.Eval] with the session kept for this input meanwhile:
// begin is called before it runs, unless another one does, the func that
// begin returns at the end, and show with the value.
func (s *Session) EvalWith(ctx context.Context, input string, begin func() (end func()), show func(starlark.Value) error) error {
	if !s.busy.TryLock() {
		return newError(nil, muru.Errorf(muru.KindRefused, "the session is busy with another input"))
	}
	defer s.busy.Unlock()
	defer begin()()
	v, err := s.eval(ctx, input)
	if err != nil {
		return err
	}
	return show(v)
}

// eval runs an input. s.busy is held.
func (s *Session) eval(ctx context.Context, input string) (starlark.Value, error) {
	input = question(input, s.names.Has)
	s.inputs++
	src := &source{name: fmt.Sprintf("<input %d>", s.inputs), input: true, text: input}
	src.path = s.rt.abs(src.name)
	s.unseal()
	defer s.forgetOld()
	file, err := s.link(src)
	if err != nil {
		return nil, newError(nil, err)
	}
	r := file.newRun()
	s.begin(r)
	var value starlark.Value
	_, err = r.bounded(ctx, func(thread *starlark.Thread) (starlark.Value, error) {
		globals, err := src.program.Init(thread, s.names)
		value = globals[valueName]
		delete(globals, valueName)
		s.assign(globals, value)
		return starlark.None, err
	})
	if err != nil {
		return nil, src.plain(err)
	}
	return value, nil
}

// link compiles an input and what it loads into a File that also knows every
// earlier input, for the positions of their functions.
func (s *Session) link(src *source) (*File, error) {
	l := &linker{rt: s.rt, names: s.names, byKey: make(map[string]*source), sources: maps.Clone(s.sources)}
	if err := l.link(src, []byte(src.text)); err != nil {
		return nil, err
	}
	s.sources = l.sources
	return &File{rt: s.rt, source: src, sources: l.sources}, nil
}

// unseal makes names changeable.
func (s *Session) unseal() {
	s.handed.Lock()
	defer s.handed.Unlock()
	if s.sealed {
		s.names, s.current, s.sealed = maps.Clone(s.names), nil, false
	}
}

// begin makes r the run that functions of the input find themselves in.
func (s *Session) begin(r *run) {
	s.handed.Lock()
	defer s.handed.Unlock()
	r.handed, s.current = s.handed, r
	s.names[runName] = runValue{r}
}

// seal keeps names as they are if they are the ones a function was found to
// use. handed is locked.
func (s *Session) seal(used starlark.StringDict) {
	if v, ok := used[runName].(runValue); ok && v.run == s.current {
		s.sealed = true
	}
}

// assign takes over what an input assigned, and its value.
func (s *Session) assign(globals starlark.StringDict, value starlark.Value) {
	s.unseal()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, v := range globals {
		s.names[name], s.variables[name] = v, v
	}
	if value != nil && value != starlark.None {
		s.names[LastValue], s.variables[LastValue] = value, value
	}
}

// forgetOld drops the former values that prepare gave to an input.
func (s *Session) forgetOld() {
	s.unseal()
	for name := range s.names {
		if strings.HasPrefix(name, oldPrefix) {
			delete(s.names, name)
		}
	}
}

// Names returns the names of the session's variables, sorted.
func (s *Session) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.variables))
}

// Lookup returns a variable, nil if there is none. Its value may be in use by
// an input that runs: only values that are immutable by nature, or frozen,
// may be looked into.
func (s *Session) Lookup(name string) starlark.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.variables[name]
}

// plain drops from an error the place where it says nothing: somewhere in the
// one line that was just typed.
func (src *source) plain(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Stack) != 1 || e.Stack[0].File != src.name || strings.Contains(strings.TrimSpace(src.text), "\n") {
		return err
	}
	plain := *e
	plain.Where, plain.Stack = "", nil
	return &plain
}
