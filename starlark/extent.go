package starlark

import (
	"iter"

	"go.starlark.net/starlark"

	"muru"
)

// The bounds of a value that is written out as a whole: by str, repr, print
// and fail, and as JSON. The interpreter's own writers recurse without a
// bound, and the end of its stack is the end of a Go process: nothing can
// recover from it. They also cannot be cancelled, and a value that holds
// another one twice, which holds another one twice, is written out in full.
const (
	MaxNesting = 1000    // containers in containers
	MaxWritten = 1 << 28 // bytes, roughly
)

// CheckExtent returns an error for a value that is nested more than
// MaxNesting deep (of kind usage) or would fill MaxWritten bytes, written out
// (of kind budget). who is the function that was to write it. A list or dict
// that holds itself is fine, it is written as [...] or {...}; a struct is not.
func CheckExtent(who string, v starlark.Value) error {
	e := extent{who: who}
	return e.add(v, 0)
}

// An extent adds up what a value would fill.
type extent struct {
	who  string
	size int
	path map[starlark.Value]bool // what is being looked into; nil: nothing yet
}

func (e *extent) add(v starlark.Value, depth int) error {
	if depth > MaxNesting {
		return e.tooDeep()
	}
	e.size += 2
	if e.size > MaxWritten {
		return muru.Errorf(muru.KindBudget, "%s: the value has more than %d MiB, written out", e.who, MaxWritten>>20)
	}
	switch v := v.(type) {
	case starlark.String:
		e.size += len(v)
	case starlark.Bytes:
		e.size += len(v)
	case starlark.Tuple:
		for _, x := range v {
			if err := e.add(x, depth+1); err != nil {
				return err
			}
		}
	case *starlark.List:
		return e.inside(v, func() error {
			for i := range v.Len() {
				if err := e.add(v.Index(i), depth+1); err != nil {
					return err
				}
			}
			return nil
		})
	case *starlark.Dict:
		return e.inside(v, func() error {
			for key, value := range v.Entries() {
				if err := e.add(key, depth+1); err != nil {
					return err
				}
				if err := e.add(value, depth+1); err != nil {
					return err
				}
			}
			return nil
		})
	case *starlark.Set:
		for x := range v.Elements() {
			if err := e.add(x, depth+1); err != nil {
				return err
			}
		}
	case fields:
		if e.path[v] {
			return e.tooDeep() // it would be written out again and again
		}
		return e.inside(v, func() error {
			for _, x := range v.Entries() {
				if err := e.add(x, depth+1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}

func (e *extent) tooDeep() error {
	return muru.Errorf(muru.KindUsage, "%s: the value contains itself, or is nested more than %d deep", e.who, MaxNesting)
}

// fields are what a struct has.
type fields interface {
	starlark.Value
	Entries() iter.Seq2[string, starlark.Value]
}

// inside looks into a list, dict or struct, once on a path.
func (e *extent) inside(v starlark.Value, look func() error) error {
	if e.path[v] {
		return nil
	}
	if e.path == nil {
		e.path = make(map[starlark.Value]bool)
	}
	e.path[v] = true
	defer delete(e.path, v)
	return look()
}
