package builtins

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

// A Type converts and checks an argument. Convert's errors say what is wrong
// with the value, without naming the parameter.
type Type interface {
	// String names the type in the reference.
	String() string
	Convert(c *Call, v starlark.Value) (any, error)
}

// typeOf is a Type made of its two parts.
type typeOf struct {
	name    string
	convert func(c *Call, v starlark.Value) (any, error)
}

func (t typeOf) String() string                                 { return t.name }
func (t typeOf) Convert(c *Call, v starlark.Value) (any, error) { return t.convert(c, v) }

// The plain types.
var (
	anyType  Type = typeOf{"any", func(_ *Call, v starlark.Value) (any, error) { return v, nil }}
	textType Type = typeOf{"text", func(_ *Call, v starlark.Value) (any, error) {
		if s, ok := v.(starlark.String); ok {
			return string(s), nil
		}
		return nil, wanted("a text", v)
	}}
	// lineType is a text for events: its line breaks become spaces.
	lineType Type = typeOf{"text", func(c *Call, v starlark.Value) (any, error) {
		text, err := textType.Convert(c, v)
		if err != nil {
			return nil, err
		}
		return muru.OneLine(text.(string)), nil
	}}
	boolType Type = typeOf{"bool", func(_ *Call, v starlark.Value) (any, error) {
		if b, ok := v.(starlark.Bool); ok {
			return bool(b), nil
		}
		return nil, wanted("True or False", v)
	}}
	functionType Type = typeOf{"function", func(_ *Call, v starlark.Value) (any, error) {
		if f, ok := v.(starlark.Callable); ok {
			return f, nil
		}
		return nil, wanted("a function", v).WithHint("lambda: CALL makes a function of a call")
	}}
)

// intType takes whole numbers from least up.
func intType(least int) Type {
	return typeOf{"int", func(_ *Call, v starlark.Value) (any, error) {
		i, ok := v.(starlark.Int)
		if !ok {
			return nil, wanted("a whole number", v)
		}
		n, ok := i.Int64()
		if !ok || n > math.MaxInt32 {
			return nil, usagef("%s is too large", v)
		}
		if int(n) < least {
			return nil, usagef("%d is below %d", n, least)
		}
		return int(n), nil
	}}
}

// enumType takes one of the words.
func enumType(words ...string) Type {
	return typeOf{quotedList(words), func(_ *Call, v starlark.Value) (any, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted(quotedList(words), v)
		}
		for _, w := range words {
			if w == string(s) {
				return w, nil
			}
		}
		return nil, unknownWord(string(s), "is not "+quotedList(words), words)
	}}
}

// quotedList words alternatives: "open", "off" or "closed".
func quotedList(words []string) string {
	text := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			text += " or "
		default:
			text += ", "
		}
		text += fmt.Sprintf("%q", w)
	}
	return text
}

// unknownWord makes the error for a word that is none of words.
func unknownWord(word, what string, words []string) error {
	err := usagef("%q %s", word, what)
	if near := muru.Suggest(word, words); near != "" {
		return err.WithHint("did you mean %q?", near)
	}
	for _, w := range words {
		if len(word) > 1 && strings.HasPrefix(w, word) {
			return err.WithHint("did you mean %q?", w)
		}
	}
	return err
}

// listType takes lists and tuples of one type and returns []T.
func listType[T any](element Type) Type {
	return typeOf{"list of " + element.String(), func(c *Call, v starlark.Value) (any, error) {
		switch v.(type) {
		case *starlark.List, starlark.Tuple:
		default:
			return nil, wanted("a list of "+element.String(), v)
		}
		out := []T{}
		for x := range starlark.Elements(v.(starlark.Iterable)) {
			converted, err := element.Convert(c, x)
			if err != nil {
				return nil, at(fmt.Sprintf("[%d]", len(out)), err)
			}
			out = append(out, converted.(T))
		}
		return out, nil
	}}
}

// dictType takes dicts from text to one type and returns map[string]T.
func dictType[T any](element Type) Type {
	return typeOf{"dict of " + element.String(), func(c *Call, v starlark.Value) (any, error) {
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, wanted("a dict", v)
		}
		out := make(map[string]T, d.Len())
		for _, item := range d.Items() {
			key, ok := item[0].(starlark.String)
			if !ok {
				return nil, at(fmt.Sprintf("[%s]", item[0]), wanted("a text as key", item[0]))
			}
			converted, err := element.Convert(c, item[1])
			if err != nil {
				return nil, at(fmt.Sprintf("[%q]", string(key)), err)
			}
			out[string(key)] = converted.(T)
		}
		return out, nil
	}}
}

// keyedDict is a dict whose keys are given words.
func keyedDict[T any](keys []string, element Type) Type {
	plain := dictType[T](element)
	return typeOf{"dict of " + element.String(), func(c *Call, v starlark.Value) (any, error) {
		if d, ok := v.(*starlark.Dict); ok {
			for _, key := range d.Keys() {
				if s, ok := key.(starlark.String); ok && !containsWord(keys, string(s)) {
					err := unknownWord(string(s), "is no key of it", keys)
					if m := asMuru(err); m.Hint == "" {
						return nil, m.WithHint("the keys are %s", strings.Join(keys, ", "))
					}
					return nil, err
				}
			}
		}
		return plain.Convert(c, v)
	}}
}

func containsWord(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// The types with units.
var (
	durationType Type = typeOf{"duration", func(_ *Call, v starlark.Value) (any, error) { return toDuration(v) }}
	sizeType     Type = typeOf{"size", func(_ *Call, v starlark.Value) (any, error) { return toSize(v) }}
	rateType     Type = typeOf{"rate", func(_ *Call, v starlark.Value) (any, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted(`a rate such as "20/s"`, v)
		}
		return muru.ParseRate(string(s))
	}}
	pointType Type = typeOf{"point in time", toPoint}
	// offType is a duration that None switches off: nil or time.Duration.
	offType Type = typeOf{"duration or None", func(_ *Call, v starlark.Value) (any, error) {
		if v == starlark.None {
			return off{}, nil
		}
		return toDuration(v)
	}}
)

// off is what offType makes of None.
type off struct{}

// positive refuses a duration of zero.
func positive(t Type) Type {
	return typeOf{t.String(), func(c *Call, v starlark.Value) (any, error) {
		d, err := t.Convert(c, v)
		if err == nil && d.(time.Duration) <= 0 {
			return nil, usagef("%s is not a time to wait", muru.FormatDuration(d.(time.Duration)))
		}
		return d, err
	}}
}

func toDuration(v starlark.Value) (time.Duration, error) {
	switch v := v.(type) {
	case Duration:
		if v < 0 {
			return 0, usagef("%s is negative", v)
		}
		return time.Duration(v), nil
	case starlark.String:
		return muru.ParseDuration(string(v))
	case starlark.Int, starlark.Float:
		err := usagef("%s has no unit", v)
		if f, _ := starlark.AsFloat(v); f >= 100 {
			return 0, err.WithHint(`write "%sms" or "%ss"`, v, v) // limits of times are often meant in ms
		}
		return 0, err.WithHint(`write "%ss"`, v)
	}
	return 0, wanted(`a duration such as "30s"`, v)
}

func toPercent(v starlark.Value) (float64, error) {
	switch v := v.(type) {
	case starlark.Int:
		n, ok := v.Int64()
		if !ok || n < 0 {
			return 0, usagef("%s is not a percentage", v)
		}
		return float64(n), nil
	case starlark.Float:
		return muru.PercentFromFloat(float64(v))
	case starlark.String:
		return muru.ParsePercent(string(v))
	}
	return 0, wanted(`a percentage such as 10 or "0.5%"`, v)
}

func toShare(v starlark.Value) (muru.Share, error) {
	p, err := toPercent(v)
	if err != nil {
		return 0, err
	}
	return muru.ShareFromPercent(p)
}

func toSize(v starlark.Value) (int64, error) {
	switch v := v.(type) {
	case starlark.Int:
		if n, ok := v.Int64(); ok && n >= 0 {
			return n, nil
		}
		return 0, usagef("%s is not a size", v)
	case starlark.String:
		return muru.ParseSize(string(v))
	}
	return 0, wanted(`a size such as "512MiB"`, v)
}

// toPoint takes a Time, RFC 3339 text, or a duration meaning that long ago.
func toPoint(c *Call, v starlark.Value) (any, error) {
	switch v := v.(type) {
	case Time:
		return time.Time(v), nil
	case Duration:
		return c.now().Add(-time.Duration(v)), nil
	case starlark.String:
		if t, err := time.Parse(time.RFC3339, string(v)); err == nil {
			return t, nil
		}
		d, err := muru.ParseDuration(string(v))
		if err != nil {
			return nil, usagef("%s is not a point in time", v).
				WithHint(`write "10m" for ten minutes ago, or a time like "2026-11-07T07:20:00Z"`)
		}
		return c.now().Add(-d), nil
	}
	return nil, wanted(`a point in time such as "10m" (ago)`, v)
}

// wanted makes the error for a value of the wrong type.
func wanted(what string, v starlark.Value) *muru.Error {
	return usagef("want %s, not %s", what, describe(v))
}

// describe words a value for an error: short ones as they are written.
func describe(v starlark.Value) string {
	switch v := v.(type) {
	case starlark.String:
		if len(v) <= 60 {
			return v.String()
		}
		return "a text"
	case starlark.NoneType, starlark.Bool, starlark.Int, starlark.Float:
		return v.String()
	case *starlark.List:
		return "a list"
	case starlark.Tuple:
		return "a tuple"
	case *starlark.Dict:
		return "a dict"
	case starlark.Callable:
		return "the function " + v.Name()
	case *Record:
		return "the " + v.Type() + " " + v.String()
	default:
		return "a " + v.Type()
	}
}
