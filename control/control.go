package control

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"muru"
)

// Muru is a muru that serves: a daemon behind its socket ([Client]), or this
// process. Every verb, REPL input and run goes through it. Its methods are
// safe for concurrent use.
//
// A function called out gets what is said as it happens, one call at a time
// and never after the method returned; it must not be nil. When it blocks,
// the call that talks through it waits: rollouts do not.
//
// Ending ctx stops the watching. What that means is the method's: a rollout
// always stays. The errors hold a [muru.Error] in their chain when it is the
// person's matter; see [Error] for how they cross the socket.
//
// Who asks is [Caller] of ctx. A server sets it from the connection and never
// from what was sent.
type Muru interface {
	// Call evaluates one Starlark expression, which a verb stands for, and
	// says what it reports, prints and returns. When ctx ends, a call that
	// waits for a rollout just stops waiting, and any other is cancelled.
	Call(ctx context.Context, c Call, out func(Message)) error

	// StartRun starts a recipe and returns the number of its run. The run
	// does not end with ctx. A recipe that does not check, or arguments that
	// do not fit, are an error of kind usage and start nothing.
	StartRun(ctx context.Context, r Run) (int, error)

	// Attach says what a run has said from its beginning, as far as it was
	// kept, and what it says until it ends, and returns the error it ended
	// with. When ctx ends, the run goes on and Attach returns ctx's cause.
	Attach(ctx context.Context, run int, out func(Message)) error

	// CancelRun cancels a run and waits until what it owned is released; ctx
	// ends only the waiting. A run that has ended is refused.
	CancelRun(ctx context.Context, run int) error

	// Runs returns the runs that are known, oldest first.
	Runs(ctx context.Context) ([]RunInfo, error)

	// OpenSession starts a REPL session, which does not end with ctx. The
	// caller closes it. A server may close one that has no live rollout and
	// was asked nothing for a week, or for an hour if very many are open.
	OpenSession(ctx context.Context, s SessionRequest) (Session, error)

	// State returns what there is now, for prompts and completion.
	State(ctx context.Context) (State, error)

	// Events gives the events that q selects, oldest first, and with Follow
	// goes on with new ones until ctx ends.
	Events(ctx context.Context, q EventRequest, out func(muru.Event)) error

	// Logs gives lines of logs, oldest first and without their line ends, and
	// with Follow goes on with new ones until ctx ends.
	Logs(ctx context.Context, q LogRequest, out func(line string)) error

	// GC removes for good what is past the retention that the muru was
	// started with, and returns what that was, also with an error.
	GC(ctx context.Context) (GCReport, error)

	// Backup writes a copy of the state file as it is at one moment, while
	// everything goes on. What was written is whole only if it returns nil.
	Backup(ctx context.Context, w io.Writer) error
}

// A Session is a REPL's: its names live as long as it does. One Eval runs at
// a time; the other methods may be called meanwhile. A session that is gone
// gives [ErrSessionGone].
type Session interface {
	// Eval evaluates one block and says what it reports, prints and returns.
	// A result other than None is also assigned to _. When ctx ends, an input
	// that waits for a rollout just stops waiting, and any other is
	// cancelled.
	Eval(ctx context.Context, source string, out func(Message)) error

	// Incomplete reports whether source is the beginning of a block that goes
	// on: an open bracket or triple quote, or a body without its empty line.
	// Source that does not parse is not incomplete.
	Incomplete(ctx context.Context, source string) (bool, error)

	// Complete completes a line at byte pos. The line becomes
	// head + candidate + tail. It answers from a cache and calls nothing.
	Complete(ctx context.Context, line string, pos int) (head string, candidates []string, tail string, err error)

	// LiveRollouts returns the numbers of the rollouts that this session
	// started and that are live.
	LiveRollouts(ctx context.Context) ([]int, error)

	// Close ends the session. It aborts nothing. Closing twice does nothing.
	Close(ctx context.Context) error
}

// SavedInput is the input to which a session answers with the recipe of what
// it did, a text: the REPL's %save.
const SavedInput = "%saved"

// A Message is one thing said while a call, a run or an input works. The zero
// value says nothing.
type Message struct {
	Kind    string          `json:"kind"`              // one of the constants below; unknown ones are ignored
	Text    string          `json:"text,omitempty"`    // without a final line end
	Value   json.RawMessage `json:"value,omitempty"`   // KindValue: for programs
	Event   *muru.Event     `json:"event,omitempty"`   // KindEvent; crosses the socket as [EventJSON]
	Rollout int             `json:"rollout,omitempty"` // KindProgress, KindBegin: the rollout the call waits for, 0 if none
}

// The kinds of a [Message].
const (
	KindSay      = "say"      // a change reports; Text without "muru: "
	KindPrint    = "print"    // print() of the recipe; Text
	KindProgress = "progress" // Text is the line that replaces the last one of Rollout, empty: it has ended
	KindValue    = "value"    // the result; Text as it prints, empty for None, and Value
	KindEvent    = "event"    // Event
	KindBegin    = "begin"    // a builtin was called; Text is the call, such as canary("shop@r6")

	// Kinds of the stream's own, which no out function sees.
	kindEnd   = "end"
	kindError = "error"
	kindAlive = "alive" // nothing happened, and both sides are there
)

// A Call is one Starlark expression to evaluate.
type Call struct {
	Source string `json:"source"`
	Dir    string `json:"dir,omitempty"` // absolute: what relative paths mean; empty: they are refused
}

// A Run is a recipe to run.
type Run struct {
	File string   `json:"file"`          // relative to Dir
	Args []string `json:"args"`          // the words after FILE
	Dir  string   `json:"dir,omitempty"` // absolute
}

// A GCReport is what GC has removed for good.
type GCReport struct {
	Releases []string `json:"releases"` // such as shop@r1, with their logs
	Rollouts []int    `json:"rollouts"`
	Events   int      `json:"events"`
}

// A SessionRequest says who wants a REPL session and where.
type SessionRequest struct {
	Dir string `json:"dir,omitempty"` // absolute: what relative paths mean
}

// An EventRequest selects events. Zero fields select all.
type EventRequest struct {
	Target string     // app, release or number of a rollout
	Run    int        // of this run
	After  int        // with a higher number than this
	Since  time.Time  // from then on
	Kind   string     // may end in *
	Level  muru.Level // this level and above
	Limit  int        // the newest of those there are; 0: all
	Follow bool
}

// A LogRequest selects lines of logs.
type LogRequest struct {
	Target  string    // an app (all its live releases by time) or a release
	Lines   int       // the newest of those there are; 0: all
	Since   time.Time // zero: from the beginning
	Grep    string    // regexp, empty: every line
	Worker  *int      // nil: every worker
	Request string    // request id, empty: every request
	Follow  bool
}
