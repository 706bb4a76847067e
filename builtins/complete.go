package builtins

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// Live are the names that exist now, which texts complete to.
type Live struct {
	Apps     []string
	Releases []string // full names, such as shop@r6
}

// A Scope is what completion knows beside the builtins. The zero value knows
// nothing more.
type Scope struct {
	Variables []string                    // of the session
	Lookup    func(string) starlark.Value // a variable's value, nil if it may not be looked into; may be nil
	Live      Live
}

// maxCandidates bounds an answer; more than that is no help.
const maxCandidates = 500

// Complete completes line at byte pos: the line becomes head + candidate +
// tail. It completes names, keywords inside a call, the words and live names
// that a text can be, and attributes, also of what a call would return, as
// far as the name of the builtin tells. It calls nothing. line may be a block
// of several lines. Candidates are sorted; keywords of a call come first.
func Complete(line string, pos int, scope Scope) (head string, candidates []string, tail string) {
	pos = min(max(pos, 0), len(line))
	at := lookAt(line[:pos])
	var found []string
	switch {
	case at.comment:
	case at.text:
		found = at.texts(scope)
	case at.dotted:
		found = at.attributes(scope)
	default:
		found = at.names(scope)
	}
	for _, c := range found {
		if strings.HasPrefix(c, at.prefix) && c != at.prefix {
			candidates = append(candidates, c)
		}
	}
	return line[:pos-len(at.prefix)], candidates[:min(len(candidates), maxCandidates)], line[pos:]
}

// SignatureAt returns the help of the builtin whose arguments pos is in, ""
// if it is in none: the same text as help(NAME).
func SignatureAt(line string, pos int) string {
	at := lookAt(line[:min(max(pos, 0), len(line))])
	if spec := at.call().spec; spec != nil {
		return spec.help()
	}
	return ""
}

// texts are what the text at the cursor can be.
func (at cursor) texts(scope Scope) []string {
	call := at.call()
	live := func(apps, releases bool) (names []string) {
		if apps {
			names = append(names, scope.Live.Apps...)
		}
		if releases {
			names = append(names, scope.Live.Releases...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if call.spec == nil {
		if call.callee != "" {
			return nil // a function of somebody else's
		}
		return live(true, true)
	}
	p := call.param()
	if p == nil {
		return nil
	}
	typ := p.Type.String()
	if words := wordsOf(typ); words != nil {
		return words
	}
	if p.Name == "timeouts" && call.spec.Name == deploySpec.Name {
		return timeoutKeys
	}
	app := strings.Contains(typ, "app") || strings.Contains(typ, "rollout")
	release := strings.Contains(typ, "release")
	if call.spec.Name == appSpec.Name && p.Name == "name" {
		app = true
	}
	if call.spec.Name == gateSpec.Name && p.Name == "name" {
		return []string{"5xx", "crashes", "p95", "p99", "probe", "queue_wait"}
	}
	return live(app, release)
}

// wordsOf returns the words of an enum by the name of its type, such as
// `"open", "off" or Secret`.
func wordsOf(typ string) []string {
	var words []string
	for i, part := range strings.Split(typ, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		}
	}
	slices.Sort(words)
	return words
}

// names are what a name at the cursor can be.
func (at cursor) names(scope Scope) []string {
	call := at.call()
	var first []string
	if call.spec != nil && call.startsArgument {
		for _, p := range call.spec.Params {
			if !call.given(p.Name) && p.Pass != Variadic {
				first = append(first, p.Name+" = ")
			}
		}
	}
	if call.spec != nil && call.keyword != "" && at.prefix == "" {
		if p := call.spec.param(call.keyword); p != nil {
			if words := wordsOf(p.Type.String()); words != nil {
				for i := range words {
					words[i] = starlark.String(words[i]).String()
				}
				return words
			}
			if p.Type.String() == boolType.String() {
				return []string{"False", "True"}
			}
		}
	}
	if at.prefix == "" && len(first) > 0 {
		return first
	}
	names := append(Names(), "json", "math", "struct")
	names = append(names, scope.Variables...)
	names = append(names, starlark.Universe.Keys()...)
	names = append(names, "and", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "return")
	slices.Sort(names)
	return append(first, slices.Compact(names)...)
}

// attributes are what the name behind the dot can be.
func (at cursor) attributes(scope Scope) []string {
	shape := at.shape(scope)
	switch {
	case shape.value != nil:
		if v, ok := shape.value.(starlark.HasAttrs); ok {
			names := v.AttrNames()
			slices.Sort(names)
			return names
		}
	case shape.kind != nil && !shape.list:
		return (&Record{kind: shape.kind}).AttrNames()
	case shape.typ == "Duration":
		return Duration(0).AttrNames()
	case shape.typ == "Time":
		return Time{}.AttrNames()
	}
	return nil
}

// A shape is what is known of an expression without evaluating it: a value,
// or the type it will have.
type shape struct {
	value starlark.Value
	kind  *kind
	list  bool
	typ   string // of a value of no kind
}

// shape follows the names, calls and indexes in front of the dot.
func (at cursor) shape(scope Scope) shape {
	parts := at.chain
	if len(parts) == 0 {
		return shape{}
	}
	var s shape
	first := parts[0]
	switch {
	case slices.Contains(scope.Variables, first.name):
		if scope.Lookup != nil {
			s.value = scope.Lookup(first.name)
		}
	case first.name == "json" || first.name == "math":
		s.value = moduleNamed(first.name)
	default:
		spec := SpecNamed(first.name)
		if spec == nil || !first.called {
			return shape{}
		}
		s = shapeOf(spec.Returns, first.arguments)
	}
	if first.indexed {
		s = s.element()
	}
	for _, part := range parts[1:] {
		s = s.attr(part.name)
		if part.called {
			return shape{}
		}
		if part.indexed {
			s = s.element()
		}
	}
	return s
}

// shapeOf reads a type as specs and attributes name it: "list of App, or
// App", "Release or None". Of several, the list is what a call without
// arguments returns.
func shapeOf(typ string, arguments bool) shape {
	for _, option := range strings.Split(strings.ReplaceAll(typ, ", or ", " or "), " or ") {
		name, list := strings.CutPrefix(option, "list of ")
		if list && arguments && strings.Contains(typ, " or ") {
			continue
		}
		for _, k := range kinds {
			if k.name == name {
				return shape{kind: k, list: list}
			}
		}
		if name == "Duration" || name == "Time" {
			return shape{typ: name}
		}
	}
	return shape{}
}

func (s shape) attr(name string) shape {
	if r, ok := s.value.(*Record); ok {
		v, _ := r.Attr(name)
		return shape{value: v}
	}
	if s.kind == nil || s.list {
		return shape{}
	}
	if i := s.kind.index(name); i >= 0 {
		return shapeOf(s.kind.attrs[i].typ, false)
	}
	return shape{}
}

// element is what an index gives.
func (s shape) element() shape {
	if list, ok := s.value.(*starlark.List); ok && list.Len() > 0 {
		return shape{value: list.Index(0)}
	}
	if s.kind != nil && s.list {
		return shape{kind: s.kind}
	}
	return shape{}
}
