package builtins

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A kind is a type of record: its name, attributes, methods and columns, as
// the reference lists them.
type kind struct {
	name    string
	doc     string
	attrs   []attr
	methods []*Spec
	columns []string // nil: it prints as text, not as a table
	byName  bool     // hashes and compares by its short form
	lines   bool     // its short form is its whole form, a line or more
}

// An attr is one attribute of a kind.
type attr struct{ name, typ, doc string }

func (k *kind) index(name string) int {
	return slices.IndexFunc(k.attrs, func(a attr) bool { return a.name == name })
}

// A Record is a value with attributes: App, Release, Rollout and so on. It is
// an immutable snapshot, safe for concurrent use. App, Release and Rollout
// hash and compare by name, the others only are equal to themselves.
type Record struct {
	kind   *kind
	native any                     // the muru value it shows
	text   string                  // the short form; empty: native's String, for those that are made often
	values []starlark.Value        // parallel to kind.attrs
	make   func() []starlark.Value // makes values at their first use; nil: they are there
	once   sync.Once               // of make
	rows   [][]string              // parallel to kind.columns; one, except for windows and traffic
}

// record makes a value of kind k; values are those of k.attrs in order. An
// empty text is made from native when it is asked for.
func (k *kind) record(native any, text string, rows [][]string, values ...starlark.Value) *Record {
	if len(values) != len(k.attrs) {
		panic(fmt.Sprintf("BUG: %s has %d attributes, given %d", k.name, len(k.attrs), len(values)))
	}
	for _, v := range values {
		v.Freeze()
	}
	return &Record{kind: k, native: native, text: text, rows: rows, values: values}
}

// later is record for a value that is made often and whose attributes are
// seldom asked for. What values is made from must not change.
func (k *kind) later(native fmt.Stringer, rows [][]string, values func() []starlark.Value) *Record {
	return &Record{kind: k, native: native, rows: rows, make: values}
}

// attrs returns the values of the attributes.
func (r *Record) attrs() []starlark.Value {
	if r.make != nil {
		r.once.Do(func() {
			r.values = r.make()
			for _, v := range r.values {
				v.Freeze()
			}
		})
	}
	return r.values
}

var (
	_ starlark.HasAttrs   = (*Record)(nil)
	_ starlark.Comparable = (*Record)(nil)
	_ json.Marshaler      = (*Record)(nil)
)

// String returns the short form.
func (r *Record) String() string {
	if s, ok := r.native.(fmt.Stringer); ok && r.text == "" {
		return s.String()
	}
	return r.text
}

func (r *Record) Type() string         { return r.kind.name }
func (r *Record) Freeze()              {}
func (r *Record) Truth() starlark.Bool { return true }

// Native returns the muru value the record is a snapshot of, such as a
// muru.Rollout.
func (r *Record) Native() any { return r.native }

// Hash is that of the name, for those that have one.
func (r *Record) Hash() (uint32, error) {
	if !r.kind.byName {
		return 0, fmt.Errorf("unhashable type: %s", r.kind.name)
	}
	return starlark.String(r.text).Hash()
}

// CompareSameType compares by name or identity.
func (r *Record) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other := y.(*Record)
	equal := r == other || r.kind == other.kind && r.kind.byName && r.text == other.text
	switch op {
	case syntax.EQL:
		return equal, nil
	case syntax.NEQ:
		return !equal, nil
	}
	return false, fmt.Errorf("%s %s %s: these can only be compared with == and !=", r.Type(), op, other.Type())
}

// Attr returns an attribute or a method.
func (r *Record) Attr(name string) (starlark.Value, error) {
	if i := r.kind.index(name); i >= 0 {
		return r.attrs()[i], nil
	}
	for _, m := range r.kind.methods {
		if m.Name == name {
			return m.bind(r), nil
		}
	}
	return nil, nil
}

// AttrNames lists attributes and methods.
func (r *Record) AttrNames() []string {
	var names []string
	for _, a := range r.kind.attrs {
		names = append(names, a.name)
	}
	for _, m := range r.kind.methods {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// MarshalJSON encodes the attributes in their order. A record inside a record
// that has a name is encoded as that name: a rollout's candidate is
// "shop@r6". Durations are seconds, percentages numbers, times RFC 3339.
func (r *Record) MarshalJSON() ([]byte, error) {
	var e encoder
	err := e.record(r)
	return e.buf.Bytes(), err
}

// native returns the muru value in v, if v shows one of type T.
func native[T any](v starlark.Value) (T, bool) {
	if r, ok := v.(*Record); ok {
		t, ok := r.native.(T)
		return t, ok
	}
	var zero T
	return zero, false
}
