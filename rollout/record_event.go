package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muru"
)

// eventRecord is one event. Its number is its key's.
type eventRecord struct {
	V       int            `json:"v"`
	Time    time.Time      `json:"time"`
	Level   string         `json:"level"`
	Kind    string         `json:"kind"`
	Subject string         `json:"subject"`
	Message string         `json:"message,omitempty"`
	By      string         `json:"by,omitempty"`
	Data    map[string]any `json:"data,omitempty"` // of texts, numbers and truths
}

// eventBytesMax bounds an event's record; one over it loses its data.
const eventBytesMax = 16 << 10

func encodeEvent(e muru.Event) []byte {
	r := eventRecord{
		V: recordVersion, Time: e.Time, Level: e.Level.String(), Kind: e.Kind, Subject: e.Subject,
		Message: shorten(e.Message), By: e.By,
	}
	for name, value := range e.Data {
		if r.Data == nil {
			r.Data = map[string]any{}
		}
		r.Data[name] = plainValue(value)
	}
	text := encode(r)
	if len(text) > eventBytesMax {
		r.Data = nil
		text = encode(r)
	}
	return text
}

// plainValue is a value of an event's data as JSON has it: what is neither a
// number nor a truth becomes its text.
func plainValue(value any) any {
	switch v := value.(type) {
	case int, int64, bool, string:
		return v
	case float64:
		return finite(v)
	}
	return fmt.Sprint(value)
}

func decodeEvent(seq int, text []byte) (muru.Event, error) {
	var r eventRecord
	if err := decode(text, &r); err != nil {
		return muru.Event{}, err
	}
	level, err := muru.ParseLevel(r.Level)
	if err != nil {
		return muru.Event{}, err
	}
	if r.Kind == "" || r.Subject == "" {
		return muru.Event{}, errors.New("an event has a kind and a subject")
	}
	for name, value := range r.Data {
		switch v := value.(type) {
		case bool, string:
		case json.Number:
			// Whole numbers come back as what they were.
			if n, err := v.Int64(); err == nil {
				r.Data[name] = int(n)
			} else if x, err := v.Float64(); err == nil {
				r.Data[name] = x
			} else {
				return muru.Event{}, fmt.Errorf("data: %.40q: %s is out of range", name, v)
			}
		default:
			return muru.Event{}, fmt.Errorf("data: %.40q is neither text, number nor truth", name)
		}
	}
	return muru.Event{
		Seq: seq, Time: r.Time, Level: level, Kind: r.Kind, Subject: r.Subject, Message: r.Message, By: r.By, Data: r.Data,
	}, nil
}
