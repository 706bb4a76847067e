package control

import (
	"encoding/json"
	"fmt"

	"muru"
)

// maxLine bounds one line of a stream, in bytes. It is far above what a
// person can want to see and far below what would hurt a machine.
const maxLine = 64 << 20

// kindLine is a line of a log; Text.
const kindLine = "line"

// A line is one line of a stream: a message, or one of the stream's own.
type line struct {
	Kind    string          `json:"kind"`
	Text    string          `json:"text,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Event   *EventJSON      `json:"event,omitempty"`
	Rollout int             `json:"rollout,omitempty"`
	Error   *wireError      `json:"error,omitempty"` // kindError
}

func lineOf(m Message) line {
	l := line{Kind: m.Kind, Text: m.Text, Value: m.Value, Rollout: m.Rollout}
	if m.Event != nil {
		e := EventJSONOf(*m.Event)
		l.Event = &e
	}
	return l
}

// encode returns l as JSON with a line end. Invalid UTF-8 in texts becomes
// U+FFFD.
func (l line) encode() ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("write a message of kind %s as JSON: %w", l.Kind, err)
	}
	if len(text) >= maxLine {
		return nil, muru.Errorf(muru.KindFailed, "the answer has %d MiB, over the limit of %d MiB at once",
			len(text)>>20, maxLine>>20).WithHint("ask for less")
	}
	return append(text, '\n'), nil
}

// decodeLine reads what encode wrote.
func decodeLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return line{}, fmt.Errorf("read a line of the answer: %w", err)
	}
	if l.Kind == "" {
		return line{}, fmt.Errorf("read a line of the answer: it has no kind")
	}
	return l, nil
}

// message returns the message that l carries.
func (l line) message() (Message, error) {
	m := Message{Kind: l.Kind, Text: l.Text, Value: l.Value, Rollout: l.Rollout}
	if l.Event != nil {
		e, err := l.Event.Event()
		if err != nil {
			return Message{}, fmt.Errorf("read a line of the answer: %w", err)
		}
		m.Event = &e
	}
	return m, nil
}

// MarshalJSON writes m as it crosses the socket.
func (m Message) MarshalJSON() ([]byte, error) { return json.Marshal(lineOf(m)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Message) UnmarshalJSON(text []byte) error {
	l, err := decodeLine(text)
	if err != nil {
		return err
	}
	*m, err = l.message()
	return err
}
