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
	rest, err := c.bindPositional(args)
	if err != nil {
		return err
	}
	for _, kw := range kwargs {
		name := string(kw[0].(starlark.String))
		i := c.spec.index(name)
		if i < 0 || c.spec.Params[i].Pass == Variadic {
			return c.unknownKeyword(name)
		}
		if c.given[i] != nil {
			return usagef("%s is given twice", name)
		}
		c.given[i] = kw[1]
	}
	for i := range c.spec.Params {
		if err := c.bind(i, rest); err != nil {
			return err
		}
	}
	return nil
}

// bindPositional gives arguments to nouns in order and returns those that are
// left for a variadic parameter.
func (c *Call) bindPositional(args starlark.Tuple) (rest starlark.Tuple, err error) {
	next := 0
	for i, p := range c.spec.Params {
		switch p.Pass {
		case Variadic:
			return args, nil
		case Positional:
			if next < len(args) {
				c.given[i] = args[next]
			}
			next++
		case ByName:
		}
	}
	if len(args) > next {
		return nil, c.tooMany(len(args))
	}
	return nil, nil
}

// bind converts one argument, or takes the default.
func (c *Call) bind(i int, rest starlark.Tuple) error {
	p, v := &c.spec.Params[i], c.given[i]
	if p.Pass == Variadic {
		c.args[i] = rest
		return nil
	}
	if v == nil {
		if p.Required() {
			return usagef("%s is missing", p.Name).WithHint("%s", c.spec.Signature())
		}
		v = p.Default
	}
	if v == starlark.None && p.Default == starlark.None {
		return nil // not set
	}
	converted, err := p.Type.Convert(c, v)
	if err != nil {
		return at(p.Name, err)
	}
	c.args[i] = converted
	return nil
}

func (c *Call) unknownKeyword(name string) error {
	err := usagef("there is no parameter %s", name)
	if near := muru.Suggest(name, c.spec.names()); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("%s", c.spec.Signature())
}

func (c *Call) tooMany(n int) error {
	var nouns []string
	for _, p := range c.spec.Params {
		if p.Pass == Positional {
			nouns = append(nouns, p.Name)
		}
	}
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
