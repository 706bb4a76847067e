package daemon

import (
	"sync"

	"go.starlark.net/starlark"

	"muru/builtins"
	"muru/control"
)

// A talk turns what builtins show into messages for whoever listens, from
// begin to end; what is shown while nobody listens is dropped (a gate's
// function may print between two inputs). The zero value is ready and safe
// for concurrent use.
type talk struct {
	mu   sync.Mutex // guards what follows, and the order of messages
	out  func(control.Message)
	said bool // since the last call began: its value need not be shown
}

var _ builtins.Terminal = (*talk)(nil)

// begin directs messages to out.
func (t *talk) begin(out func(control.Message)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out, t.said = out, false
}

// end directs them nowhere. When it returns, out is not called any more.
func (t *talk) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = nil
}

func (t *talk) send(m control.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Kind == control.KindSay {
		t.said = true
	}
	if t.out != nil {
		t.out(m)
	}
}

// Say reports what a change did.
func (t *talk) Say(lines string) { t.send(control.Message{Kind: control.KindSay, Text: lines}) }

// Print shows what is printed.
func (t *talk) Print(text string) { t.send(control.Message{Kind: control.KindPrint, Text: text}) }

// Progress shows where a rollout is; the line is empty when it has ended.
func (t *talk) Progress(rollout int, line string) {
	t.send(control.Message{Kind: control.KindProgress, Rollout: rollout, Text: line})
}

// call says which builtin was called.
func (t *talk) call(name, about string) (done func()) {
	t.mu.Lock()
	t.said = false
	t.mu.Unlock()
	t.send(control.Message{Kind: control.KindBegin, Text: name + "(" + about + ")"})
	return func() {}
}

// value shows a result, nil for none. One that the last call has reported in
// its own words has no text, only its JSON.
func (t *talk) value(v starlark.Value) error {
	if v == nil {
		return nil
	}
	encoded, err := builtins.JSON(v)
	if err != nil {
		encoded = []byte("null") // it contains itself: it can still be printed
	}
	m := control.Message{Kind: control.KindValue, Value: encoded}
	t.mu.Lock()
	said := t.said
	t.mu.Unlock()
	if !said && v != starlark.None {
		m.Text = builtins.Format(v)
	}
	t.send(m)
	return nil
}
