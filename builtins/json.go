package builtins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"go.starlark.net/starlark"

	script "muru/starlark"
)

// JSON encodes any value for programs. A value with attributes is an object
// of them, and a named one inside (the releases of an app, the app's
// rollout) is its name. Durations are seconds, percents numbers, times RFC
// 3339 in UTC. What JSON cannot say becomes the nearest it can: a number that
// is none is null, a key is its text, a function is how it prints. A value
// that contains itself, or is nested more than 1,000 deep, is an error of kind
// usage.
func JSON(v starlark.Value) ([]byte, error) {
	if err := script.CheckExtent("JSON", v); err != nil {
		return nil, err
	}
	e := encoder{whole: true}
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return e.buf.Bytes(), nil
}

const maxJSONDepth = 1000

// An encoder writes values as JSON. whole: named values are written as
// objects, not as their names; the zero value is for what attributes hold.
type encoder struct {
	buf   bytes.Buffer
	whole bool
}

func (e *encoder) value(v starlark.Value, depth int) error {
	if depth > maxJSONDepth {
		return usagef("the value contains itself, or is nested more than %d deep: it has no JSON", maxJSONDepth)
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		e.buf.WriteString("null")
	case *Record:
		if v.kind.byName && !e.whole {
			e.text(v.text)
			return nil
		}
		return e.record(v)
	case json.Marshaler:
		encoded, err := v.MarshalJSON()
		e.buf.Write(encoded)
		return err
	case starlark.Bool, starlark.Int:
		e.buf.WriteString(strings.ToLower(v.String()))
	case starlark.Float:
		e.float(float64(v))
	case starlark.String:
		e.text(string(v))
	case starlark.Bytes:
		e.text(string(v))
	case starlark.IterableMapping:
		return e.object(v.Items(), depth)
	case structValue:
		var items []starlark.Tuple
		for _, name := range v.AttrNames() {
			field, err := v.Attr(name)
			if err != nil {
				return fmt.Errorf("read %s of a struct: %w", name, err)
			}
			items = append(items, starlark.Tuple{starlark.String(name), field})
		}
		return e.object(items, depth)
	case starlark.Iterable:
		return e.list(v, depth)
	default:
		e.text(v.String())
	}
	return nil
}

// record writes the attributes of r in their order.
func (e *encoder) record(r *Record) error {
	whole := e.whole
	e.whole = false
	defer func() { e.whole = whole }()
	e.buf.WriteByte('{')
	for i, a := range r.kind.attrs {
		e.comma(i)
		e.text(a.name)
		e.buf.WriteByte(':')
		if err := e.value(r.attrs()[i], 0); err != nil {
			return err
		}
	}
	e.buf.WriteByte('}')
	return nil
}

func (e *encoder) object(items []starlark.Tuple, depth int) error {
	e.buf.WriteByte('{')
	for i, item := range items {
		e.comma(i)
		e.text(Text(item[0]))
		e.buf.WriteByte(':')
		if err := e.value(item[1], depth+1); err != nil {
			return err
		}
	}
	e.buf.WriteByte('}')
	return nil
}

func (e *encoder) list(v starlark.Iterable, depth int) error {
	e.buf.WriteByte('[')
	i := 0
	for x := range starlark.Elements(v) {
		e.comma(i)
		i++
		if err := e.value(x, depth+1); err != nil {
			return err
		}
	}
	e.buf.WriteByte(']')
	return nil
}

func (e *encoder) comma(i int) {
	if i > 0 {
		e.buf.WriteByte(',')
	}
}

// text writes a text; bytes that are not UTF-8 become U+FFFD.
func (e *encoder) text(s string) {
	encoded, _ := json.Marshal(s) // a string cannot fail
	e.buf.Write(encoded)
}

func (e *encoder) float(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		e.buf.WriteString("null")
		return
	}
	encoded, _ := json.Marshal(x) // finite numbers cannot fail
	e.buf.Write(encoded)
}
