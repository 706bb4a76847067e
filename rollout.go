package muru

import (
	"fmt"
	"time"
)

// RolloutState is where a rollout is. The zero value is Queued.
type RolloutState uint8

// The states of a rollout. Frozen is Paused with the message that says so.
const (
	Queued RolloutState = iota
	Running
	Paused
	AwaitingApproval
	Promoted
	RolledBack
	Aborted
	Superseded
)

var rolloutStateNames = [...]string{
	"queued", "running", "paused", "awaiting_approval", "promoted", "rolled_back", "aborted", "superseded",
}

func (s RolloutState) String() string { return enumName(rolloutStateNames[:], s, "RolloutState") }

// rolloutMoves is the table of legal moves of a rollout:
//
//	queued            → running | aborted
//	running           → paused | awaiting_approval | promoted | rolled_back | aborted | superseded
//	paused            → running | promoted | rolled_back | aborted | superseded
//	awaiting_approval → running | promoted | rolled_back | aborted | superseded
//
// The four ends have no way out.
var rolloutMoves = [...][]RolloutState{
	Queued:           {Running, Aborted},
	Running:          {Paused, AwaitingApproval, Promoted, RolledBack, Aborted, Superseded},
	Paused:           {Running, Promoted, RolledBack, Aborted, Superseded},
	AwaitingApproval: {Running, Promoted, RolledBack, Aborted, Superseded},
	Promoted:         nil,
	RolledBack:       nil,
	Aborted:          nil,
	Superseded:       nil,
}

// CanBecome reports whether a rollout may move from s to next.
func (s RolloutState) CanBecome(next RolloutState) bool { return canBecome(rolloutMoves[:], s, next) }

// Live reports whether the rollout has not ended.
func (s RolloutState) Live() bool { return int(s) < len(rolloutMoves) && len(rolloutMoves[s]) > 0 }

// A Rollout is a snapshot of one attempt to move an app from baseline to
// candidate. Numbers count up per installation.
type Rollout struct {
	Number    int
	Candidate ReleaseID
	Baseline  ReleaseID
	State     RolloutState
	Share     Share // the candidate's now
	Step      *Step // the current one; nil before the first and after the end
	Steps     []Step
	Gates     []Gate
	Verdicts  []Verdict // the latest of each gate
	Message   string
	Started   time.Time
	Ended     time.Time // zero while live
	By        string
	Run       int // the run that started it, 0 if none
}

// String returns the short form: rollout 7 of shop@r9.
func (r Rollout) String() string { return fmt.Sprintf("rollout %d of %s", r.Number, r.Candidate) }

// Live reports whether the rollout has not ended.
func (r Rollout) Live() bool { return r.State.Live() }

// A Step is a share and how long it is held. Elapsed and Requests are what
// the step has seen so far; they are zero in a plan.
type Step struct {
	Number   int // from 1
	Of       int
	Share    Share
	Shadow   bool // the candidate gets copies of that share's requests, and answers nobody
	Hold     time.Duration
	Elapsed  time.Duration // of the hold
	Requests int           // of the candidate that ended or are overdue
}

// String returns the form every text uses: step 1 of 2: 10% for 30s.
func (s Step) String() string { return fmt.Sprintf("step %d of %d: %s", s.Number, s.Of, s.Plan()) }

// Plan returns the step without its number: 10% for 30s, or 25% shadow for 1h.
func (s Step) Plan() string { return fmt.Sprintf("%s for %s", s.ShareText(), FormatDuration(s.Hold)) }

// ShareText returns the share as people write it: 10%, or 25% shadow.
func (s Step) ShareText() string {
	if s.Shadow {
		return s.Share.String() + " shadow"
	}
	return s.Share.String()
}

// Approve says what a rollout waits for a person before.
type Approve uint8

// The ways to ask for approval.
const (
	ApproveNothing   Approve = iota
	ApproveEachStep          // before each step after the first
	ApprovePromotion         // before all traffic
	ApproveAll               // both
)

func (a Approve) String() string {
	return enumName([]string{"none", "each-step", "promotion", "all"}, a, "Approve")
}

// NoData says what happens when a step reaches its deadline without its
// minimum of requests.
type NoData uint8

// The policies for a step without data.
const (
	NoDataApprove  NoData = iota // pause; a person may go on without proof
	NoDataRollback               // roll back
)

func (n NoData) String() string { return enumName([]string{"approve", "rollback"}, n, "NoData") }
