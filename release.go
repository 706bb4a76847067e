package muru

import "time"

// ReleaseKind says what runs behind a release.
type ReleaseKind uint8

// The kinds of release.
const (
	Python   ReleaseKind = iota // a WSGI application run by muru's own workers
	Command                     // any HTTP server, started by muru
	External                    // a server somebody else runs
)

func (k ReleaseKind) String() string {
	return enumName([]string{"python", "command", "external"}, k, "ReleaseKind")
}

// ReleaseState is where a release is in its life. The zero value is Starting.
type ReleaseState uint8

// The states of a release. Serving means a share above 0.
const (
	Starting ReleaseState = iota
	Held
	Serving
	Draining
	Warm
	Stopped
	FailedToStart
)

var releaseStateNames = [...]string{"starting", "held", "serving", "draining", "warm", "stopped", "failed"}

func (s ReleaseState) String() string { return enumName(releaseStateNames[:], s, "ReleaseState") }

// releaseMoves is the table of legal moves of a release:
//
//	starting → held | serving | failed
//	held     → serving | stopped
//	serving  → draining | held      (held: a candidate taken out, kept for inspection)
//	draining → warm | serving
//	warm     → serving | stopped
//	stopped  → starting
//	failed   → stopped
var releaseMoves = [...][]ReleaseState{
	Starting:      {Held, Serving, FailedToStart},
	Held:          {Serving, Stopped},
	Serving:       {Draining, Held},
	Draining:      {Warm, Serving},
	Warm:          {Serving, Stopped},
	Stopped:       {Starting},
	FailedToStart: {Stopped},
}

// CanBecome reports whether a release may move from s to next.
func (s ReleaseState) CanBecome(next ReleaseState) bool { return canBecome(releaseMoves[:], s, next) }

// Live reports whether the release has workers that can answer: held,
// serving, draining or warm.
func (s ReleaseState) Live() bool { return s == Held || s == Serving || s == Draining || s == Warm }

// A Release is one immutable deployed version of an app: its plan, which
// never changes, and a snapshot of its state.
type Release struct {
	ID ReleaseID
	ReleasePlan
	State   ReleaseState
	Share   Share // of the app's split
	Created time.Time
	By      string // who deployed it
	Message string // why it is in its state, empty when there is nothing to say
}

func (r Release) String() string { return r.ID.String() }

// A ReleasePlan is what deploy was asked for.
type ReleasePlan struct {
	Kind     ReleaseKind
	Source   string   // absolute directory; empty for External
	Digest   string   // of the source's names, sizes and times of change; empty for External
	Entry    string   // Python: MODULE:ATTR
	Command  []string // Command: argv; text given by the user is /bin/sh -c TEXT
	Upstream string   // External: HOST:PORT
	Workers  int      // processes, at least 1; 0 for External
	Threads  int      // requests at once per worker; 0: no bound (External only)
	Env      map[string]string
	Timeouts Timeouts
	Limits   Limits
	Ready    string // path that must answer below 400 before the release is ready; empty: listening is enough
	Stacks   string // Command: signal that makes it print its stacks, such as SIGQUIT; empty: none
}

// Timeouts bound the life of a release's requests and workers. The zero value
// of Hard and Soft means off; the others are filled by [DefaultTimeouts].
type Timeouts struct {
	Ready     time.Duration // from the start of the workers until all are ready
	Queue     time.Duration // a request's wait for a worker
	Hard      time.Duration // a request's run in a worker; then 504 and the worker is replaced
	Soft      time.Duration // a request's run in a worker; then worker.slow is reported
	Drain     time.Duration // plain requests, when the release is drained
	Stream    time.Duration // streams, when the release is drained
	WebSocket time.Duration // upgraded connections, when the release is drained
}

// DefaultTimeouts returns the timeouts of a release that names none.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Ready: 30 * time.Second, Queue: 10 * time.Second,
		Drain: 30 * time.Second, Stream: time.Minute, WebSocket: time.Minute,
	}
}

// Limits bound what a release may take.
type Limits struct {
	Queue int // requests waiting for a worker; more get queue_full
}

// DefaultLimits returns the limits of a release that names none.
func DefaultLimits() Limits { return Limits{Queue: 1000} }

// canBecome looks a move up in a table of legal moves.
func canBecome[S ~uint8](moves [][]S, from, to S) bool {
	if int(from) >= len(moves) {
		return false
	}
	for _, s := range moves[from] {
		if s == to {
			return true
		}
	}
	return false
}
