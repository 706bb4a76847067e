package starlark

import (
	"sync/atomic"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// MaxElements is the largest number of elements that the functions which
// copy a sequence in one operation accept: bytes, list, tuple, sorted,
// reversed, enumerate and zip. A range is the one value of the language that can be
// far larger than memory, and copying it could not be stopped.
const MaxElements = 1 << 24

// universe returns the functions of the language that are replaced because
// their originals can neither be stopped nor bounded. They behave the same
// otherwise.
func universe() starlark.StringDict {
	names := starlark.StringDict{"range": starlark.NewBuiltin("range", newRange)}
	for _, name := range []string{"bytes", "list", "tuple", "sorted", "reversed", "enumerate", "zip"} {
		names[name] = boundedCopy(starlark.Universe[name].(*starlark.Builtin))
	}
	for _, name := range []string{"str", "repr"} {
		names[name] = Whole(starlark.Universe[name].(*starlark.Builtin))
	}
	return names
}

// Whole returns a function that refuses arguments which are over the bounds
// of [CheckExtent] and otherwise is original, which writes its arguments out.
func Whole(original *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(original.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, arg := range args {
			if err := CheckExtent(original.Name(), arg); err != nil {
				return nil, err
			}
		}
		for _, kv := range kwargs {
			if err := CheckExtent(original.Name(), kv[1]); err != nil {
				return nil, err
			}
		}
		return original.CallInternal(thread, args, kwargs)
	})
}

func boundedCopy(original *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(original.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, arg := range args {
			if n := starlark.Len(arg); n > MaxElements {
				return nil, muru.Errorf(muru.KindBudget, "%s: %d elements are over the limit of %d", original.Name(), n, MaxElements)
			}
		}
		for _, kv := range kwargs {
			if n := starlark.Len(kv[1]); n > MaxElements {
				return nil, muru.Errorf(muru.KindBudget, "%s: %d elements are over the limit of %d", original.Name(), n, MaxElements)
			}
		}
		return original.CallInternal(thread, args, kwargs)
	})
}

// rangeValue is a range that ends early when its run is stopped, so that
// whatever iterates over it in Go returns, and the interpreter can fail.
// original is a range of the library.
type rangeValue struct {
	original starlark.Indexable
	stopped  *atomic.Pointer[muru.Error]
}

var (
	_ starlark.Indexable  = rangeValue{}
	_ starlark.Sequence   = rangeValue{}
	_ starlark.Comparable = rangeValue{}
	_ starlark.Sliceable  = rangeValue{}
	_ starlark.Container  = rangeValue{}
)

func newRange(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Universe["range"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	r := rangeValue{original: v.(starlark.Indexable), stopped: new(atomic.Pointer[muru.Error])}
	if s := scopeOf(thread); s != nil {
		r.stopped = &s.stopped
	}
	return r, nil
}

func (r rangeValue) String() string             { return r.original.String() }
func (r rangeValue) Type() string               { return "range" }
func (r rangeValue) Freeze()                    {}
func (r rangeValue) Truth() starlark.Bool       { return r.original.Truth() }
func (r rangeValue) Hash() (uint32, error)      { return r.original.Hash() }
func (r rangeValue) Len() int                   { return r.original.Len() }
func (r rangeValue) Index(i int) starlark.Value { return r.original.Index(i) }
func (r rangeValue) Iterate() starlark.Iterator { return &rangeIterator{r: r, n: r.Len()} }
func (r rangeValue) Has(v starlark.Value) (bool, error) {
	return r.original.(starlark.Container).Has(v)
}
func (r rangeValue) Slice(start, end, step int) starlark.Value {
	sliced := r.original.(starlark.Sliceable).Slice(start, end, step)
	return rangeValue{sliced.(starlark.Indexable), r.stopped}
}

func (r rangeValue) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other, ok := y.(rangeValue)
	if !ok {
		return false, muru.Errorf(muru.KindFailed, "range %s %s not implemented", op, y.Type())
	}
	return r.original.(starlark.Comparable).CompareSameType(op, other.original, depth)
}

type rangeIterator struct {
	r    rangeValue
	i, n int
}

func (it *rangeIterator) Next(p *starlark.Value) bool {
	if it.i >= it.n || it.i&1023 == 0 && it.r.stopped.Load() != nil {
		return false
	}
	*p = it.r.Index(it.i)
	it.i++
	return true
}

func (it *rangeIterator) Done() {}
