package person

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"muru/builtins"
)

// plainProgressEvery is how often progress is printed where a line cannot be
// redrawn.
const plainProgressEvery = 10 * time.Second

// A Terminal is what a person sees of a run: reports and printed values on
// out, progress on err. On a terminal that can, progress is a line, or a few
// where it is narrow, that is redrawn; elsewhere it is a plain line now and
// then, and no escape byte is ever written. It is safe for concurrent use.
type Terminal struct {
	now func() time.Time

	mu     sync.Mutex // guards what follows, and the order of writes
	out    io.Writer
	err    io.Writer
	redraw bool
	width  func() int        // of the terminal now: people resize it
	drawn  []string          // the rows of progress that stand on the terminal
	last   map[int]time.Time // rollout: when its progress was printed plainly, or first asked for
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

// Progress shows the line that says where a rollout is; an empty one means
// that it has ended.
func (t *Terminal) Progress(rollout int, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == "" {
		t.clear()
		delete(t.last, rollout)
		return
	}
	if t.redraw {
		t.clear()
		t.drawn = rowsOf(line, t.width()-1)
		io.WriteString(t.err, strings.Join(t.drawn, "\n"))
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

// Close takes a progress line off the terminal.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

// clear takes progress off the terminal. t.mu is held.
func (t *Terminal) clear() {
	if t.drawn == nil {
		return
	}
	// A terminal that was made narrower meanwhile has broken the rows anew.
	rows, width := 0, t.width()
	for _, row := range t.drawn {
		rows += max(1, (utf8.RuneCountInString(row)+width-1)/width)
	}
	io.WriteString(t.err, "\r\x1b[K"+strings.Repeat("\x1b[A\x1b[K", rows-1))
	t.drawn = nil
}

// freshLine leaves the cursor at the beginning of an empty line: behind the
// ^C that a terminal prints there is none yet.
func (t *Terminal) freshLine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drawn != nil {
		t.clear()
		return
	}
	if IsTerminal(t.err) {
		fmt.Fprintln(t.err)
	}
}
