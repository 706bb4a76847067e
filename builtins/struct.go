package builtins

import (
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	script "muru/starlark"
)

// A structValue is what struct() makes. It is the library's, but for how it
// prints: a struct in a list that it holds would print for ever, and the end
// of its stack would be the end of the process.
type structValue struct{ *starlarkstruct.Struct }

var (
	_ starlark.HasAttrs   = structValue{}
	_ starlark.HasBinary  = structValue{}
	_ starlark.Comparable = structValue{}
)

func newStruct(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlarkstruct.Make(thread, b, args, kwargs)
	if err != nil {
		return nil, err
	}
	return structValue{v.(*starlarkstruct.Struct)}, nil
}

// String is struct(...) for one that is nested too deep to print, such as in
// itself. print and str refuse that; % and format() have no way to.
func (s structValue) String() string {
	if script.CheckExtent("struct", s) != nil {
		return "struct(...)"
	}
	return s.Struct.String()
}

func (s structValue) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	other, ok := y.(structValue)
	if !ok {
		return nil, nil
	}
	v, err := s.Struct.Binary(op, other.Struct, side)
	if sum, ok := v.(*starlarkstruct.Struct); ok {
		return structValue{sum}, err
	}
	return v, err
}

func (s structValue) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	return s.Struct.CompareSameType(op, y.(structValue).Struct, depth)
}
