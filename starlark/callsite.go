package starlark

import (
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// position is a place in one file; syntax.Position holds a pointer to its
// name and cannot be a key.
type position struct{ line, col int32 }

func positionOf(p syntax.Position) position { return position{p.Line, p.Col} }

// A callSite is a call expression in a source and the function it stands in,
// nil at top level. The interpreter knows a call by its "(".
type callSite struct {
	call   *syntax.CallExpr
	within *resolve.Function
}

// indexCalls returns the call expressions of tree by the position of "(".
func indexCalls(tree *syntax.File) map[position]*callSite {
	calls := make(map[position]*callSite)
	var visit func(n syntax.Node, within *resolve.Function)
	visit = func(n syntax.Node, within *resolve.Function) {
		syntax.Walk(n, func(c syntax.Node) bool {
			if c == nil || c == n {
				return true
			}
			switch c := c.(type) {
			case *syntax.CallExpr:
				calls[positionOf(c.Lparen)] = &callSite{c, within}
			case *syntax.DefStmt, *syntax.LambdaExpr:
				// Defaults are evaluated outside, but it does no harm to
				// count them to the function.
				visit(c, functionOf(c))
				return false
			}
			return true
		})
	}
	visit(tree, nil)
	return calls
}

func functionOf(n syntax.Node) *resolve.Function {
	var fn any
	switch n := n.(type) {
	case *syntax.DefStmt:
		fn = n.Function
	case *syntax.LambdaExpr:
		fn = n.Function
	}
	f, _ := fn.(*resolve.Function)
	return f
}

// functionsAround returns the functions pos lies in, outermost first.
func functionsAround(tree *syntax.File, pos syntax.Position) []*resolve.Function {
	var around []*resolve.Function
	syntax.Walk(tree, func(n syntax.Node) bool {
		if n == nil {
			return true
		}
		if fn := functionOf(n); fn != nil {
			if start, end := n.Span(); !before(pos, start) && !before(end, pos) {
				around = append(around, fn)
			}
		}
		return true
	})
	return around
}

func before(a, b syntax.Position) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
}

// callSite returns the call at the "(" pos, nil if there is none.
func (r *run) callSite(pos syntax.Position) *callSite {
	if src := r.file.sources[pos.Filename()]; src != nil {
		return src.calls[positionOf(pos)]
	}
	return nil
}

// dropCallee removes the innermost frame if the failure is that its function
// was called with the wrong arguments or recursively: the interpreter reports
// that inside the function, at whatever stands first in it, but people have
// to look at the call. It reports whether it did. Calls with *args or
// **kwargs stay as they are, their number is not known here.
func (r *run) dropCallee(frames starlark.CallStack) (starlark.CallStack, bool) {
	if len(frames) < 2 {
		return frames, false
	}
	caller := r.callSite(frames.At(1).Pos)
	callee := r.functionAt(frames.At(0))
	if caller == nil || callee == nil || accepts(callee, caller.call.Args) && !r.active(callee, frames[:len(frames)-1]) {
		return frames, false
	}
	frames.Pop()
	return frames, true
}

// active reports whether fn has one of frames.
func (r *run) active(fn *resolve.Function, frames starlark.CallStack) bool {
	for _, f := range frames {
		if r.functionAt(f) == fn {
			return true
		}
	}
	return false
}

// functionAt returns the function of a frame by where it is, nil for the top
// level and for builtins.
func (r *run) functionAt(f starlark.CallFrame) *resolve.Function {
	src := r.file.sources[f.Pos.Filename()]
	if src == nil {
		return nil
	}
	around := functionsAround(src.tree, f.Pos)
	for i := len(around) - 1; i >= 0; i-- {
		if around[i].Name == f.Name {
			return around[i]
		}
	}
	return nil
}

// accepts reports whether fn can be called with args; true if that cannot be
// told from the source.
func accepts(fn *resolve.Function, args []syntax.Expr) bool {
	positional, named := 0, make(map[string]bool)
	for _, arg := range args {
		switch arg := arg.(type) {
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				return true
			}
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				named[arg.X.(*syntax.Ident).Name] = true
				continue
			}
		}
		positional++
	}
	keywordOnly := false
	for _, param := range fn.Params {
		name, optional := "", false
		switch param := param.(type) {
		case *syntax.Ident:
			name = param.Name
		case *syntax.BinaryExpr:
			name, optional = param.X.(*syntax.Ident).Name, true
		case *syntax.UnaryExpr: // *, *args, **kwargs
			keywordOnly = true
			continue
		}
		byName := named[name]
		delete(named, name)
		byPosition := !keywordOnly && positional > 0
		if byPosition {
			positional--
		}
		if byName && byPosition || !byName && !byPosition && !optional {
			return false
		}
	}
	return (positional == 0 || fn.HasVarargs) && (len(named) == 0 || fn.HasKwargs)
}

// explainCall words the call of something that is no function under the name
// of a builtin: the usual mistake is a parameter of that name. When the
// innermost frame stands at a call and neither a callee nor a builtin has a
// frame above it, nothing but the call itself can have failed, if it has no
// *args or **kwargs to expand.
func (e *Error) explainCall(s *scope, frames starlark.CallStack) {
	top := frames.At(0)
	site := s.run.callSite(top.Pos)
	if site == nil || hasStars(site.call) || site.within != nil && entered(s.run, frames) {
		return
	}
	callee, ok := site.call.Fn.(*syntax.Ident)
	if !ok {
		return
	}
	binding, ok := callee.Binding.(*resolve.Binding)
	if !ok || binding.Scope == resolve.Predeclared || binding.Scope == resolve.Universal || !s.run.isBuiltin(callee.Name) {
		return
	}
	what := "a variable"
	if binding.First != nil && isParam(s.run.file.sources[top.Pos.Filename()], binding.First) {
		what = "a parameter"
	}
	m := muru.Errorf(muru.KindUsage, "%s is %s here and hides the builtin", callee.Name, what)
	m.Hint, m.Err = "give the "+what[2:]+" another name", e.err
	e.Kind, e.Message, e.Hint, e.err = m.Kind, m.Message, m.Hint, m
}

// entered reports whether the failure may be one of entering the innermost
// function with wrong arguments, which the interpreter also reports without
// a further frame. dropCallee has ruled it out for calls in Starlark with
// plain arguments; what remains are calls with stars, and calls from
// builtins, which are innocent if no argument is required.
func entered(r *run, frames starlark.CallStack) bool {
	if len(frames) == 1 {
		return false // called from Go by us, with arguments that were checked
	}
	if caller := r.callSite(frames.At(1).Pos); caller != nil {
		return hasStars(caller.call)
	}
	fn := r.functionAt(frames.At(0))
	return fn == nil || !accepts(fn, nil)
}

func hasStars(call *syntax.CallExpr) bool {
	for _, arg := range call.Args {
		if u, ok := arg.(*syntax.UnaryExpr); ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) {
			return true
		}
	}
	return false
}

// isParam reports whether the binding occurrence id is a parameter.
func isParam(src *source, id *syntax.Ident) bool {
	if src == nil {
		return false
	}
	for _, fn := range functionsAround(src.tree, id.NamePos) {
		if slices.Contains(paramIdents(fn), id) {
			return true
		}
	}
	return false
}

// paramIdents returns the names of fn's parameters where they are declared.
func paramIdents(fn *resolve.Function) []*syntax.Ident {
	var idents []*syntax.Ident
	for _, param := range fn.Params {
		switch p := param.(type) {
		case *syntax.BinaryExpr:
			param = p.X
		case *syntax.UnaryExpr:
			param = p.X
		}
		if id, ok := param.(*syntax.Ident); ok {
			idents = append(idents, id)
		}
	}
	return idents
}

func (r *run) isBuiltin(name string) bool {
	return r.predeclared.Has(name) || starlark.Universe.Has(name)
}
