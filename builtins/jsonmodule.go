package builtins

import (
	"maps"

	"go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"muru"
	script "muru/starlark"
)

// jsonModule is the library's json, whose functions recurse as deep as a
// value or a text is nested. A text may come from anybody, as the body of a
// server's answer, and the end of a stack is the end of the process: what is
// nested deeper than [script.MaxNesting] is refused.
var jsonModule = makeJSONModule()

func makeJSONModule() *starlarkstruct.Module {
	m := &starlarkstruct.Module{Name: json.Module.Name, Members: maps.Clone(json.Module.Members)}
	for name, wrap := range map[string]func(*starlark.Builtin) *starlark.Builtin{
		"encode": script.Whole, "encode_indent": script.Whole, "decode": shallow, "indent": shallow,
	} {
		original, ok := m.Members[name].(*starlark.Builtin)
		if !ok {
			panic("BUG: the library's json has no " + name)
		}
		m.Members[name] = wrap(original)
	}
	return m
}

// shallow returns a function that refuses a text which is nested too deep and
// otherwise is original, whose first argument is JSON.
func shallow(original *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(original.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, arg := range args[:min(1, len(args))] {
			if text, ok := starlark.AsString(arg); ok && nesting(text) > script.MaxNesting {
				return nil, muru.Errorf(muru.KindFailed, "%s: the text is nested more than %d deep", original.Name(), script.MaxNesting)
			}
		}
		return original.CallInternal(thread, args, kwargs)
	})
}

// nesting returns how deep arrays and objects are nested in a JSON text, as
// far as it is one.
func nesting(text string) (deepest int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest
}
