package starlark

import (
	"math/big"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A parameter is a parameter of a function as the command line sees it.
type parameter struct {
	Name        string
	Default     starlark.Value // nil if required, or if only executing the file would tell
	Required    bool
	KeywordOnly bool
	Variadic    bool // *args
	Keywords    bool // **kwargs
}

// flag returns the name as it is written on the command line.
func (p parameter) flag() string { return "--" + strings.ReplaceAll(p.Name, "_", "-") }

// placeholder returns the name as help shows a value for it.
func (p parameter) placeholder() string { return strings.ToUpper(p.Name) }

// known reports whether the type of the parameter is.
func (p parameter) known() bool { return p.Required || p.Variadic || p.Keywords || p.Default != nil }

// functionParams returns the parameters of fn.
func functionParams(fn *starlark.Function) []parameter {
	n := fn.NumParams()
	named := n
	if fn.HasKwargs() {
		named--
	}
	if fn.HasVarargs() {
		named--
	}
	params := make([]parameter, 0, n)
	for i := range n {
		name, _ := fn.Param(i)
		p := parameter{Name: name}
		switch {
		case i < named:
			p.Default = fn.ParamDefault(i)
			p.Required = p.Default == nil
			p.KeywordOnly = i >= named-fn.NumKwonlyParams()
		case i == named && fn.HasVarargs():
			p.Variadic = true
		default:
			p.Keywords = true
		}
		params = append(params, p)
	}
	return params
}

// definedParams returns the parameters of a def that was not executed.
// Defaults that are no literals are not known.
func definedParams(def *syntax.DefStmt) []parameter {
	var params []parameter
	keywordOnly := false
	for _, expr := range def.Params {
		p := parameter{KeywordOnly: keywordOnly}
		switch expr := expr.(type) {
		case *syntax.Ident:
			p.Name, p.Required = expr.Name, true
		case *syntax.BinaryExpr:
			p.Name = expr.X.(*syntax.Ident).Name
			p.Default = literal(expr.Y)
		case *syntax.UnaryExpr:
			keywordOnly = true
			if expr.X == nil {
				continue // a bare *
			}
			p = parameter{Name: expr.X.(*syntax.Ident).Name, Variadic: expr.Op == syntax.STAR, Keywords: expr.Op == syntax.STARSTAR}
		}
		params = append(params, p)
	}
	return params
}

// literal returns the value of an expression that is made of literals alone,
// nil for any other.
func literal(expr syntax.Expr) starlark.Value {
	switch expr := expr.(type) {
	case *syntax.ParenExpr:
		return literal(expr.X)
	case *syntax.Literal:
		switch v := expr.Value.(type) {
		case string:
			if expr.Token == syntax.STRING {
				return starlark.String(v)
			}
		case int64:
			return starlark.MakeInt64(v)
		case *big.Int:
			return starlark.MakeBigInt(v)
		case float64:
			return starlark.Float(v)
		}
	case *syntax.Ident:
		switch expr.Name {
		case "True", "False":
			return starlark.Bool(expr.Name == "True")
		case "None":
			return starlark.None
		}
	case *syntax.UnaryExpr:
		if x := literal(expr.X); x != nil && expr.Op == syntax.MINUS {
			v, err := starlark.Unary(expr.Op, x)
			if err == nil {
				return v
			}
		}
	case *syntax.ListExpr:
		if elems, ok := literals(expr.List); ok {
			return starlark.NewList(elems)
		}
	case *syntax.TupleExpr:
		if elems, ok := literals(expr.List); ok {
			return starlark.Tuple(elems)
		}
	case *syntax.DictExpr:
		if len(expr.List) == 0 {
			return new(starlark.Dict)
		}
	}
	return nil
}

func literals(exprs []syntax.Expr) ([]starlark.Value, bool) {
	values := make([]starlark.Value, 0, len(exprs))
	for _, expr := range exprs {
		v := literal(expr)
		if v == nil {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}
