package builtins

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

var helpSpec = (&Spec{
	Name:    "help",
	Group:   GroupLanguage,
	Summary: "explains a builtin, a value or a function; without argument it lists the builtins",
	Doc:     "A builtin: its signature, parameters, errors and an example. A value: its attributes. A function of a file: its docstring.",
	Params:  []Param{{Name: "x", Type: anyType, Pass: Positional, Default: starlark.None, Doc: "a builtin, its name, a value, or a function of yours"}},
	Returns: "None",
	Errors:  []string{"not_found: there is no such name"},
	Example: `help(deploy)`,
	Fn: func(c *Call) (starlark.Value, error) {
		if !c.isSet("x") {
			c.print(helpAll(c.set.specs) + "\nhelp(NAME) says more, as in help(deploy)")
			return nil, nil
		}
		text, err := helpFor(c.set.specs, arg[starlark.Value](c, "x"))
		if err != nil {
			return nil, err
		}
		c.print(text)
		return nil, nil
	},
}).check()

// Help returns what help(x) prints, for a name; for completion and the command
// line. It errors with kind not_found.
func Help(name string) (string, error) {
	return helpNamed(Specs(), name, "muru help lists the builtins")
}

// HelpAll lists the builtins by group, a line each.
func HelpAll() string { return helpAll(Specs()) }

func helpAll(specs []*Spec) string {
	var b strings.Builder
	width := 0
	for _, s := range specs {
		width = max(width, len(s.Name))
	}
	for _, group := range groups {
		fmt.Fprintf(&b, "%s\n", group)
		for _, s := range specs {
			if s.Group == group {
				fmt.Fprintf(&b, "  %-*s %s\n", width, s.Name, s.Summary)
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func helpFor(specs []*Spec, x starlark.Value) (string, error) {
	switch x := x.(type) {
	case starlark.String:
		return helpNamed(specs, string(x), "help() lists the builtins")
	case *starlark.Builtin:
		return helpBuiltin(specs, x), nil
	case *starlark.Function:
		return helpFunction(x), nil
	case *Record:
		return x.kind.help(), nil
	case Duration:
		return helpDuration, nil
	case Time:
		return helpTime, nil
	}
	return fmt.Sprintf("a %s of Starlark", x.Type()), nil
}

// helpBuiltin explains a builtin of ours, a method of a value, or one of
// Starlark's own.
func helpBuiltin(specs []*Spec, x *starlark.Builtin) string {
	methods := []*Spec{timeFormat, timeInLocation}
	if r, ok := x.Receiver().(*Record); ok {
		methods = r.kind.methods
	}
	if x.Receiver() != nil {
		specs = methods
	}
	for _, s := range specs {
		if s.Name == x.Name() {
			return s.help()
		}
	}
	return x.Name() + ": a function of Starlark"
}

// helpNamed explains what has a name; otherwise is the hint if nothing has one
// like it.
func helpNamed(specs []*Spec, name, otherwise string) (string, error) {
	var names []string
	for _, s := range specs {
		if s.Name == name {
			return s.help(), nil
		}
		names = append(names, s.Name)
	}
	for _, k := range kinds {
		if k.name == name {
			return k.help(), nil
		}
		names = append(names, k.name)
	}
	switch name {
	case "Duration":
		return helpDuration, nil
	case "Time":
		return helpTime, nil
	}
	err := muru.Errorf(muru.KindNotFound, "there is nothing called %q", name)
	if near := muru.Suggest(name, names); near != "" {
		return "", err.WithHint("did you mean %s?", near)
	}
	return "", err.WithHint("%s", otherwise)
}

// help words a Spec for the terminal.
func (s *Spec) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", wrapSignature(s), s.Summary)
	if s.Doc != "" {
		b.WriteString("\n" + indent(s.Doc) + "\n")
	}
	if len(s.Params) > 0 {
		b.WriteString("\n")
		width := 0
		for _, p := range s.Params {
			width = max(width, len(p.Name))
		}
		for _, p := range s.Params {
			fmt.Fprintf(&b, "  %-*s %s\n", width, p.Name, p.Doc)
		}
	}
	if len(s.Errors) > 0 {
		b.WriteString("\n  raises\n")
		for _, e := range s.Errors {
			b.WriteString("    " + e + "\n")
		}
	}
	b.WriteString("\n  example\n" + indent(indent(s.Example)))
	return b.String()
}

// help words a kind of value for the terminal.
func (k *kind) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", k.name, k.doc)
	width := 0
	for _, a := range k.attrs {
		width = max(width, len(a.name))
	}
	for _, a := range k.attrs {
		fmt.Fprintf(&b, "\n  %-*s %s: %s", width, a.name, a.typ, a.doc)
	}
	for _, m := range k.methods {
		fmt.Fprintf(&b, "\n  %s\n    %s", m.Signature(), m.Summary)
	}
	return b.String()
}

func helpFunction(fn *starlark.Function) string {
	var params []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		if d := fn.ParamDefault(i); d != nil {
			name += " = " + d.String()
		}
		params = append(params, name)
	}
	text := fmt.Sprintf("%s(%s)", fn.Name(), strings.Join(params, ", "))
	if doc := strings.TrimSpace(fn.Doc()); doc != "" {
		text += "\n" + indent(dedent(doc))
	}
	return text
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n  "), "\n  \n", "\n\n")
}

// dedent removes the margin that the lines after the first have in common.
func dedent(doc string) string {
	first, rest, ok := strings.Cut(doc, "\n")
	if !ok {
		return doc
	}
	margin := -1
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) != "" {
			spaces := len(line) - len(strings.TrimLeft(line, " "))
			if margin < 0 || spaces < margin {
				margin = spaces
			}
		}
	}
	out := first
	for line := range strings.SplitSeq(rest, "\n") {
		out += "\n" + line[min(max(margin, 0), len(line)):]
	}
	return out
}

const helpDuration = `Duration: a length of time, such as 1m30s
  seconds and milliseconds are floats. Durations add and subtract, are multiplied and divided by
  numbers, divide by each other to a float, and compare. duration("1m30s") makes one.`

const helpTime = `Time: a point in time
  year month day hour minute second weekday unix are its parts; format(layout) prints it as the
  moment 2006-01-02 15:04:05 would print in that layout; in_location(name) is the same moment in
  another zone. A Time and a Duration add, two Times subtract to a Duration. now() is one.`
