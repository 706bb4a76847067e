package starlark

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// Args binds the words of a command line to the parameters of fn, the main
// of the recipe in file, as the arguments of a call:
//
//	[ARG…] [--name value | --name=value | --flag | --no-flag] [-- ARG…]
//
// Words that are no flags fill the parameters that no flag names, in order,
// then *args. A parameter some_name is the flag --some-name; unknown flags
// go to **kwargs if main has it. The default decides the type: a string,
// int, float or bool is that; a list or tuple is split at commas, its
// elements typed by those of the default, and grows when the flag is
// repeated; {} takes KEY=VALUE, repeated; None, or no default, is a string.
// A word such as -5 is a value. Errors are *muru.Error of kind usage.
func Args(file string, fn *starlark.Function, args []string) (starlark.Tuple, []starlark.Tuple, error) {
	positional, named, err := bind(file, functionParams(fn), args)
	if err != nil {
		return nil, nil, err
	}
	return positional, named, nil
}

// CheckArgs is what can be said about args before the recipe is executed:
// everything, unless a default of main is computed. A file that defines
// functions, but no main, and does nothing else is refused, too. Errors are *muru.Error
// of kind usage.
func (f *File) CheckArgs(args []string) error {
	def := f.source.definition("main")
	if def == nil {
		if slices.Contains(f.source.exported(), "main") {
			return nil
		}
		if len(args) > 0 {
			return muru.Errorf(muru.KindUsage, "%s: takes no arguments: it defines no main", f.source.name)
		}
		return f.checkRuns()
	}
	params := definedParams(def)
	if slices.ContainsFunc(params, func(p parameter) bool { return !p.known() }) {
		return nil
	}
	if _, _, err := bind(f.source.name, params, args); err != nil {
		return err
	}
	return nil
}

// checkRuns refuses a file without main that would do nothing: it holds
// functions, which nobody calls. It is a module, or its main is misspelled.
func (f *File) checkRuns() error {
	var functions []string
	for _, stmt := range f.source.tree.Stmts {
		switch stmt := stmt.(type) {
		case *syntax.DefStmt:
			functions = append(functions, stmt.Name.Name)
		case *syntax.LoadStmt:
		default:
			if docOf([]syntax.Stmt{stmt}) == "" {
				return nil
			}
		}
	}
	if len(functions) == 0 {
		return nil
	}
	err := muru.Errorf(muru.KindUsage, "%s: there is nothing to run: it defines no main", f.source.name)
	if near := muru.Suggest("main", functions); near != "" {
		return err.WithHint("is %s meant to be main?", near)
	}
	return err.WithHint("def main(): is what runs")
}

// WantsHelp reports whether args ask for the usage of a recipe: --help or -h
// before "--", unless its main has a parameter help.
func (f *File) WantsHelp(args []string) bool {
	if def := f.source.definition("main"); def != nil {
		if slices.ContainsFunc(definedParams(def), func(p parameter) bool { return p.Name == "help" }) {
			return false
		}
	}
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--help", "-h":
			return true
		}
	}
	return false
}

// binder collects the values of one command line.
type binder struct {
	file    string
	params  []parameter
	values  map[string]starlark.Value
	kwargs  []starlark.Tuple // for **kwargs
	words   []string         // that are no flags
	changed map[string]bool  // lists and dicts given once, which grow
}

func bind(file string, params []parameter, args []string) (starlark.Tuple, []starlark.Tuple, *muru.Error) {
	b := &binder{file: file, params: params, values: make(map[string]starlark.Value), changed: make(map[string]bool)}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			b.words = append(b.words, args[i+1:]...)
			break
		}
		if !isFlag(arg) {
			b.words = append(b.words, arg)
			continue
		}
		used, err := b.flag(arg, args[i+1:])
		if err != nil {
			return nil, nil, err
		}
		i += used
	}
	return b.finish()
}

// isFlag tells flags from values; "-" and numbers are values.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	return arg[1] != '.' && (arg[1] < '0' || arg[1] > '9')
}

// flag takes one flag, and reports how many of the words behind it are its
// value.
func (b *binder) flag(arg string, rest []string) (used int, err *muru.Error) {
	name, text, hasText := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	p, negated := b.find(name)
	if !strings.HasPrefix(arg, "--") || p == nil && b.keywords() == nil {
		return 0, b.unknown(arg)
	}
	if p == nil {
		p = &parameter{Name: strings.ReplaceAll(name, "-", "_"), Required: true}
		if p.Name == "" {
			return 0, b.unknown(arg)
		}
	}
	if _, isBool := p.Default.(starlark.Bool); isBool && !hasText {
		return 0, b.set(*p, starlark.Bool(!negated))
	}
	if negated {
		return 0, b.errorf("%s takes no value", arg[:len(arg)-len(text)-1])
	}
	if !hasText {
		if len(rest) == 0 || isFlag(rest[0]) {
			return 0, b.errorf("%s needs a value", p.flag())
		}
		text, used = rest[0], 1
	}
	return used, b.parse(*p, p.flag(), text)
}

// find returns the parameter that a flag names; no-x is the negation of a
// bool x.
func (b *binder) find(name string) (p *parameter, negated bool) {
	name = strings.ReplaceAll(name, "-", "_")
	byName := func(name string) *parameter {
		i := slices.IndexFunc(b.params, func(p parameter) bool { return p.Name == name && !p.Variadic && !p.Keywords })
		if i < 0 {
			return nil
		}
		return &b.params[i]
	}
	if p := byName(name); p != nil {
		return p, false
	}
	if positive, ok := strings.CutPrefix(name, "no_"); ok {
		if p := byName(positive); p != nil {
			if _, isBool := p.Default.(starlark.Bool); isBool {
				return p, true
			}
		}
	}
	return nil, false
}

func (b *binder) keywords() *parameter {
	return b.special(func(p parameter) bool { return p.Keywords })
}
func (b *binder) variadic() *parameter {
	return b.special(func(p parameter) bool { return p.Variadic })
}

func (b *binder) special(is func(parameter) bool) *parameter {
	if i := slices.IndexFunc(b.params, is); i >= 0 {
		return &b.params[i]
	}
	return nil
}

// finish gives the words to the parameters and makes the arguments.
func (b *binder) finish() (starlark.Tuple, []starlark.Tuple, *muru.Error) {
	words := b.words
	for _, p := range b.params {
		if len(words) == 0 {
			break
		}
		if p.KeywordOnly || p.Variadic || p.Keywords || b.values[p.Name] != nil {
			continue
		}
		if err := b.parse(p, p.placeholder(), words[0]); err != nil {
			return nil, nil, err
		}
		words = words[1:]
	}
	if len(words) > 0 && b.variadic() == nil {
		return nil, nil, b.errorf("unexpected argument %q", words[0]).WithHint("%s", usageLine(b.file, b.params))
	}
	for _, p := range b.params {
		if p.Required && b.values[p.Name] == nil {
			name := p.placeholder()
			if p.KeywordOnly {
				name = p.flag()
			}
			return nil, nil, b.errorf("%s is missing", name).WithHint("%s", usageLine(b.file, b.params))
		}
	}
	args, kwargs := b.arguments(words)
	return args, kwargs, nil
}

// arguments makes the call. Parameters are passed by name, unless there are
// words for *args, which come after all positional ones.
func (b *binder) arguments(rest []string) (args starlark.Tuple, kwargs []starlark.Tuple) {
	for _, p := range b.params {
		v := b.values[p.Name]
		switch {
		case p.Variadic || p.Keywords:
		case len(rest) > 0 && !p.KeywordOnly:
			if v == nil {
				v = p.Default
			}
			args = append(args, v)
		case v != nil:
			kwargs = append(kwargs, starlark.Tuple{starlark.String(p.Name), v})
		}
	}
	for _, word := range rest {
		args = append(args, starlark.String(word))
	}
	return args, append(kwargs, b.kwargs...)
}

// parse sets p from text; label is how the error names it.
func (b *binder) parse(p parameter, label, text string) *muru.Error {
	v, problem := parseValue(p.Default, text)
	if problem != "" {
		return b.errorf("%s: %s", label, problem)
	}
	return b.set(p, v)
}

// set stores a value. A list or dict given again grows; anything else may be
// given once.
func (b *binder) set(p parameter, v starlark.Value) *muru.Error {
	old := b.values[p.Name]
	if old == nil {
		b.values[p.Name] = v
		if !slices.ContainsFunc(b.params, func(known parameter) bool { return known.Name == p.Name && !known.Variadic && !known.Keywords }) {
			b.kwargs = append(b.kwargs, starlark.Tuple{starlark.String(p.Name), v})
		}
		return nil
	}
	switch old := old.(type) {
	case *starlark.List:
		for elem := range v.(*starlark.List).Elements() {
			old.Append(elem) // cannot fail: it is not frozen
		}
		return nil
	case starlark.Tuple:
		b.values[p.Name] = append(old, v.(starlark.Tuple)...)
		return nil
	case *starlark.Dict:
		for _, item := range v.(*starlark.Dict).Items() {
			old.SetKey(item[0], item[1]) // cannot fail: strings, not frozen
		}
		return nil
	}
	return b.errorf("%s is given twice", p.flag())
}

func (b *binder) errorf(format string, args ...any) *muru.Error {
	e := muru.Errorf(muru.KindUsage, format, args...)
	e.Message = b.file + ": " + e.Message
	return e
}

func (b *binder) unknown(arg string) *muru.Error {
	arg, _, _ = strings.Cut(arg, "=")
	var flags []string
	for _, p := range b.params {
		if p.Variadic || p.Keywords {
			continue
		}
		flags = append(flags, p.flag())
		if _, isBool := p.Default.(starlark.Bool); isBool {
			flags = append(flags, "--no-"+p.flag()[2:])
		}
	}
	e := b.errorf("unknown flag %s", arg)
	if hint := hintFor(arg, flags); hint != "" {
		return e.WithHint("%s", hint)
	}
	return e.WithHint("%s", usageLine(b.file, b.params))
}

// parseValue parses text as the type of a default; problem is "" if that is
// possible.
func parseValue(like starlark.Value, text string) (v starlark.Value, problem string) {
	switch like := like.(type) {
	case nil, starlark.String, starlark.NoneType:
		return starlark.String(text), ""
	case starlark.Bool:
		if text == "true" || text == "false" {
			return starlark.Bool(text == "true"), ""
		}
		return nil, strconv.Quote(text) + " is not true or false"
	case starlark.Int:
		if n, ok := parseInt(text); ok {
			return n, ""
		}
		return nil, strconv.Quote(text) + " is not a whole number"
	case starlark.Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, strconv.Quote(text) + " is not a number"
		}
		return starlark.Float(f), ""
	case *starlark.List:
		elems, problem := parseList(like, text)
		return starlark.NewList(elems), problem
	case starlark.Tuple:
		elems, problem := parseList(like, text)
		return starlark.Tuple(elems), problem
	case *starlark.Dict:
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, strconv.Quote(text) + " is not KEY=VALUE"
		}
		dict := new(starlark.Dict)
		dict.SetKey(starlark.String(key), starlark.String(value)) // cannot fail: a string
		return dict, ""
	}
	return nil, "a " + like.Type() + " cannot be given on the command line"
}

func parseInt(text string) (starlark.Int, bool) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || len(text) > 1000 {
		return starlark.Int{}, false
	}
	return starlark.MakeBigInt(n), true
}

// parseList splits text at commas. Elements are typed by those of like if
// they agree; ints beside other types, as in the steps of a canary, are ints
// where the text is one and strings elsewhere. Elements of a type that
// cannot be written, such as pairs, are strings, too.
func parseList(like starlark.Iterable, text string) (elems []starlark.Value, problem string) {
	if text == "" {
		return nil, ""
	}
	kind, ints := elementKind(like)
	for part := range strings.SplitSeq(text, ",") {
		v := starlark.Value(starlark.String(part))
		if n, ok := parseInt(part); ok && ints {
			v = n
		} else if kind != nil {
			if v, problem = parseValue(kind, part); problem != "" {
				return nil, problem
			}
		}
		elems = append(elems, v)
	}
	return elems, ""
}

// elementKind returns an element that stands for the type all of like have,
// nil if they have several or one that cannot be written, and whether ints
// are among several.
func elementKind(like starlark.Iterable) (kind starlark.Value, ints bool) {
	types := make(map[string]bool)
	for elem := range starlark.Elements(like) {
		switch elem.(type) {
		case starlark.Bool, starlark.Int, starlark.Float:
			kind = elem
		}
		types[elem.Type()] = true
	}
	if len(types) > 1 {
		return nil, types["int"]
	}
	return kind, false
}
