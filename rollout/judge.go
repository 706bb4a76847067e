package rollout

import (
	"time"

	"muru"
)

// A judge weighs a candidate against its baseline. The edge feeds it each
// randomised request, the host each harm; both on their own goroutines. It
// may wake who owns it when something it was fed decides (a crossing); it is
// asked for its verdicts then, and every second. Its methods are safe for
// concurrent use.
//
// A judge measures the gates of kind builtin except the probe. Functions and
// probes are asked by the [examiner] that owns the judge.
type judge interface {
	muru.Sink
	// Harm counts a crash or a kill of either arm, from the last Begin on.
	Harm(id muru.ReleaseID, h muru.Harm)
	// Begin starts a window: what was counted before is gone, and facts of an
	// older generation no longer count.
	Begin(b opening)
	// Thresholds are the times the edge has to watch for it.
	Thresholds() []muru.Threshold
	// Unset returns the gates whose limit is the baseline's own, those that
	// miss it or all.
	Unset(missing bool) []muru.Gate
	// SetLimit gives such a gate its limit. Its counts start now.
	SetLimit(gate string, limit time.Duration)
	// Verdicts says what each gate it measures says, in their order.
	Verdicts(now time.Time) []muru.Verdict
	// Settled reports whether what is still open could not make a time gate
	// fail: requests inside the releases, and those whose client left without
	// an answer. A window is not over before.
	Settled(now time.Time, open inside) bool
	// Window is what it has seen since Begin.
	Window(now time.Time) muru.Window
	// Marks are the answer headers the edge has to tell of for it.
	Marks() []string
	// Told is the Memory, without clients, as of the last Verdicts.
	Told() []memory
	// Memory is what it carries from window to window and over a restart, one
	// for each gate that has any. Without clients the sets of clients are left
	// out: they are of no use once the rollout has ended.
	Memory(clients bool) []memory
	// Recall puts a Memory back, before the first Begin.
	Recall([]memory)
	// Confident reports whether every rate is proven to be no worse than the
	// step demands, see sequential.
	Confident() bool
	// Shielded counts the candidate's failures since Begin, and those of them
	// that the baseline was asked to answer.
	Shielded() (failures, shielded int)
	// Balance counts the clients since Begin whose identity was made for their
	// request: the candidate's, and all.
	Balance() (candidate, all int)
	// Seen returns when the candidate's first request since Begin arrived
	// (zero: none yet) and how many have ended or are overdue.
	Seen() (first time.Time, requests int)
}

// An opening describes the window a judge is to begin.
type opening struct {
	At         time.Time
	Generation uint64 // the first Routing of the window
	Dark       bool   // share 0: nobody is sent to the candidate, only crashes count
	Paired     bool   // a baseline gets traffic at the same time
	Shadow     bool   // the candidate gets copies: what counts comes in pairs
	Share      muru.Share
}

// inside counts the requests that are in the releases now.
type inside struct{ candidate, baseline int }

// arms names who is compared. A zero Baseline means there is none.
type arms struct {
	Candidate, Baseline muru.ReleaseID
}

// slowPercent is how many percent of the requests may exceed a time gate's
// limit: a p95 is over its limit when more than 5% of them are. ok is false
// for gates on something else.
func slowPercent(gate string) (percent float64, of muru.Quantity, ok bool) {
	switch gate {
	case muru.GateP95:
		return 5, muru.OfDuration, true
	case muru.GateP99:
		return 1, muru.OfDuration, true
	case muru.GateQueueWait:
		return 5, muru.OfQueueWait, true
	}
	return 0, 0, false
}

// judging says how a rollout or an observe call is judged.
type judging struct {
	name  string  // of the judge, one of judgeNames; empty is the first
	alpha float64 // false alarms of one gate over all of a rollout, in percent; 0 is alphaPercent
	least int     // requests of the candidate in a window before a gate passes
}

// alphaPercent is how many percent of the rollouts of a release that is no
// worse than its baseline may be failed by one gate.
const alphaPercent = 1

// judgeNames are the judges there are, the default first.
var judgeNames = []string{"sequential", "threshold"}

// newJudge returns the judge of that name; ok is false if there is none.
func newJudge(how judging, who arms, gates []muru.Gate, wake func()) (j judge, ok bool) {
	switch how.name {
	case "", "sequential":
		return newSequential(who, gates, how, wake), true
	case "threshold":
		return newThreshold(who, gates, how.least, wake), true
	}
	return nil, false
}
