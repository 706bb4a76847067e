package starlark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"unicode/utf8"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// MaxSourceSize is the size in bytes above which a source file is refused.
// The compiler recurses on long expressions; at this size its stack stays
// well below the limit at which Go ends the process.
const MaxSourceSize = 1 << 20

// source is one file, read, parsed, resolved and compiled. It is immutable
// once linked, and shared by the runs of its File.
type source struct {
	name    string // as people see it: relative to Dir as written, or @std//name.star
	path    string // absolute, empty for a module of the stdlib
	std     string // name inside the stdlib, empty for a file
	tree    *syntax.File
	program *starlark.Program
	calls   map[position]*callSite
	loads   map[string]*source // by the module text of the load statement

	// Of an input of a session; see input.go.
	input    bool
	text     string
	uses     map[string]bool // variables of the session it refers to
	prologue int             // statements of tree that are not of text
}

// compile parses and resolves data and indexes its calls. Errors are of kind
// usage with a position.
func (src *source) compile(data []byte, predeclared starlark.StringDict) (failure error) {
	defer func() {
		// The parser turns its panics into errors; the resolver and the
		// compiler do not.
		if r := recover(); r != nil {
			failure = usageAt(syntax.Position{}, "", "%s: cannot be compiled: %v", src.name, r)
		}
	}()
	if err := src.checkText(data); err != nil {
		return err
	}
	dialect := Dialect()
	if src.input {
		dialect = SessionDialect()
	}
	tree, err := dialect.Parse(src.name, data, 0)
	if err != nil {
		if e, ok := errors.AsType[syntax.Error](err); ok {
			return usageAt(e.Pos, syntaxHint(data, e), "%s", e.Msg)
		}
		return usageAt(syntax.Position{}, "", "%s: %v", src.name, err)
	}
	if src.input {
		src.prepare(tree, predeclared)
	}
	program, err := starlark.FileProgram(tree, predeclared.Has)
	if err != nil {
		return src.resolveError(tree, err, predeclared)
	}
	src.tree, src.program, src.calls = tree, program, indexCalls(tree)
	return nil
}

func (src *source) checkText(data []byte) error {
	if size := src.weight(data); size > MaxSourceSize {
		return usageAt(syntax.Position{}, "", "%s: is larger than %d bytes", src.name, MaxSourceSize)
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return usageAt(src.positionAt(data, i), "", "the file holds a zero byte: it is not source text")
	}
	if utf8.Valid(data) {
		return nil
	}
	i := 0
	for i < len(data) {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		i += size
	}
	return usageAt(src.positionAt(data, i), "save the file as UTF-8", "byte 0x%02x is not UTF-8", data[i])
}

// positionAt returns the position of the byte at offset.
func (src *source) positionAt(data []byte, offset int) syntax.Position {
	line := 1 + bytes.Count(data[:offset], []byte("\n"))
	start := 1 + bytes.LastIndexByte(data[:offset], '\n')
	return syntax.MakePosition(&src.name, int32(line), int32(1+utf8.RuneCount(data[start:offset])))
}

// resolveError words the first error of the resolver; the others follow as
// details. A name that is not defined gets our own suggestion, over all
// names that could stand there.
func (src *source) resolveError(tree *syntax.File, err error, predeclared starlark.StringDict) error {
	list, ok := errors.AsType[resolve.ErrorList](err)
	if !ok || len(list) == 0 {
		return usageAt(syntax.Position{}, "", "%s: %v", src.name, err)
	}
	// The resolver reports names at the end of each block; people read from
	// the top.
	slices.SortStableFunc(list, func(a, b resolve.Error) int {
		if a.Pos.Line != b.Pos.Line {
			return int(a.Pos.Line - b.Pos.Line)
		}
		return int(a.Pos.Col - b.Pos.Col)
	})
	undefined := undefinedNames(tree)
	word := func(e resolve.Error) (message, hint string) {
		name, ok := undefined[positionOf(e.Pos)]
		if !ok {
			return e.Msg, notStarlark[statementAt(tree, e.Pos)]
		}
		return "undefined: " + name, hintFor(name, visibleNames(tree, e.Pos, predeclared))
	}
	message, hint := word(list[0])
	out := usageAt(list[0].Pos, hint, "%s", message)
	for _, e := range list[1:min(len(list), 10)] {
		message, hint := word(e)
		if hint != "" {
			message += ": " + hint
		}
		out.Detail = append(out.Detail, fmt.Sprintf("%s: %s", e.Pos, message))
	}
	return out
}

// undefinedNames returns the identifiers the resolver could not bind.
func undefinedNames(tree *syntax.File) map[position]string {
	names := make(map[position]string)
	syntax.Walk(tree, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope == resolve.Undefined {
				names[positionOf(id.NamePos)] = id.Name
			}
		}
		return true
	})
	return names
}

// visibleNames returns every name that could be used at pos: builtins, the
// globals and loads of the file, and the locals of the functions around pos.
func visibleNames(tree *syntax.File, pos syntax.Position, predeclared starlark.StringDict) []string {
	names := append(predeclared.Keys(), starlark.Universe.Keys()...)
	if module, ok := tree.Module.(*resolve.Module); ok {
		names = append(names, bindingNames(module.Globals)...)
		names = append(names, bindingNames(module.Locals)...)
	}
	for _, fn := range functionsAround(tree, pos) {
		names = append(names, bindingNames(fn.Locals)...)
	}
	names = slices.DeleteFunc(names, hidden)
	slices.Sort(names)
	return slices.Compact(names)
}

func bindingNames(bindings []*resolve.Binding) []string {
	var names []string
	for _, b := range bindings {
		if b.First != nil {
			names = append(names, b.First.Name)
		}
	}
	return names
}

// exported returns the names a load statement can take from the module.
func (src *source) exported() []string {
	module, ok := src.tree.Module.(*resolve.Module)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(bindingNames(module.Globals), func(name string) bool { return name[0] == '_' })
}

// definition returns the def statement of a function of the top level, nil
// if there is none.
func (src *source) definition(name string) *syntax.DefStmt {
	for _, stmt := range src.tree.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

// readSource reads the file at path, not more than one byte above the limit.
func readSource(open func() (fs.File, error), name string) ([]byte, *muru.Error) {
	f, err := open()
	if err != nil {
		return nil, readError(name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, muru.Errorf(muru.KindUsage, "%s: is a directory", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSourceSize+1))
	if err != nil {
		return nil, readError(name, err)
	}
	return data, nil
}

func readError(name string, err error) *muru.Error {
	kind, why := muru.KindUsage, err
	if errors.Is(err, fs.ErrNotExist) {
		kind, why = muru.KindNotFound, errNoFile
	} else if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		why = pathErr.Err
	}
	return &muru.Error{Kind: kind, Message: name + ": " + why.Error(), Err: err}
}

var errNoFile = errors.New("no such file")

// openFile opens path for readSource. Anything but a regular file would
// block or never end.
func openFile(path string) (fs.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return os.Open(path)
}

var errNotRegular = errors.New("not a regular file")
