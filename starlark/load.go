package starlark

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// stdPrefix marks modules of Options.Stdlib.
const stdPrefix = "@std//"

// A File is a recipe that was read and checked together with every module it
// loads, directly or not. Nothing of it has been executed. It is immutable:
// what is run is what was read, whatever happens on disk later. It is safe
// for concurrent use, and each [File.Run] executes it anew.
type File struct {
	rt      *Runtime
	source  *source
	sources map[string]*source // by name, for positions
}

// Open reads and checks the recipe at path, which is relative to
// Options.Dir, and all it loads: syntax, names, loads and their cycles. A
// recipe that does not pass has not done anything. Errors are *Error of kind
// usage, or not_found for a missing file.
func (rt *Runtime) Open(path string) (*File, error) {
	abs := rt.abs(path)
	data, err := readSource(func() (fs.File, error) { return openFile(abs) }, path)
	if err != nil {
		return nil, newError(nil, err)
	}
	return rt.Parse(path, data)
}

// Parse is [Runtime.Open] with the text of the recipe given. name is the
// path it stands for: its loads are beside it.
func (rt *Runtime) Parse(name string, data []byte) (*File, error) {
	name = filepath.Clean(name)
	l := &linker{rt: rt, byKey: make(map[string]*source), sources: make(map[string]*source)}
	root := &source{name: name, path: rt.abs(name)}
	if err := l.link(root, data); err != nil {
		return nil, err
	}
	return &File{rt: rt, source: root, sources: l.sources}, nil
}

// Name returns the path the recipe was opened by.
func (f *File) Name() string { return f.source.name }

func (rt *Runtime) abs(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(rt.options.Dir, name)
}

// linker reads the closure of a recipe's loads, depth first.
type linker struct {
	rt      *Runtime
	names   starlark.StringDict // of the root, if it is an input
	byKey   map[string]*source  // linked sources, one for each real file
	sources map[string]*source  // the same by name
	active  []*source           // from the recipe down to the one being linked
}

// key names the file itself, however it was reached.
func (src *source) key() string {
	if src.std != "" {
		return stdPrefix + src.std
	}
	if real, err := filepath.EvalSymlinks(src.path); err == nil {
		return real
	}
	return src.path
}

// link compiles src and links what it loads.
func (l *linker) link(src *source, data []byte) error {
	names := l.rt.predeclared
	if src.input {
		names = l.names
	}
	if err := src.compile(data, names); err != nil {
		return err
	}
	l.active = append(l.active, src)
	src.loads = make(map[string]*source)
	for _, stmt := range src.tree.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		loaded, err := l.load(src, load)
		if err != nil {
			return err
		}
		src.loads[load.ModuleName()] = loaded
	}
	l.active = l.active[:len(l.active)-1]
	l.byKey[src.key()], l.sources[src.name] = src, src
	return nil
}

// load links the module of one load statement in src and checks the names
// taken from it.
func (l *linker) load(src *source, stmt *syntax.LoadStmt) (*source, error) {
	fail := func(err *muru.Error) error {
		err.Message = "load: " + err.Message // each is made for this statement
		e := newError(nil, err)
		e.Where = wherePos(stmt.Module.TokenPos)
		return e
	}
	module, open, err := l.rt.locate(src, stmt.ModuleName())
	if err != nil {
		return nil, fail(err)
	}
	key := module.key()
	if i := slices.IndexFunc(l.active, func(s *source) bool { return s.key() == key }); i >= 0 {
		return nil, fail(cycleError(l.active[i:]))
	}
	if linked := l.byKey[key]; linked != nil {
		module = linked
	} else {
		data, err := readSource(open, module.name)
		if err != nil {
			if err.Kind == muru.KindNotFound && module.std == "" && !src.input {
				err = err.WithHint("the path of a load starts beside the file it stands in, %s", src.name)
			}
			return nil, fail(err)
		}
		if err := l.link(module, data); err != nil {
			return nil, err
		}
	}
	exported := module.exported()
	for _, name := range stmt.From {
		if !slices.Contains(exported, name.Name) {
			return nil, usageAt(name.NamePos, hintFor(name.Name, exported), "load: %s defines no %s", module.name, name.Name)
		}
	}
	return module, nil
}

func cycleError(cycle []*source) *muru.Error {
	names := make([]string, 0, len(cycle)+1)
	for _, src := range append(slices.Clone(cycle), cycle[0]) {
		names = append(names, src.name)
	}
	return muru.Errorf(muru.KindUsage, "%s loads itself: %s", names[0], strings.Join(names, " -> "))
}

// locate says which file the text of a load statement in src means: a module
// of the stdlib, or a path beside src.
func (rt *Runtime) locate(src *source, text string) (*source, func() (fs.File, error), *muru.Error) {
	std, isStd := strings.CutPrefix(text, stdPrefix)
	switch {
	case text == "":
		return nil, nil, muru.Errorf(muru.KindUsage, "no module is named")
	case isStd:
	case strings.HasPrefix(text, "@"):
		return nil, nil, muru.Errorf(muru.KindNotFound, "%s: only @std// modules and files can be loaded", text)
	case src.std != "":
		std = path.Join(path.Dir(src.std), text)
	default:
		module := &source{name: filepath.Clean(text), path: filepath.Clean(text)}
		if !filepath.IsAbs(text) {
			module.name = filepath.Join(filepath.Dir(src.name), text)
			module.path = filepath.Join(filepath.Dir(src.path), text)
		}
		return module, func() (fs.File, error) { return openFile(module.path) }, nil
	}
	module := &source{name: stdPrefix + std, std: std}
	if rt.options.Stdlib == nil || !fs.ValidPath(std) {
		return nil, nil, muru.Errorf(muru.KindNotFound, "%s: no such module", module.name)
	}
	return module, func() (fs.File, error) {
		f, err := rt.options.Stdlib.Open(std)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", errNoFile, err)
		}
		return f, err
	}, nil
}

// loaded is a module executed in a run, or being executed.
type loaded struct {
	globals starlark.StringDict
	err     error
	done    bool
}

// load is Thread.Load: it executes a linked module once for each run, on a
// thread of its own on which nothing but pure builtins may be called.
func (r *run) load(thread *starlark.Thread, text string) (starlark.StringDict, error) {
	s := scopeOf(thread)
	from := r.file.sources[callerFrame(thread).Pos.Filename()]
	if from == nil || from.loads[text] == nil {
		return nil, muru.Errorf(muru.KindRefused, "load: %s is not linked with %s", text, r.file.source.name)
	}
	src := from.loads[text]
	r.mu.Lock()
	m := r.modules[src]
	if m == nil {
		m = new(loaded)
		r.modules[src] = m
		r.mu.Unlock()
		m.globals, m.err = r.execModule(s, src)
		r.mu.Lock()
		m.done = true
	}
	done := m.done
	r.mu.Unlock()
	if !done {
		// Cycles end at Open, and load statements stand at top level only,
		// so one thread at a time gets here.
		panic("BUG: " + src.name + " is loaded by two threads at once")
	}
	return m.globals, m.err
}

func (r *run) execModule(parent *scope, src *source) (starlark.StringDict, error) {
	var globals starlark.StringDict
	_, err := r.onThread(parent.ctx, threadOptions{
		name:  src.name,
		place: moduleTop,
		meter: parent.meter,
		depth: parent.depth + 1,
	}, func(thread *starlark.Thread) (starlark.Value, error) {
		var err error
		globals, err = src.program.Init(thread, r.predeclared)
		globals.Freeze()
		return starlark.None, err
	})
	if err != nil {
		return nil, err
	}
	return globals, nil
}
