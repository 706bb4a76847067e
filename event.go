package muru

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Level says how much an event matters.
type Level uint8

// The levels.
const (
	LevelNotice Level = iota
	LevelWarning
	LevelError
)

func (l Level) String() string { return enumName(levelNames[:], l, "Level") }

var levelNames = [...]string{"notice", "warning", "error"}

// ParseLevel parses notice, warning or error.
func ParseLevel(text string) (Level, error) {
	for i, name := range levelNames {
		if name == text {
			return Level(i), nil
		}
	}
	return 0, Errorf(KindUsage, "%q is not a level", text).WithHint("notice, warning or error")
}

// An Event is a numbered fact. Message is one line. Data holds the numbers
// behind it for programs and is not printed.
type Event struct {
	Seq     int
	Time    time.Time
	Level   Level
	Kind    string // such as rollout.gate_failed
	Subject string // an app, a release, "run N" or "muru"
	Message string
	By      string
	Data    map[string]any
}

// The kinds of event that exist, and nothing else.
const (
	AppCreated    = "app.created"
	AppChanged    = "app.changed"
	AppStopped    = "app.stopped"
	AppRolledBack = "app.rolled_back"
	SplitChanged  = "split.changed"

	ReleaseStarting = "release.starting"
	ReleaseHeld     = "release.held"
	ReleaseFailed   = "release.failed"
	ReleaseDraining = "release.draining"
	ReleaseWarm     = "release.warm"
	ReleaseStopped  = "release.stopped"
	ReleasePromoted = "release.promoted"

	WorkerReadyEvent    = "worker.ready"
	WorkerCrashed       = "worker.crashed"
	WorkerTimeoutKilled = "worker.timeout_killed"
	WorkerSlow          = "worker.slow"
	WorkerGone          = "worker.gone"
	WorkerBackoff       = "worker.backoff"

	RolloutQueued     = "rollout.queued"
	RolloutStarted    = "rollout.started"
	RolloutStep       = "rollout.step"
	RolloutSlow       = "rollout.slow"
	RolloutGateFailed = "rollout.gate_failed"
	RolloutBothBad    = "rollout.both_bad"
	RolloutUnbalanced = "rollout.unbalanced"
	RolloutRolledBack = "rollout.rolled_back"
	RolloutNoData     = "rollout.no_data"
	RolloutGateError  = "rollout.gate_error"
	RolloutAwaiting   = "rollout.awaiting_approval"
	RolloutApproved   = "rollout.approved"
	RolloutPaused     = "rollout.paused"
	RolloutFrozen     = "rollout.frozen"
	RolloutResumed    = "rollout.resumed"
	RolloutPromoted   = "rollout.promoted"
	RolloutAborted    = "rollout.aborted"
	RolloutSuperseded = "rollout.superseded"
	RolloutRestored   = "rollout.restored"
	RolloutUnbound    = "rollout.unbound"

	RunStarted     = "run.started"
	RunFinished    = "run.finished"
	RunFailed      = "run.failed"
	RunCancelled   = "run.cancelled"
	DaemonStarted  = "daemon.started"
	DaemonStops    = "daemon.stopping"
	DaemonDiskFull = "daemon.disk_full"
)

// OneLine makes a text that may be anybody's (an exception, a reason) fit an
// event's message: line breaks and other control characters, which could
// forge a line or reprogram a terminal, become single spaces.
func OneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var parts []string
	for part := range strings.FieldsFuncSeq(text, unicode.IsControl) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// Line prints the event as one line, its time in loc, with the date before it
// unless it is of the day of now:
//
//	45 18:20:07 warning rollout.gate_failed shop@r6 step 1 at 10%: ...
func (e Event) Line(now time.Time, loc *time.Location) string {
	layout := time.TimeOnly
	t, n := e.Time.In(loc), now.In(loc)
	if t.YearDay() != n.YearDay() || t.Year() != n.Year() {
		layout = time.DateTime
	}
	return fmt.Sprintf("%d %s %-7s %-19s %s %s", e.Seq, t.Format(layout), e.Level, e.Kind, e.Subject, e.Message)
}

// String is [Event.Line] with the date, in the machine's zone.
func (e Event) String() string { return e.Line(time.Time{}, time.Local) }

// ParseEvent reads a line that [Event.Line] printed. A line without a date is
// of the day of now. By and Data are not part of the line.
func ParseEvent(line string, now time.Time, loc *time.Location) (Event, error) {
	bad := func(what string) (Event, error) {
		return Event{}, Errorf(KindUsage, "not an event line: %s: %.80q", what, line)
	}
	rest := line
	next := func() string {
		var word string
		word, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		return word
	}
	seq, err := strconv.Atoi(next())
	if err != nil || seq < 0 {
		return bad("no number")
	}
	day := now.In(loc).Format(time.DateOnly)
	clock := next()
	if _, err := time.Parse(time.DateOnly, clock); err == nil {
		day, clock = clock, next()
	}
	at, err := time.ParseInLocation(time.DateTime, day+" "+clock, loc)
	if err != nil {
		return bad("no time")
	}
	level, err := ParseLevel(next())
	if err != nil {
		return bad("no level")
	}
	e := Event{Seq: seq, Time: at, Level: level, Kind: next()}
	if e.Kind == "" {
		return bad("no kind")
	}
	// A subject is one word, except for runs: "run 7".
	e.Subject = next()
	if e.Subject == "run" {
		e.Subject += " " + next()
	}
	if e.Subject == "" {
		return bad("no subject")
	}
	e.Message = rest
	return e, nil
}

// KindMatches reports whether an event's kind is the wanted one; wanted may
// end in * for all kinds that begin so.
func KindMatches(kind, wanted string) bool {
	if prefix, ok := strings.CutSuffix(wanted, "*"); ok {
		return strings.HasPrefix(kind, prefix)
	}
	return kind == wanted
}
