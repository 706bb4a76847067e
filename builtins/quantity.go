package builtins

import (
	"encoding/json"
	"math"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// A Duration is a length of time as recipes see it. It adds and subtracts
// with its kind and with Time, is multiplied and divided by numbers, divides
// by its kind to a float, and compares with its kind. It prints as it is
// written: 1m30s.
type Duration time.Duration

var (
	_ starlark.HasBinary      = Duration(0)
	_ starlark.HasUnary       = Duration(0)
	_ starlark.TotallyOrdered = Duration(0)
	_ starlark.HasAttrs       = Duration(0)
	_ json.Marshaler          = Duration(0)
)

func (d Duration) String() string        { return muru.FormatDuration(time.Duration(d)) }
func (d Duration) Type() string          { return "Duration" }
func (d Duration) Freeze()               {}
func (d Duration) Truth() starlark.Bool  { return d != 0 }
func (d Duration) Hash() (uint32, error) { return starlark.MakeInt64(int64(d)).Hash() }
func (d Duration) AttrNames() []string   { return []string{"milliseconds", "seconds"} }

// MarshalJSON encodes the duration in seconds.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

// Attr returns seconds or milliseconds, both floats.
func (d Duration) Attr(name string) (starlark.Value, error) {
	switch name {
	case "seconds":
		return starlark.Float(time.Duration(d).Seconds()), nil
	case "milliseconds":
		return starlark.Float(float64(d) / float64(time.Millisecond)), nil
	}
	return nil, nil
}

// Cmp compares two durations.
func (d Duration) Cmp(y starlark.Value, _ int) (int, error) {
	e := y.(Duration)
	switch {
	case d < e:
		return -1, nil
	case d > e:
		return 1, nil
	}
	return 0, nil
}

// Unary negates.
func (d Duration) Unary(op syntax.Token) (starlark.Value, error) {
	switch op {
	case syntax.MINUS:
		return -d, nil
	case syntax.PLUS:
		return d, nil
	}
	return nil, nil
}

// Binary is the arithmetic; nil, nil lets the interpreter word the error.
func (d Duration) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case Duration:
		return d.withDuration(op, y)
	case starlark.Int, starlark.Float:
		x, _ := starlark.AsFloat(y)
		switch {
		case op == syntax.STAR:
			return scale(d, x)
		case op == syntax.SLASH && side == starlark.Left:
			if x == 0 {
				return nil, usagef("%s divided by zero", d)
			}
			return scale(d, 1/x)
		}
	}
	return nil, nil
}

func (d Duration) withDuration(op syntax.Token, y Duration) (starlark.Value, error) {
	switch op {
	case syntax.PLUS:
		if sum := d + y; (sum > d) == (y > 0) {
			return sum, nil
		}
		return nil, errTooLong
	case syntax.MINUS:
		if diff := d - y; (diff < d) == (y > 0) {
			return diff, nil
		}
		return nil, errTooLong
	case syntax.SLASH:
		if y == 0 {
			return nil, usagef("%s divided by zero", d)
		}
		return starlark.Float(float64(d) / float64(y)), nil
	}
	return nil, nil
}

var errTooLong = usagef("longer than a duration can be")

func scale(d Duration, x float64) (starlark.Value, error) {
	scaled := math.Round(float64(d) * x)
	if math.IsNaN(scaled) || math.Abs(scaled) >= math.MaxInt64 {
		return nil, errTooLong
	}
	return Duration(scaled), nil
}

// A Time is a point in time as recipes see it. It prints as RFC 3339 in its
// zone; now() and the times of values are in the machine's.
type Time time.Time

var (
	_ starlark.HasBinary      = Time{}
	_ starlark.TotallyOrdered = Time{}
	_ starlark.HasAttrs       = Time{}
	_ json.Marshaler          = Time{}
)

func (t Time) String() string        { return time.Time(t).Format(time.RFC3339) }
func (t Time) Type() string          { return "Time" }
func (t Time) Freeze()               {}
func (t Time) Truth() starlark.Bool  { return starlark.Bool(!time.Time(t).IsZero()) }
func (t Time) Hash() (uint32, error) { return starlark.MakeInt64(time.Time(t).UnixNano()).Hash() }

// MarshalJSON encodes the time as RFC 3339 in UTC.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(time.Time(t).UTC()) }

// Cmp compares two times.
func (t Time) Cmp(y starlark.Value, _ int) (int, error) {
	return time.Time(t).Compare(time.Time(y.(Time))), nil
}

// Binary adds and subtracts durations, and subtracts times.
func (t Time) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case Duration:
		switch {
		case op == syntax.PLUS:
			return Time(time.Time(t).Add(time.Duration(y))), nil
		case op == syntax.MINUS && side == starlark.Left:
			return Time(time.Time(t).Add(-time.Duration(y))), nil
		}
	case Time:
		if op == syntax.MINUS {
			return Duration(time.Time(t).Sub(time.Time(y))), nil
		}
	}
	return nil, nil
}

// AttrNames lists the attributes.
func (t Time) AttrNames() []string {
	return []string{"day", "format", "hour", "in_location", "minute", "month", "second", "unix", "weekday", "year"}
}

// Attr returns a part of the time in its zone, or a method.
func (t Time) Attr(name string) (starlark.Value, error) {
	g := time.Time(t)
	switch name {
	case "year":
		return starlark.MakeInt(g.Year()), nil
	case "month":
		return starlark.MakeInt(int(g.Month())), nil
	case "day":
		return starlark.MakeInt(g.Day()), nil
	case "hour":
		return starlark.MakeInt(g.Hour()), nil
	case "minute":
		return starlark.MakeInt(g.Minute()), nil
	case "second":
		return starlark.MakeInt(g.Second()), nil
	case "weekday":
		return starlark.String(g.Weekday().String()), nil
	case "unix":
		return starlark.MakeInt64(g.Unix()), nil
	case "format":
		return timeFormat.bind(t), nil
	case "in_location":
		return timeInLocation.bind(t), nil
	}
	return nil, nil
}

var timeFormat = &Spec{
	Name:    "format",
	Summary: "prints the time by a layout",
	Doc:     `The layout shows how the moment 2006-01-02 15:04:05 would print, such as "0102-150405".`,
	Params:  []Param{{Name: "layout", Type: textType, Pass: Positional, Doc: "the layout"}},
	Returns: "text",
	Example: `print(now().format("2006-01-02"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		return starlark.String(time.Time(c.receiver.(Time)).Format(arg[string](c, "layout"))), nil
	},
}

var timeInLocation = &Spec{
	Name:    "in_location",
	Summary: "is the same moment in another time zone",
	Doc:     `The zone is a name of the time zone database, such as "Europe/Vienna", or "UTC".`,
	Params:  []Param{{Name: "name", Type: textType, Pass: Positional, Doc: "the zone"}},
	Returns: "Time",
	Example: `print(now().in_location("UTC"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		name := arg[string](c, "name")
		loc, err := time.LoadLocation(name)
		if err != nil {
			return nil, muru.Errorf(muru.KindNotFound, "there is no time zone %q", name)
		}
		return Time(time.Time(c.receiver.(Time)).In(loc)), nil
	},
}

// timeOrNone is None for the zero time.
func timeOrNone(t time.Time) starlark.Value {
	if t.IsZero() {
		return starlark.None
	}
	return Time(t.Local())
}
