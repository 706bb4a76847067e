package person

import (
	"bytes"
	"testing"

	"muru/control"
)

func TestWhatIsSaidDuringTheQuestionIsShownWhenWatchingGoesOn(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, &out, false)
	p.Show(say("one"))
	p.pause()
	p.Show(say("two"))
	p.Show(control.Message{Kind: control.KindValue, Text: "v", Value: []byte("1")})
	if got := out.String(); got != "muru: one\n" {
		t.Errorf("printed %q while paused", got)
	}
	p.resume()
	p.Show(say("three"))
	if got := out.String(); got != "muru: one\nmuru: two\nmuru: three\n" {
		t.Errorf("printed %q", got)
	}
	if v, last := p.Result(); v == nil || v.Text != "v" || last != "three" {
		t.Errorf("result %v, %q", v, last)
	}
}

func say(text string) control.Message { return control.Message{Kind: control.KindSay, Text: text} }
