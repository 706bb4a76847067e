package person

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"muru"
	"muru/builtins"
)

// plainProgressEvery is how often progress is printed where a line cannot be
// redrawn.
const plainProgressEvery = 10 * time.Second

// A Terminal is what a person sees of a run: reports and printed values on
// out, progress on err. On a terminal that can, progress is one line that is
// redrawn; elsewhere it is a plain line now and then, and no escape byte is
// ever written. It is safe for concurrent use.
type Terminal struct {
	now func() time.Time

	mu     sync.Mutex // guards what follows, and the order of writes
	out    io.Writer
	err    io.Writer
	redraw bool
	width  func() int        // of the terminal now: people resize it
	drawn  bool              // a progress line stands on the terminal
	last   map[int]time.Time // rollout: when its progress was printed plainly
}

var _ builtins.Terminal = (*Terminal)(nil)

// NewTerminal returns a Terminal on two streams, which may be the same.
func NewTerminal(out, errs io.Writer) *Terminal {
	t := &Terminal{now: time.Now, out: out, err: errs, last: make(map[int]time.Time)}
	if f, ok := errs.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		dumb := os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" || os.Getenv("NO_COLOR") != ""
		t.redraw = !dumb
		t.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
			return 80
		}
	}
	return t
}

// Say prints what a changing call reports.
func (t *Terminal) Say(lines string) { t.Print("muru: " + lines) }

// Print prints text and a line end.
func (t *Terminal) Print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintln(t.out, text)
}

// Progress shows where a live rollout is.
func (t *Terminal) Progress(r muru.Rollout) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.Live() {
		t.clear()
		delete(t.last, r.Number)
		return
	}
	if t.redraw {
		t.clear()
		io.WriteString(t.err, cutToWidth(builtins.ProgressLine(r), t.width()-1))
		t.drawn = true
		return
	}
	now := t.now()
	last, begun := t.last[r.Number]
	if !begun {
		last = r.Started
	}
	if now.Sub(last) >= plainProgressEvery {
		t.last[r.Number] = now
		fmt.Fprintln(t.err, builtins.ProgressLine(r))
	}
}

// Close takes a progress line off the terminal.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

// clear takes a progress line off the terminal. t.mu is held.
func (t *Terminal) clear() {
	if t.drawn {
		io.WriteString(t.err, "\r\x1b[K")
		t.drawn = false
	}
}

// cutToWidth keeps a line from wrapping, which redrawing could not undo. It
// cuts between words: half a number would be read as a number.
func cutToWidth(line string, width int) string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
	letters := []rune(line)
	if len(letters) <= width {
		return line
	}
	letters = letters[:max(width-1, 0)] // room for the ellipsis
	if i := strings.LastIndexByte(string(letters), ' '); i > 0 {
		return strings.TrimRight(string(letters)[:i], " ,(") + "…"
	}
	return string(letters) + "…"
}
