package person

import (
	"io"
	"sync"
	"time"

	"muru/control"
)

// keepPaused bounds what is kept while somebody is asked a question; older
// messages are dropped.
const keepPaused = 10_000

// A Printer shows the messages of a call or a run: results on stdout,
// progress on stderr. For programs (json) stdout gets the value alone, and
// what is said for people goes to stderr. It is safe for concurrent use.
type Printer struct {
	terminal *Terminal // results; progress
	said     *Terminal // where reports and printed lines go

	mu      sync.Mutex // guards what follows, and the order of messages
	paused  bool
	waiting []control.Message // came while paused
	value   *control.Message  // the result
	lastSay string
}

// NewPrinter returns a Printer on two streams.
func NewPrinter(stdout, stderr io.Writer, json bool) *Printer {
	p := &Printer{terminal: NewTerminal(stdout, stderr)}
	p.said = p.terminal
	if json {
		p.terminal = NewTerminal(stderr, stderr)
		p.said = p.terminal
	}
	return p
}

// Show shows a message, or keeps it while the printer is paused. The value
// is kept for the caller, who knows whether it is wanted.
func (p *Printer) Show(m control.Message) {
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
func (p *Printer) print(m control.Message) {
	switch m.Kind {
	case control.KindSay:
		p.lastSay = m.Text
		p.said.Say(m.Text)
	case control.KindPrint:
		p.said.Print(m.Text)
	case control.KindProgress:
		p.terminal.Progress(m.Rollout, m.Text)
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
func (p *Printer) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
	p.terminal.freshLine()
}

// resume shows what came meanwhile and goes on.
func (p *Printer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	for _, m := range p.waiting {
		p.print(m)
	}
	p.waiting = nil
}

// Result returns the value of the call, if one came, and the last report.
func (p *Printer) Result() (value *control.Message, lastSay string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value, p.lastSay
}

// Close takes a progress line off the terminal.
func (p *Printer) Close() { p.terminal.Close() }
