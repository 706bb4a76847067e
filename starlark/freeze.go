package starlark

import (
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Freeze freezes values that another thread will see and, for functions,
// lists and tuples of them, the globals of their module, too: a function
// reaches those by name. It is called by the thread that made the values, or
// while that waits.
func Freeze(values ...starlark.Value) {
	for _, v := range values {
		switch v := v.(type) {
		case *starlark.Function:
			freezeFunction(v)
		case *starlark.List:
			for i := range v.Len() {
				if fn, ok := v.Index(i).(*starlark.Function); ok {
					freezeFunction(fn)
				}
			}
		case starlark.Tuple:
			for _, elem := range v {
				if fn, ok := elem.(*starlark.Function); ok {
					freezeFunction(fn)
				}
			}
		}
		v.Freeze()
	}
}

// freezeFunction freezes fn and the globals of its module once. The lock
// keeps branches that start at the same time from freezing what they share
// at the same time; a function that was frozen by its maker is not looked at
// again, for its maker may be assigning globals by then.
func freezeFunction(fn *starlark.Function) {
	r := runOf(fn)
	if r == nil {
		fn.Freeze()
		fn.Globals().Freeze()
		return
	}
	r.handed.Lock()
	defer r.handed.Unlock()
	r.handed.freeze(r, fn)
}

// freeze freezes fn and what it reaches by name: the globals of its module
// and, in a session, the variables of it that its input uses. h is locked.
func (h *handedOver) freeze(r *run, fn *starlark.Function) {
	if h.functions[fn] {
		return
	}
	h.functions[fn] = true
	fn.Freeze()
	fn.Globals().Freeze()
	src := r.file.sources[fn.Position().Filename()]
	if h.session == nil || src == nil || !src.input {
		return
	}
	h.session.seal(fn.Module().Predeclared())
	for name := range src.uses {
		if v := fn.Module().Predeclared()[name]; v != nil {
			h.freezeReached(r, v, 0)
		}
	}
}

// freezeReached freezes v and the functions in it, however deep they lie. h
// is locked.
func (h *handedOver) freezeReached(r *run, v starlark.Value, depth int) {
	v.Freeze() // what is frozen cannot become a cycle any more, depth ends those there are
	switch v := v.(type) {
	case *starlark.Function:
		if runOf(v) != nil {
			h.freeze(r, v)
		}
	case starlark.IterableMapping:
		if depth < maxDepth {
			for _, item := range v.Items() {
				h.freezeReached(r, item[1], depth+1)
			}
		}
	case starlark.Indexable:
		if _, text := v.(starlark.String); text || depth >= maxDepth {
			return
		}
		if _, isRange := v.(rangeValue); isRange {
			return
		}
		for i := range v.Len() {
			h.freezeReached(r, v.Index(i), depth+1)
		}
	}
}

// Rebound returns the name of a variable of an enclosing function that fn
// uses and that is assigned in more than one place or in a loop, "" if there
// is none. Freezing makes values immutable, not variables: calling such a
// function on another thread while its maker goes on is a data race, and
// what it computes would depend on chance.
func Rebound(fn *starlark.Function) string {
	r := runOf(fn)
	if r == nil {
		return ""
	}
	src := r.file.sources[fn.Position().Filename()]
	if src == nil {
		return ""
	}
	if name := src.reboundHere(fn); name != "" {
		return name
	}
	for i := range fn.NumFreeVars() {
		variable, _ := fn.FreeVar(i)
		if src.assignments(variable.Pos) > 1 {
			return variable.Name
		}
	}
	return ""
}

// assignments counts the places that bind the variable whose first binding
// is at pos; one in a loop counts twice.
func (src *source) assignments(pos syntax.Position) int {
	count := 0
	var visit func(n syntax.Node, weight int)
	bind := func(target syntax.Expr, weight int) {
		syntax.Walk(target, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok {
				if b, ok := id.Binding.(*resolve.Binding); ok && b.First != nil && b.First.NamePos == pos {
					count += weight
				}
			}
			return true
		})
	}
	visit = func(n syntax.Node, weight int) {
		syntax.Walk(n, func(c syntax.Node) bool {
			switch c := c.(type) {
			case *syntax.AssignStmt:
				bind(c.LHS, weight)
			case *syntax.DefStmt:
				bind(c.Name, weight)
				if c != n {
					visit(c, 1) // its own variables are new at each call
					return false
				}
			case *syntax.ForClause:
				bind(c.Vars, 2)
			case *syntax.ForStmt:
				bind(c.Vars, 2)
				if c != n {
					visit(c, 2)
					return false
				}
			}
			return true
		})
	}
	for _, fn := range functionsAround(src.tree, pos) {
		for _, id := range paramIdents(fn) {
			bind(id, 1)
		}
	}
	visit(src.tree, 1)
	return count
}
