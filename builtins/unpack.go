package builtins

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

// unpack binds the arguments of a call to the parameters of its Spec and
// converts each by its type. Errors are of kind usage (or of the type's kind)
// and begin with the parameter's name.
func (c *Call) unpack(args starlark.Tuple, kwargs []starlark.Tuple) error {
	given := make(map[string]starlark.Value, len(args)+len(kwargs))
	rest, err := c.bindPositional(args, given)
	if err != nil {
		return err
	}
	for _, kw := range kwargs {
		name := string(kw[0].(starlark.String))
		p := c.spec.param(name)
		if p == nil || p.Pass == Variadic {
			return c.unknownKeyword(name)
		}
		if _, twice := given[name]; twice {
			return usagef("%s is given twice", name)
		}
		given[name] = kw[1]
	}
	for _, p := range c.spec.Params {
		if err := c.bind(p, given[p.Name], rest); err != nil {
			return err
		}
	}
	return nil
}

// bindPositional gives arguments to nouns in order and returns those that are
// left for a variadic parameter.
func (c *Call) bindPositional(args starlark.Tuple, given map[string]starlark.Value) (rest starlark.Tuple, err error) {
	var nouns []string
	for _, p := range c.spec.Params {
		switch p.Pass {
		case Variadic:
			return args, nil
		case Positional:
			nouns = append(nouns, p.Name)
		case ByName:
		}
	}
	if len(args) > len(nouns) {
		return nil, c.tooMany(len(args), nouns)
	}
	for i, arg := range args {
		given[nouns[i]] = arg
	}
	return nil, nil
}

// bind converts one argument, or takes the default.
func (c *Call) bind(p Param, v starlark.Value, rest starlark.Tuple) error {
	if p.Pass == Variadic {
		c.args[p.Name] = rest
		return nil
	}
	if v == nil {
		if p.Required() {
			return usagef("%s is missing", p.Name).WithHint("%s", c.spec.Signature())
		}
		v = p.Default
	} else {
		c.given[p.Name] = true
	}
	if v == starlark.None && p.Default == starlark.None {
		return nil // not set
	}
	converted, err := p.Type.Convert(c, v)
	if err != nil {
		return at(p.Name, err)
	}
	c.args[p.Name] = converted
	return nil
}

func (c *Call) unknownKeyword(name string) error {
	err := usagef("there is no parameter %s", name)
	if near := muru.Suggest(name, c.spec.names()); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("%s", c.spec.Signature())
}

func (c *Call) tooMany(n int, nouns []string) error {
	for _, p := range c.spec.Params {
		if p.Pass == ByName {
			return usagef("%d arguments by position, takes %s", n, countNouns(nouns)).
				WithHint("everything after them is given by name, as in %s = %s", p.Name, sample(p))
		}
	}
	return usagef("%d arguments by position, takes %s", n, countNouns(nouns)).WithHint("%s", c.spec.Signature())
}

func countNouns(nouns []string) string {
	if len(nouns) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", len(nouns), strings.Join(nouns, ", "))
}

func sample(p Param) string {
	if p.Required() || p.Default == starlark.None {
		return "..."
	}
	return p.Default.String()
}

// usagef makes an error of kind usage.
func usagef(format string, args ...any) *muru.Error {
	return muru.Errorf(muru.KindUsage, format, args...)
}

// at puts where before an error's message: at("steps", at("[1]", err)) gives
// "steps[1]: ...".
func at(where string, err error) error {
	m := asMuru(err)
	if strings.HasPrefix(m.Message, "[") {
		m.Message = where + m.Message
	} else {
		m.Message = where + ": " + m.Message
	}
	return m
}

// asMuru returns err as a muru.Error of its own, which the caller may change:
// kind, hint and details of the first one in err's chain, kind failed without.
func asMuru(err error) *muru.Error {
	out := &muru.Error{Message: err.Error(), Err: err}
	if m, ok := errors.AsType[*muru.Error](err); ok {
		out.Kind, out.Hint, out.Detail, out.Rollout = m.Kind, m.Hint, m.Detail, m.Rollout
	}
	return out
}
