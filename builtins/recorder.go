package builtins

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"muru"
	script "muru/starlark"
)

// A Recorder keeps the calls of a session that did something (change, sh and
// http) and succeeded, as the source of a recipe that does it again. What is
// numbered by this installation is written as a name there: the release that
// a saved deploy made is the variable it is assigned to, and a rollout is its
// app's. The zero value is ready; its methods are safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex // guards what follows
	calls    []*savedCall
	releases map[string]*savedCall // by the full name of the release that was made
	loads    map[*load]*savedCall
	gates    map[*Record]string // the call that made each
	helpers  []helper           // what function arguments need, in order
}

// A savedCall is one call as source.
type savedCall struct {
	text     string
	variable string // "" if its result can be none
	used     bool   // by a later call
}

// A helper is a variable or function of the session that a call needs.
type helper struct{ name, text string }

// Calls returns how many calls are kept.
func (r *Recorder) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// Source returns the recipe, "" if there is nothing to do again.
func (r *Recorder) Source() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		return ""
	}
	var b strings.Builder
	for _, h := range r.helpers {
		b.WriteString(h.text + "\n\n")
	}
	b.WriteString("def main():\n")
	for _, c := range r.calls {
		b.WriteString("    ")
		if c.used {
			b.WriteString(c.variable + " = ")
		}
		b.WriteString(strings.ReplaceAll(c.text, "\n", "\n    ") + "\n")
	}
	return b.String()
}

// record keeps a call that succeeded with v. A function that wait() polls
// only looks, however often.
func (r *Recorder) record(c *Call, args starlark.Tuple, kwargs []starlark.Tuple, v starlark.Value) {
	e := c.spec.Effect
	isGate := c.spec.Name == gateSpec.Name
	if !isGate && e != Change && e != Shell && e != HTTP || c.ctx.Value(pollKey{}) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	call := &savedCall{text: r.source(c, args, kwargs)}
	result, _ := v.(*Record)
	if isGate {
		if r.gates == nil {
			r.gates = make(map[*Record]string)
		}
		r.gates[result] = call.text
		return
	}
	r.calls = append(r.calls, call)
	switch {
	case result == nil:
	case c.spec.Name == deploySpec.Name:
		call.variable = strings.NewReplacer("@", "_", "-", "_").Replace(result.text)
		if r.releases == nil {
			r.releases = make(map[string]*savedCall)
		}
		r.releases[result.text] = call
	default:
		if l, ok := result.native.(*load); ok && c.spec.Name == trafficSpec.Name {
			if r.loads == nil {
				r.loads = make(map[*load]*savedCall)
			}
			call.variable = fmt.Sprintf("load_%d", len(r.loads)+1)
			r.loads[l] = call
		}
	}
}

// source writes the call as it was made.
func (r *Recorder) source(c *Call, args starlark.Tuple, kwargs []starlark.Tuple) string {
	var parts []string
	for i, v := range args {
		var p Param
		if i < len(c.spec.Params) {
			p = c.spec.Params[i]
		}
		parts = append(parts, r.write(c, p, v))
	}
	for _, kw := range kwargs {
		name := string(kw[0].(starlark.String))
		parts = append(parts, name+" = "+r.write(c, *c.spec.param(name), kw[1]))
	}
	return c.spec.Name + "(" + strings.Join(parts, ", ") + ")"
}

// write writes a value of parameter p as an expression.
func (r *Recorder) write(c *Call, p Param, v starlark.Value) string {
	switch v := v.(type) {
	case starlark.String:
		return r.writeText(c, p, v)
	case starlark.Int:
		if n, ok := v.Int64(); ok && p.Type != nil && strings.Contains(p.Type.String(), "rollout") && c.set != nil {
			if rollout, err := c.engine().Rollout(int(n)); err == nil {
				return starlark.String(rollout.Candidate.App).String()
			}
		}
	case Duration, Time:
		return starlark.String(v.String()).String()
	case Secret:
		return "secret(" + starlark.String(v.name).String() + ")"
	case *Record:
		return r.writeRecord(v)
	case *starlark.List:
		return "[" + r.writeAll(c, p, v) + "]"
	case starlark.Tuple:
		if len(v) == 1 {
			return "(" + r.writeAll(c, p, v) + ",)"
		}
		return "(" + r.writeAll(c, p, v) + ")"
	case *starlark.Dict:
		var items []string
		for _, item := range v.Items() {
			items = append(items, r.write(c, p, item[0])+": "+r.write(c, p, item[1]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	case *starlark.Function:
		return r.writeFunction(c, v)
	case *starlark.Builtin:
		return v.Name()
	}
	return v.String()
}

func (r *Recorder) writeAll(c *Call, p Param, v starlark.Iterable) string {
	var elems []string
	for x := range starlark.Elements(v) {
		elems = append(elems, r.write(c, p, x))
	}
	return strings.Join(elems, ", ")
}

// writeText writes a text, or the variable for the name of a release that a
// saved call made: "shop@r6", and "r6" where the call names the app.
func (r *Recorder) writeText(c *Call, p Param, v starlark.String) string {
	if p.Type == nil || !strings.Contains(p.Type.String(), "release") {
		return v.String()
	}
	name := string(v)
	if !strings.Contains(name, "@") {
		app := ""
		if c.isSet("app") {
			app = arg[string](c, "app")
		}
		if c.isSet("target") {
			t := arg[target](c, "target")
			app = t.app + t.release.App
		}
		name = app + "@" + name
	}
	if made := r.releases[name]; made != nil {
		made.used = true
		return made.variable
	}
	return v.String()
}

func (r *Recorder) writeRecord(v *Record) string {
	if text, ok := r.gates[v]; ok {
		return text
	}
	switch native := v.native.(type) {
	case muru.Release:
		if made := r.releases[v.text]; made != nil {
			made.used = true
			return made.variable
		}
	case muru.Rollout:
		return starlark.String(native.Candidate.App).String()
	case *load:
		if made := r.loads[native]; made != nil {
			made.used = true
			return made.variable
		}
	}
	return starlark.String(v.text).String()
}

// writeFunction writes a lambda as it was typed, and a def as its name; what
// they need of the session becomes helpers in front of main. A variable that
// changed between two calls has there the value it had at the first.
func (r *Recorder) writeFunction(c *Call, fn *starlark.Function) string {
	text, uses, ok := script.FunctionText(fn)
	if !ok {
		return fn.Name()
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		r.need(c, name, uses[name])
	}
	if fn.Name() == "lambda" {
		return text
	}
	r.addHelper(fn.Name(), dedentCode(text, fn))
	return fn.Name()
}

// need makes a variable of the session a helper.
func (r *Recorder) need(c *Call, name string, v starlark.Value) {
	if v == nil || SpecNamed(name) != nil || slices.ContainsFunc(r.helpers, func(h helper) bool { return h.name == name }) {
		return
	}
	text := r.write(c, Param{}, v)
	if text != name { // a def has added itself
		r.addHelper(name, name+" = "+text)
	}
}

func (r *Recorder) addHelper(name, text string) {
	if !slices.ContainsFunc(r.helpers, func(h helper) bool { return h.name == name }) {
		r.helpers = append(r.helpers, helper{name, text})
	}
}

// dedentCode takes the indentation of a def in a block off its lines.
func dedentCode(text string, fn *starlark.Function) string {
	margin := strings.Repeat(" ", max(0, int(fn.Position().Col)-1))
	return strings.ReplaceAll(text, "\n"+margin, "\n")
}
