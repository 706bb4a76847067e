package muru

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// GateKind says how a gate measures.
type GateKind uint8

// The kinds of gate.
const (
	GateBuiltin GateKind = iota // measured by muru: 5xx, crashes, p95, p99, queue_wait, probe
	GateCheck                   // a function of the window
	GateHeader                  // events the app marks with a response header
	GateQuery                   // a query to a Prometheus-compatible store
)

func (k GateKind) String() string {
	return enumName([]string{"builtin", "check", "header", "query"}, k, "GateKind")
}

// The names of the gates muru measures itself.
const (
	Gate5xx       = "5xx"
	GateCrashes   = "crashes"
	GateP95       = "p95"
	GateP99       = "p99"
	GateQueueWait = "queue_wait"
	GateProbe     = "probe"
)

// A Gate is one condition a candidate must hold. It is a value; nothing in it
// changes once a rollout has it.
type Gate struct {
	Name  string
	Kind  GateKind
	Max   Measure       // the limit; unset: the baseline's own, or none for probe and check
	Ratio float64       // how many times worse than the baseline is tolerated; 1 by default
	Check GateCheckFunc // for GateCheck

	URL    string // for GateQuery: the store, up to its /api
	Query  string // for GateQuery, with {{candidate}} and {{baseline}}
	Header string // for GateHeader: the answer header that marks an event, in canonical form

	// Probe and query only.
	Within time.Duration
	Every  time.Duration

	// Probe only.
	Paths    []string
	Body     string // regexp the body must match; empty: none
	Failures int    // in a row, of the candidate alone
}

// String returns the gate as tables show it: 5xx max 1.00%.
func (g Gate) String() string {
	if !g.Max.IsSet() {
		return g.Name
	}
	return g.Name + " max " + g.Max.String()
}

// DefaultGates returns the gates that every rollout judges; naming one of
// them in a plan replaces it.
func DefaultGates() []Gate {
	return []Gate{
		{Name: Gate5xx, Max: PercentOf(1), Ratio: 1},
		{Name: GateCrashes, Max: CountOf(0), Ratio: 1},
		{Name: GateP99, Max: TimeOf(30 * time.Second), Ratio: 1},
	}
}

// A GateCheckFunc is a gate's own function of the window. ok false is a
// failure, with the message the person reads; an error is verdict error. It
// must return soon after ctx ends.
type GateCheckFunc func(ctx context.Context, w Window) (ok bool, message string, err error)

// Result is what a gate says.
type Result uint8

// The results. No data is never a pass.
const (
	NoDataYet Result = iota
	Pass
	Fail
	GateError
)

func (r Result) String() string {
	return enumName([]string{"no_data", "pass", "fail", "error"}, r, "Result")
}

// A Verdict is what one gate said at one moment, with the numbers it was said
// from.
type Verdict struct {
	Gate      string
	Result    Result
	Candidate Measure // unset when there was nothing to measure
	Baseline  Measure
	Limit     Measure

	Count            int // events of the candidate: failures, slow requests, crashes
	Requests         int // of the candidate
	BaselineCount    int
	BaselineRequests int
	Clients          int // the candidate's clients with an event
	BaselineClients  int
	Evidence         float64 // and Needed: 0 when the judge weighs none
	Needed           float64

	Message string // on fail: the text after "gate failed at 10%: "; on error: what went wrong
	At      time.Time
}

func (v Verdict) String() string { return v.Gate + " " + v.Result.String() }

// A Window is what the judge has seen of both arms over the same time.
type Window struct {
	Candidate Arm
	Baseline  *Arm // nil when no baseline gets traffic (a 100% step)
	Step      *Step
	Elapsed   time.Duration
	Verdicts  []Verdict // empty inside a gate's function
}

// String returns the short form: shop@r6 5 min 29 s.
func (w Window) String() string {
	return fmt.Sprintf("%s %s", w.Candidate.Release, FormatMeasured(w.Elapsed))
}

// An Arm is what one release did in a window. Requests counts those that
// ended or are overdue; those whose client left are requests but have no
// status class.
type Arm struct {
	Release   ReleaseID
	Requests  int
	Clients   int
	Class     [6]int // by status/100; [0] is unused
	Crashes   int    // crashes, timeout and stuck kills
	Durations Histogram
	QueueWait Histogram
}

// String returns the short form: shop@r6 842 requests.
func (a Arm) String() string { return fmt.Sprintf("%s %d requests", a.Release, a.Requests) }

// ArmCounts are the names an arm counts by, for [Arm.Count].
var ArmCounts = []string{"requests", "clients", "2xx", "3xx", "4xx", "5xx", "crashes"}

// Count returns a count by name, and whether there is one of that name.
func (a Arm) Count(what string) (n int, ok bool) {
	switch what {
	case "requests":
		return a.Requests, true
	case "clients":
		return a.Clients, true
	case "2xx", "3xx", "4xx", "5xx":
		return a.Class[what[0]-'0'], true
	case "crashes":
		return a.Crashes, true
	}
	return 0, false
}

// Unit says what a [Measure] is measured in.
type Unit uint8

// The units.
const (
	UnitNone    Unit = iota // not set
	UnitPercent             // 0 to 100
	UnitTime                // nanoseconds
	UnitCount
	UnitNumber // of a query
)

// A Measure is a measured value or a limit that knows its unit. The zero
// value is not set, which is different from zero.
type Measure struct {
	Unit  Unit
	Value float64
}

// PercentOf returns p percent.
func PercentOf(p float64) Measure { return Measure{UnitPercent, p} }

// TimeOf returns a time.
func TimeOf(d time.Duration) Measure { return Measure{UnitTime, float64(d)} }

// CountOf returns a count.
func CountOf(n int) Measure { return Measure{UnitCount, float64(n)} }

// NumberOf returns a plain number.
func NumberOf(x float64) Measure { return Measure{UnitNumber, x} }

// IsSet reports whether m has a value.
func (m Measure) IsSet() bool { return m.Unit != UnitNone }

// Duration returns a time's value; 0 for other units.
func (m Measure) Duration() time.Duration {
	if m.Unit != UnitTime {
		return 0
	}
	return time.Duration(m.Value)
}

// String returns the value as people read it, "-" when it is not set.
func (m Measure) String() string {
	switch m.Unit {
	case UnitPercent:
		return FormatRate(m.Value)
	case UnitTime:
		return FormatMeasured(time.Duration(m.Value))
	case UnitCount:
		return strconv.Itoa(int(m.Value))
	case UnitNumber:
		return strconv.FormatFloat(m.Value, 'g', 4, 64)
	default:
		return "-"
	}
}
