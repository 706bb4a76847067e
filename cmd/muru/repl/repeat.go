package repl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muru"
	"muru/builtins"
	"muru/control"
)

const (
	repeatEvery  = 5 * time.Second
	repeatFaster = 100 * time.Millisecond // nobody can read that
)

// repeat is %watch: a call is evaluated again and again, and what it says and
// returns shown, until Ctrl-C. On a terminal that can, it is redrawn in place.
// The first error ends it. A call that changes something is refused: nobody
// wants it done every five seconds.
func (r *repl) repeat(ctx context.Context, rest string) error {
	every := repeatEvery
	if first, call, ok := strings.Cut(rest, " "); ok {
		if d, err := muru.ParseDuration(first); err == nil {
			every, rest = max(d, repeatFaster), strings.TrimSpace(call)
		}
	}
	if rest == "" {
		return needs("watch", "a call")
	}
	name, _, _ := strings.Cut(rest, "(")
	if spec := builtins.SpecNamed(strings.TrimSpace(name)); spec != nil && spec.Effect == builtins.Change {
		return muru.Errorf(muru.KindRefused, "%%watch: %s changes something each time", spec.Name).
			WithHint("call it once, and watch status()")
	}
	_, redraws := r.in.(*editor)
	return r.show(ctx, func(ctx context.Context, out func(control.Message)) error {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if err := r.lap(ctx, rest, every, redraws, out); err != nil {
				return err
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// lap evaluates a watched call once and shows everything of it at once.
func (r *repl) lap(ctx context.Context, source string, every time.Duration, redraws bool, out func(control.Message)) error {
	head := fmt.Sprintf("%s, every %s until Ctrl-C: %s", time.Now().Format(time.TimeOnly), muru.FormatDuration(every), source)
	lines := []string{head}
	err := r.evaluate(ctx, source, func(m control.Message) {
		switch m.Kind {
		case control.KindBegin:
			out(m)
		case control.KindSay:
			lines = append(lines, "muru: "+m.Text)
		case control.KindPrint, control.KindValue:
			if m.Text != "" {
				lines = append(lines, m.Text)
			}
		}
	})
	if err != nil {
		return err
	}
	text := strings.Join(lines, "\n")
	if redraws {
		text = "\x1b[H\x1b[2J" + text // home, and clear
	}
	out(control.Message{Kind: control.KindPrint, Text: text})
	return nil
}
