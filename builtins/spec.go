package builtins

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
)

// Effect says what a call does to the world. The zero value is Pure.
type Effect uint8

// The effects, exactly one for each builtin. No effect but Pure is allowed
// while a module is being loaded or in a gate's function.
const (
	Pure    Effect = iota // nothing: executed again whenever it is needed
	Observe               // reads
	Wait                  // takes time
	Change                // changes an app, a release, a rollout or a file
	Shell                 // runs a command
	HTTP                  // sends requests
	Secrets               // reads a secret
)

func (e Effect) String() string {
	return [...]string{"pure", "observe", "wait", "change", "sh", "http", "secret"}[e]
}

// The groups of the reference, in its order.
const (
	GroupTraffic  = "Shape of traffic"
	GroupRollouts = "Rollouts"
	GroupLooking  = "Looking"
	GroupWorld    = "World"
	GroupLanguage = "Language"
)

var groups = []string{GroupTraffic, GroupRollouts, GroupLooking, GroupWorld, GroupLanguage}

// A Spec is the only description of a builtin, or of a method of a value.
type Spec struct {
	Name    string
	Group   string
	Summary string // one sentence, lower case, no full stop
	Doc     string // paragraphs; more than the summary says
	Params  []Param
	Returns string   // type as the signature shows it
	Errors  []string // "kind: when"
	Example string   // a call that runs as it stands, one or more lines
	Effect  Effect
	Fn      func(*Call) (starlark.Value, error)
}

// Passing says how an argument may be given. The zero value is ByName, so
// that what is not thought about is keyword-only.
type Passing uint8

// The ways of giving an argument.
const (
	ByName     Passing = iota // keyword only
	Positional                // a noun: by position or by name
	Variadic                  // all further arguments by position; print only
)

// A Param is one parameter of a Spec.
type Param struct {
	Name    string
	Type    Type
	Doc     string
	Pass    Passing
	Default starlark.Value // nil: required. None: not set, and None may be given
}

// Required reports whether a call must give the parameter.
func (p Param) Required() bool { return p.Default == nil && p.Pass != Variadic }

// text returns the parameter as a signature shows it.
func (p Param) text() string {
	switch {
	case p.Pass == Variadic:
		return "*" + p.Name
	case p.Required():
		return p.Name
	default:
		return p.Name + " = " + p.Default.String()
	}
}

// Signature returns the call as the reference shows it:
//
//	deploy(app, source = None, *, hold = False) -> Release
func (s *Spec) Signature() string {
	var parts []string
	starred := false
	for _, p := range s.Params {
		if p.Pass == ByName && !starred {
			parts = append(parts, "*")
		}
		starred = starred || p.Pass != Positional
		parts = append(parts, p.text())
	}
	return fmt.Sprintf("%s(%s) -> %s", s.Name, strings.Join(parts, ", "), s.Returns)
}

// param returns the parameter called name, nil if there is none.
func (s *Spec) param(name string) *Param {
	if i := s.index(name); i >= 0 {
		return &s.Params[i]
	}
	return nil
}

// index is where the parameter of that name is, -1 without one.
func (s *Spec) index(name string) int {
	for i := range s.Params {
		if s.Params[i].Name == name {
			return i
		}
	}
	return -1
}

func (s *Spec) names() []string {
	names := make([]string, len(s.Params))
	for i, p := range s.Params {
		names[i] = p.Name
	}
	return names
}

// check panics on a Spec that no call could use, which only a change of this
// package can cause.
func (s *Spec) check() *Spec {
	optional := false
	for _, p := range s.Params {
		if p.Type == nil || p.Doc == "" {
			panic("BUG: " + s.Name + ": parameter " + p.Name + " has no type or no doc")
		}
		if p.Pass == Positional && optional && p.Required() {
			panic("BUG: " + s.Name + ": required " + p.Name + " after an optional noun")
		}
		optional = optional || p.Default != nil
	}
	if s.Fn == nil {
		panic("BUG: " + s.Name + " has no function")
	}
	return s
}
