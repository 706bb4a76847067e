package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"muru"
)

// EventJSON is an event for programs: one object, its time in UTC, its level
// by name.
type EventJSON struct {
	Seq     int            `json:"seq"`
	Time    time.Time      `json:"time"`
	Level   string         `json:"level"`
	Kind    string         `json:"kind"`
	Subject string         `json:"subject"`
	Message string         `json:"message"`
	By      string         `json:"by,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// EventJSONOf returns e for programs.
func EventJSONOf(e muru.Event) EventJSON {
	return EventJSON{
		Seq: e.Seq, Time: e.Time.UTC(), Level: e.Level.String(), Kind: e.Kind,
		Subject: e.Subject, Message: e.Message, By: e.By, Data: e.Data,
	}
}

// Event returns the event that j was made of. Data that was no whole number,
// text, bool, list or map has become one of them, or a float64.
func (j EventJSON) Event() (muru.Event, error) {
	level, err := muru.ParseLevel(j.Level)
	if err != nil {
		return muru.Event{}, fmt.Errorf("event %d: %w", j.Seq, err)
	}
	return muru.Event{
		Seq: j.Seq, Time: j.Time, Level: level, Kind: j.Kind,
		Subject: j.Subject, Message: j.Message, By: j.By, Data: j.Data,
	}, nil
}

// UnmarshalJSON keeps whole numbers in Data whole.
func (j *EventJSON) UnmarshalJSON(text []byte) error {
	type plain EventJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode((*plain)(j)); err != nil {
		return err
	}
	for key, v := range j.Data {
		j.Data[key] = numbers(v)
	}
	return nil
}

// numbers returns v with every json.Number in it as an int or a float64.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= math.MinInt && n <= math.MaxInt {
			return int(n)
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return v
}
