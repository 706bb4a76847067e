package rollout

import (
	"time"

	"muru"
)

// Caller says who asks for a change. Every request carries it: events name By,
// and what Run owns is released by [Engine.EndRun]. Key identifies the call
// within the run; asking again with the same key finds what the first call
// made.
type Caller struct {
	Run int    // 0: no run
	Key string // empty: not repeatable
	By  string // user, "run 7" or "muru"
}

// AppRequest declares an app or changes the fields that Change sets on its
// route. It is idempotent.
type AppRequest struct {
	Caller
	Name   string
	Change []RouteChange
}

// RouteChange sets one keyword of a route. Keyword, and Value printed by
// %v-like text in Old and New, are what app.changed says.
type RouteChange struct {
	Keyword string
	Apply   func(*muru.Route) // sets the value
	Print   func(muru.Route) string
}

// DeployRequest starts an app's next release.
type DeployRequest struct {
	Caller
	App  string
	Plan muru.ReleasePlan
	Hold bool
	// OnConflict says what to do about a live rollout; it does not matter to a
	// release that is held.
	OnConflict OnConflict
}

// SplitRequest sets shares by hand; the rest is the baseline's. No shares
// give everything back.
type SplitRequest struct {
	Caller
	App    string
	Shares []muru.SplitArm
}

// ReleaseRequest is promote, or stop of one release.
type ReleaseRequest struct {
	Caller
	Release muru.ReleaseID
	Reason  string
}

// RollbackRequest is rollback of an app, or of a release if Release is set.
type RollbackRequest struct {
	Caller
	App     string
	Release muru.ReleaseID
	To      muru.ReleaseID // zero: the release that served before
	Reason  string
}

// CanaryRequest starts a rollout; [NewCanary] has the defaults. A MinRequests
// of 0 is 1 all the same: nothing is never a pass.
type CanaryRequest struct {
	Caller
	Release     muru.ReleaseID
	Steps       []muru.Step // Share and Hold; Number and Of are filled in
	Gates       []muru.Gate // beside the default ones; naming one of those replaces it
	Approve     muru.Approve
	Judge       string  // "sequential" or "threshold"; empty is sequential
	Alpha       float64 // sequential: false alarms of one gate over all of the rollout, in percent; 0 is 1%
	MinRequests int
	Deadline    time.Duration // per step, from its start; 0: hold + 10m
	OnNoData    muru.NoData
	OnFail      OnFail
	OnConflict  OnConflict
	Until       Until
	FromStep    int  // the step to begin with; 0 is 1. See [Engine.Retry]
	Shield      bool // the baseline answers in the place of the candidate's failures: see [muru.Routing]
}

// judging is how the rollout is judged.
func (q CanaryRequest) judging() judging {
	least := max(1, q.MinRequests)
	if q.Until == UntilConfident {
		least = 1 // the proof decides whether there were enough
	}
	return judging{q.Judge, q.Alpha, least}
}

// ObserveRequest is the judge without the hands.
type ObserveRequest struct {
	Caller
	Release     muru.ReleaseID
	Gates       []muru.Gate
	Hold        time.Duration
	MinRequests int
	Deadline    time.Duration // 0: hold + 10m
}

// RolloutRequest is pause, resume or abort.
type RolloutRequest struct {
	Caller
	Rollout int
	Step    int // resume: the step it must be waiting for; 0: whichever
	Reason  string
}

// EventQuery selects events. Zero fields select all.
type EventQuery struct {
	App     string
	Release muru.ReleaseID // its events and those of its workers and rollouts
	Rollout int
	Run     int
	After   int // with a higher number than this
	Since   time.Time
	Kind    string      // may end in *
	Level   *muru.Level // this level and above
	Limit   int         // keep the newest; 0: all
}

// RunEnd says how a run ended, for [Engine.EndRun].
type RunEnd uint8

// The ends of a run.
const (
	RunFinished RunEnd = iota
	RunFailed
	RunCancelled
)

// NewCanary returns the request that canary() makes when nothing but the
// release is named: 10% and 50% for 30 s each, at least 100 requests a step.
func NewCanary(release muru.ReleaseID) CanaryRequest {
	return CanaryRequest{
		Release:     release,
		Steps:       []muru.Step{{Share: 1000, Hold: 30 * time.Second}, {Share: 5000, Hold: 30 * time.Second}},
		Judge:       "sequential",
		MinRequests: 100,
	}
}
