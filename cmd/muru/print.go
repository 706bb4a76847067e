package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"muru/control"
)

// keepPaused bounds what is kept while somebody is asked a question; older
// messages are dropped.
const keepPaused = 10_000

// A printer shows the messages of a call or a run: results on stdout,
// progress on stderr. For programs (json) stdout gets the value alone, and
// what is said for people goes to stderr. It is safe for concurrent use.
type printer struct {
	terminal *terminal // results; progress
	said     *terminal // where reports and printed lines go

	mu      sync.Mutex // guards what follows, and the order of messages
	paused  bool
	waiting []control.Message // came while paused
	value   *control.Message  // the result
	lastSay string
}

func newPrinter(stdout, stderr io.Writer, json bool) *printer {
	p := &printer{terminal: newTerminal(stdout, stderr)}
	p.said = p.terminal
	if json {
		p.terminal = newTerminal(stderr, stderr)
		p.said = p.terminal
	}
	return p
}

// show shows a message, or keeps it while the printer is paused. The value
// is kept for the caller, who knows whether it is wanted.
func (p *printer) show(m control.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		if len(p.waiting) == keepPaused {
			p.waiting = p.waiting[1:]
		}
		p.waiting = append(p.waiting, m)
		return
	}
	p.print(m)
}

// print shows a message. p.mu is held.
func (p *printer) print(m control.Message) {
	switch m.Kind {
	case control.KindSay:
		p.lastSay = m.Text
		p.said.Say(m.Text)
	case control.KindPrint:
		p.said.Print(m.Text)
	case control.KindProgress:
		p.terminal.progress(m.Rollout, m.Text)
	case control.KindValue:
		p.value = &m
	case control.KindEvent:
		if m.Event != nil {
			p.said.Print(m.Event.Line(time.Now(), time.Local))
		}
	}
}

// pause keeps what comes until resume, and leaves the terminal at the
// beginning of a line.
func (p *printer) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
	p.terminal.freshLine()
}

// resume shows what came meanwhile and goes on.
func (p *printer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	for _, m := range p.waiting {
		p.print(m)
	}
	p.waiting = nil
}

// result returns the value of the call, if one came, and the last report.
func (p *printer) result() (value *control.Message, lastSay string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value, p.lastSay
}

// Close takes a progress line off the terminal.
func (p *printer) Close() { p.terminal.Close() }

// progress shows the line that says where a rollout is; an empty one means
// that it has ended.
func (t *terminal) progress(rollout int, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == "" {
		t.clear()
		delete(t.last, rollout)
		return
	}
	if t.redraw {
		t.clear()
		io.WriteString(t.err, cutToWidth(line, t.width()-1))
		t.drawn = true
		return
	}
	now := t.now()
	last, begun := t.last[rollout]
	if !begun {
		t.last[rollout] = now // a first line would say what was just reported
		return
	}
	if now.Sub(last) >= plainProgressEvery {
		t.last[rollout] = now
		fmt.Fprintln(t.err, line)
	}
}

// freshLine leaves the cursor at the beginning of an empty line: behind the
// ^C that a terminal prints there is none yet.
func (t *terminal) freshLine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drawn {
		t.clear()
		return
	}
	if isTerminal(t.err) {
		fmt.Fprintln(t.err)
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printJSON prints a value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	if _, err := fmt.Fprintln(w, string(text)); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// printTable prints rows under their columns, as the tables of values are:
// cells to the left, one space between, the last not padded, "-" for empty.
func printTable(w io.Writer, columns []string, rows [][]string) {
	widths := make([]int, len(columns))
	all := append([][]string{columns}, rows...)
	for _, row := range all {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
			}
		}
		fmt.Fprintln(w, b.String())
	}
}
