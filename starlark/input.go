package starlark

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// An input is compiled like a file, with two changes. Its last expression is
// assigned to a hidden variable, so that it has a value. And a variable of
// the session that the input assigns is given its present value first, by
// statements in front: to the compiler it is a new variable, and x = x + 1
// would find it without a value.

// Names with a zero byte cannot be written.
const (
	valueName = "\x00value"
	oldPrefix = "\x00old "
)

func hidden(name string) bool { return strings.HasPrefix(name, "\x00") }

// maxInput bounds an input, literals included; what is outside of literals
// must keep within [MaxSourceSize].
const maxInput = 16 << 20

// weight is the size of a source that counts: literals of an input do not,
// for they are one token each, and people paste megabytes of data.
func (src *source) weight(data []byte) int {
	if !src.input || len(data) <= MaxSourceSize || len(data) > maxInput {
		return len(data)
	}
	return scanInput(string(data)).code
}

// prepare makes those changes before the names of the input are resolved.
// names are changed, too: they get the former values.
func (src *source) prepare(tree *syntax.File, names starlark.StringDict) {
	if len(tree.Stmts) == 0 {
		return
	}
	src.uses = make(map[string]bool)
	syntax.Walk(tree, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			src.uses[id.Name] = true
		}
		return true
	})
	start, _ := tree.Stmts[0].Span()
	if last, ok := tree.Stmts[len(tree.Stmts)-1].(*syntax.ExprStmt); ok {
		pos, _ := last.Span()
		tree.Stmts[len(tree.Stmts)-1] = &syntax.AssignStmt{
			OpPos: pos, Op: syntax.EQ, LHS: &syntax.Ident{NamePos: pos, Name: valueName}, RHS: last.X,
		}
	}
	var prologue []syntax.Stmt
	for _, name := range assignedAtTop(tree) {
		old := names[name]
		if old == nil {
			continue
		}
		names[oldPrefix+name] = old
		prologue = append(prologue, &syntax.AssignStmt{
			OpPos: start, Op: syntax.EQ,
			LHS: &syntax.Ident{NamePos: start, Name: name},
			RHS: &syntax.Ident{NamePos: start, Name: oldPrefix + name},
		})
	}
	src.prologue = len(prologue)
	tree.Stmts = append(prologue, tree.Stmts...)
}

// assignedAtTop returns the names that the statements of tree assign outside
// of functions, loads excepted, sorted.
func assignedAtTop(tree *syntax.File) []string {
	names := make(map[string]bool)
	for _, stmt := range tree.Stmts {
		bindingsOf(stmt, 1, func(id *syntax.Ident, _ int) { names[id.Name] = true })
	}
	delete(names, valueName)
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// bindingsOf calls bind for each name that stmt assigns outside of functions;
// weight is 2 in a loop.
func bindingsOf(stmt syntax.Stmt, weight int, bind func(id *syntax.Ident, weight int)) {
	var target func(x syntax.Expr)
	target = func(x syntax.Expr) {
		switch x := x.(type) {
		case *syntax.Ident:
			bind(x, weight)
		case *syntax.ParenExpr:
			target(x.X)
		case *syntax.TupleExpr:
			for _, elem := range x.List {
				target(elem)
			}
		case *syntax.ListExpr:
			for _, elem := range x.List {
				target(elem)
			}
		}
	}
	switch stmt := stmt.(type) {
	case *syntax.AssignStmt:
		target(stmt.LHS)
	case *syntax.DefStmt:
		bind(stmt.Name, weight)
	case *syntax.ForStmt:
		weight = 2
		target(stmt.Vars)
		for _, s := range stmt.Body {
			bindingsOf(s, 2, bind)
		}
	case *syntax.IfStmt:
		for _, s := range slices.Concat(stmt.True, stmt.False) {
			bindingsOf(s, weight, bind)
		}
	}
}

// reboundHere returns the name of a variable that fn, of an input, uses and
// that the same input assigns more than once: it changes while another
// thread may read it. See [Rebound].
func (src *source) reboundHere(fn *starlark.Function) string {
	def := src.functionNode(fn)
	if !src.input || def == nil {
		return ""
	}
	count := make(map[string]int)
	for _, stmt := range src.tree.Stmts[src.prologue:] {
		bindingsOf(stmt, 1, func(id *syntax.Ident, weight int) { count[id.Name] += weight })
	}
	found := ""
	syntax.Walk(def, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok && count[id.Name] > 1 {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope == resolve.Global && found == "" {
				found = id.Name
			}
		}
		return true
	})
	return found
}

// functionNode returns the def or lambda that fn was made by, nil if it is
// not in src.
func (src *source) functionNode(fn *starlark.Function) syntax.Node {
	var found syntax.Node
	syntax.Walk(src.tree, func(n syntax.Node) bool {
		if n == nil {
			return true
		}
		if f := functionOf(n); f != nil && positionOf(f.Pos) == positionOf(fn.Position()) {
			found = n
		}
		return true
	})
	return found
}

// FunctionText returns the source of a function that was defined in an input
// of a session, and the variables of the session it uses. It is false for
// other functions.
func FunctionText(fn *starlark.Function) (text string, uses starlark.StringDict, ok bool) {
	r := runOf(fn)
	if r == nil {
		return "", nil, false
	}
	src := r.file.sources[fn.Position().Filename()]
	if src == nil || !src.input {
		return "", nil, false
	}
	node := src.functionNode(fn)
	if node == nil {
		return "", nil, false
	}
	uses = make(starlark.StringDict)
	globals := fn.Globals()
	syntax.Walk(node, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		if !ok {
			return true
		}
		b, ok := id.Binding.(*resolve.Binding)
		switch {
		case !ok:
		case b.Scope == resolve.Global && globals[id.Name] != nil:
			uses[id.Name] = globals[id.Name]
		case b.Scope == resolve.Predeclared && r.file.rt.predeclared[id.Name] == nil:
			uses[id.Name] = fn.Module().Predeclared()[id.Name]
		}
		return true
	})
	for i := range fn.NumFreeVars() {
		variable, v := fn.FreeVar(i)
		uses[variable.Name] = v
	}
	delete(uses, fn.Name())
	start, end := node.Span()
	return src.text[src.offset(start):src.offset(end)], uses, true
}

// offset returns where in the text of an input a position is.
func (src *source) offset(pos syntax.Position) int {
	at := 0
	for range pos.Line - 1 {
		next := strings.IndexByte(src.text[at:], '\n')
		if next < 0 {
			return len(src.text)
		}
		at += next + 1
	}
	for range pos.Col - 1 {
		_, size := utf8.DecodeRuneInString(src.text[at:])
		at += size
	}
	return min(at, len(src.text))
}

var questionForm = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)((?:\.[A-Za-z_][A-Za-z0-9_]*)*)\s*\?\s*$`)

// question makes help(x) of x?. A name that is not defined is asked for by
// its text: help knows more than what is bound, and what is near.
func question(input string, known func(string) bool) string {
	m := questionForm.FindStringSubmatch(input)
	if m == nil {
		return input
	}
	if m[2] == "" && !known(m[1]) && !starlark.Universe.Has(m[1]) {
		return `help("` + m[1] + `")`
	}
	return "help(" + m[1] + m[2] + ")"
}
