package repl

import (
	"testing"
	"time"

	"muru"
	"muru/control"
)

// An account may be shared: what a colleague did under the same name while an
// input of this session worked is news.
func TestOnlyWhatTheInputNamedIsNoNews(t *testing.T) {
	begun := time.Now()
	event := func(by, subject string, level muru.Level, rollout int) muru.Event {
		e := muru.Event{Time: begun.Add(time.Second), By: by, Subject: subject, Level: level}
		if rollout > 0 {
			e.Data = map[string]any{"rollout": rollout}
		}
		return e
	}
	for _, c := range []struct {
		name  string
		calls []string
		event muru.Event
		own   bool
	}{
		{"a change of this app", []string{`promote("shop@r2")`}, event("ops", "shop@r2", muru.LevelNotice, 0), true},
		{"its warning", []string{`rollback("shop")`}, event("ops", "shop", muru.LevelWarning, 0), true},
		{"what follows", []string{`promote("shop@r2")`}, event("", "shop@r1", muru.LevelNotice, 0), true},
		{"what goes wrong", []string{`promote("shop@r2")`}, event("", "shop@r2", muru.LevelWarning, 0), false},
		{"a colleague's change of another app", []string{`promote("shop@r2")`}, event("ops", "blog@r2", muru.LevelNotice, 0), false},
		{"a colleague's change while somebody looks", []string{`status("blog")`, `wait(7)`}, event("ops", "blog", muru.LevelNotice, 0), false},
		{"a rollout by number", []string{`abort(7)`}, event("ops", "shop@r2", muru.LevelWarning, 7), true},
		{"a rollout as a value", []string{`pause(rollout 7 of shop@r2)`}, event("ops", "shop@r2", muru.LevelNotice, 7), true},
		{"another rollout", []string{`abort(7)`}, event("ops", "blog@r2", muru.LevelWarning, 8), false},
		{"a call that does not say what it is about", []string{`deploy(...)`}, event("ops", "blog@r2", muru.LevelNotice, 0), true},
	} {
		n := news{you: "ops"}
		n.inputBegins(begun)
		for _, call := range c.calls {
			n.heard(control.Message{Kind: control.KindBegin, Text: call})
		}
		n.inputEnds(begun.Add(time.Minute))
		n.resolve([]muru.Event{c.event})
		if got := n.own(c.event); got != c.own {
			t.Errorf("%s: own is %v", c.name, got)
		}
		late := c.event
		late.Time = begun.Add(time.Hour)
		if n.own(late) {
			t.Errorf("%s: own after the input", c.name)
		}
	}
}
