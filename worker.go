package muru

import (
	"fmt"
	"strings"
	"time"
)

// WorkerState is where a worker is.
type WorkerState uint8

// The states of a worker.
const (
	WorkerStarting WorkerState = iota
	WorkerReady
	WorkerStuck    // past a timeout; takes no new requests
	WorkerDraining // finishing what it has
)

func (s WorkerState) String() string {
	return enumName([]string{"starting", "ready", "stuck", "draining"}, s, "WorkerState")
}

// A Worker is a snapshot of one process of a release.
type Worker struct {
	Release  ReleaseID
	Number   int
	PID      int
	State    WorkerState
	Served   int           // requests finished
	Busy     int           // requests in it now
	Request  string        // path of the oldest request in it
	Age      time.Duration // of that request
	RSS      int64         // bytes
	CPU      float64       // percent of one core since it started
	Restarts int
	Started  time.Time
}

func (w Worker) String() string { return WorkerName(w.Release, w.Number) }

// A Frame is one line of a stack.
type Frame struct {
	File     string // relative to the release's source where it lies inside
	Line     int
	Function string
}

func (f Frame) String() string { return fmt.Sprintf("%s line %d in %s", f.File, f.Line, f.Function) }

// A Stack is where one thread of a worker was, innermost frame first, and the
// request it was on.
type Stack struct {
	Release ReleaseID
	Worker  int
	PID     int
	Thread  int
	Request string // id, empty when idle
	Method  string
	Path    string
	Age     time.Duration
	Stuck   bool // this thread's request ran past its limit
	Frames  []Frame
	Text    string // for workers that print their stacks themselves: what they printed
}

// String returns the thread's heading and one line for each frame.
func (s Stack) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (pid %d) thread %d: ", WorkerName(s.Release, s.Worker), s.PID, s.Thread)
	switch {
	case s.Request == "":
		b.WriteString("idle")
	default:
		fmt.Fprintf(&b, "%s %s, request %s, for %s", s.Method, s.Path, s.Request, FormatMeasured(s.Age))
	}
	if s.Stuck {
		b.WriteString(", stuck")
	}
	for _, f := range s.Frames {
		b.WriteString("\n  " + f.String())
	}
	for line := range strings.Lines(s.Text) {
		b.WriteString("\n  " + strings.TrimRight(line, "\n"))
	}
	return b.String()
}

// StuckAt words where a stack is for an event, at most three frames,
// innermost first: "at app.py line 27 in order, called from app.py line 39 in
// application". It is "at an unknown place" without frames.
func (s Stack) StuckAt() string {
	if len(s.Frames) == 0 {
		return "at an unknown place"
	}
	text := "at " + s.Frames[0].String()
	for _, f := range s.Frames[1:min(3, len(s.Frames))] {
		text += ", called from " + f.String()
	}
	return text
}

// A LogQuery selects lines of a release's log. The zero value selects all.
type LogQuery struct {
	Lines     int       // keep the newest; 0: all
	Since     time.Time // zero: from the start
	Match     string    // regular expression a line must match; empty: all
	Worker    int       // and OneWorker: of that worker alone
	OneWorker bool
	Request   string // lines that name this request id
}

// Drained says how a drain went.
type Drained struct {
	Took       time.Duration
	Requests   int // cut at their deadline, as are the two below
	Streams    int
	WebSockets int
}

// Cut reports whether anything was cut.
func (d Drained) Cut() bool { return d.Requests+d.Streams+d.WebSockets > 0 }
