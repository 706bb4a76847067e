package rollout

import (
	"time"

	"muru"
)

// live is the rollout that an app is in, with what its actor needs to carry
// it on.
type live struct {
	muru.Rollout
	plan     CanaryRequest
	caller   Caller
	examiner *examiner

	swapped   bool // the table has the present step's share
	settled   bool // nothing that was open at the last look could fail a gate
	swappedAt time.Time
	held      time.Duration // of the hold
	before    time.Duration // of the hold that was served before this window was opened
	stood     time.Duration // how long the hold's clock stood still
	spent     time.Duration // of the deadline
	seen      time.Time     // the last look

	bad       map[string]bool // gates in error at the last look
	bothBad   map[string]bool // gates said in this step to be over the limit on both
	slowSaid  bool
	unproven  bool   // a person let a step go on without proof
	awaitNext string // what an approval would begin: a step or "promotion"
	noData    bool   // it waits because a step had no data
	frozen    bool   // a gate failed and its share was kept

	owed               bool       // the step's share was in force before muru was started again
	savedAt            time.Time  // when its progress was
	failures, shielded int        // of the windows before this one, see [judge]; kept over a restart
	baseBefore         muru.Share // the baseline's when the last minute was counted
	witness            witness    // what the verdicts were said from

	weighedSplit bool     // this step's split was looked at
	unbalanced   bool     // and was off
	memory       []memory // what its judge carried when it ended, or when muru did
}

// promotion is what is approved after the last step.
const promotion = "promotion"

// shieldedSoFar counts the candidate's failures in the rollout, and those that
// its users did not see.
func (l *live) shieldedSoFar() (failures, shielded int) {
	if l.examiner == nil {
		return l.failures, l.shielded // as it was read
	}
	x, z := l.examiner.judge.Shielded()
	return l.failures + x, l.shielded + z
}

// remembered returns what the rollout's judge carries, or carried.
func (l *live) remembered() []memory {
	if l.examiner != nil && l.Live() {
		return l.examiner.judge.Memory(true)
	}
	return l.memory
}

// least is how many requests of the candidate a step needs.
func (l *live) least() int { return max(1, l.plan.MinRequests) }

// proven reports whether the step has what it needs beside a pass of every
// gate: its minimum of requests, or the proof that takes its place.
func (l *live) proven() bool {
	switch {
	case l.dark():
		return true
	case l.plan.Until == UntilConfident && l.paired():
		return l.examiner.judge.Confident()
	}
	return l.Step.Requests >= l.least()
}

// deadline is how long the present step may take.
func (l *live) deadline() time.Duration {
	return cmpOr(l.plan.Deadline, l.Step.Hold+deadlineSlack)
}

// at is where the rollout is now.
func (l *live) at() place {
	if l.swapped && l.Step != nil && l.Step.Shadow {
		return placeOf(*l.Step)
	}
	return place(l.Share)
}

// taken is the share of the traffic that the present step gives the candidate.
func (l *live) taken() muru.Share {
	if l.Step.Shadow {
		return 0
	}
	return l.Step.Share
}

// paired reports whether a baseline gets traffic in the present step.
func (l *live) paired() bool { return l.taken() < muru.Buckets }

// dark reports whether the present step sends nobody to the candidate.
func (l *live) dark() bool { return l.Step.Share == 0 }

// beginStep starts step k, as a part of change c. Its share is in force at
// once if the candidate is ready; otherwise what served before goes on until
// it is.
func (a *actor) beginStep(k int, c change) (err error) {
	l := a.live
	step := l.Steps[k-1]
	l.Step, c.step = &step, true
	l.swapped, l.held, l.before, l.stood, l.spent, l.seen = false, 0, 0, 0, 0, a.e.clock.Now()
	l.weighedSplit, l.unbalanced = false, false
	l.bothBad, l.slowSaid, l.awaitNext, l.noData = map[string]bool{}, false, "", false
	if a.ready(l.Candidate) {
		err = a.putStep(c)
	} else {
		err = a.commit(c)
	}
	if err == nil {
		a.planLook()
	}
	return err
}

// ready reports whether a release can take traffic.
func (a *actor) ready(id muru.ReleaseID) bool {
	r := a.numbered(id.Number)
	return r != nil && r.backend != nil && a.e.host.Ready(id)
}

// putStep puts the present step's share in force and opens the judge's window
// on it, as a part of change c.
func (a *actor) putStep(c change) error {
	l := a.live
	now := a.e.clock.Now()
	next, err := muru.NewSplit(rolloutSalt(l.Number), l.Baseline, muru.SplitArm{Release: l.Candidate, Share: l.taken()})
	if err != nil {
		return a.e.bug("a checked step makes no split: %v", err)
	}
	if l.Step.Number > 1 {
		// From now on the limit is what the baseline did in the last step.
		if w := l.examiner.judge.Window(now); w.Baseline != nil {
			l.examiner.limitsFrom(w.Baseline.Durations, w.Baseline.QueueWait, false)
		}
	}
	a.openWindow(now)
	l.swappedAt = now
	a.readVerdicts(now) // those of the last step say nothing of this one
	l.baseBefore, _ = a.split.Share(l.Baseline)
	l.swapped, l.swappedAt, l.seen, l.Share, l.owed = true, now, now, l.taken(), false
	c.split, c.moves = &next, a.leaving(next, muru.Held, "")
	a.endGrace(c.moves)
	if !l.paired() && a.route.Sticky > 0 {
		a.honoured[l.Baseline.Number] = now.Add(a.route.Sticky)
	}
	if err := a.commit(c); err != nil {
		return err
	}
	l.examiner.tick(now)
	a.saySlowAtStart(now)
	return nil
}

// openWindow makes the judge begin anew with the next table. What was served
// of the hold stays served.
func (a *actor) openWindow(now time.Time) {
	l := a.live
	l.before, l.stood = l.held, 0
	l.failures, l.shielded = l.shieldedSoFar()
	l.examiner.begin(opening{
		At: now, Generation: a.generation + 1, Dark: l.dark(), Paired: l.paired(), Shadow: l.Step.Shadow, Share: l.Step.Share,
	})
}

// look asks the gates and acts on what they say. It runs every second while a
// rollout is live, when a judge wakes the actor, and when a time is up.
func (a *actor) look() {
	l := a.live
	if l == nil {
		return
	}
	now := a.e.clock.Now()
	a.countTime(now)
	if !l.swapped && (l.State == muru.Running || l.owed) && a.ready(l.Candidate) {
		_ = a.putStep(change{}) // nobody asked
	}
	a.askAgainForLimits(now)
	if a.judgeNow(now) {
		return
	}
	l.examiner.tick(now) // after what was answered is heard, which a quick answer would take the place of
	if l.State == muru.Running {
		a.goOn(now)
	}
	if a.live != nil {
		if a.live.State == muru.Running && now.Sub(a.live.savedAt) >= askEvery && a.e.log.failure() == nil {
			a.saveProgress()
		}
		a.planLook()
		a.publish()
	}
}

// countTime lets the clocks of the step go on unless the rollout is paused or
// waits. The hold runs from the arrival of the candidate's first request in
// the step, which becomes known when that request ends; a dark step's from the
// swap.
func (a *actor) countTime(now time.Time) {
	l := a.live
	since := l.seen
	l.seen = now
	if !l.swapped {
		if l.State == muru.Running {
			l.spent += now.Sub(since)
		}
		return
	}
	from, requests := l.examiner.judge.Seen()
	l.Step.Requests = requests
	if l.dark() {
		from = l.swappedAt
	}
	if l.State == muru.Running {
		l.spent += now.Sub(since)
	} else if !from.IsZero() {
		if from.After(since) {
			since = from
		}
		l.stood += max(0, now.Sub(since))
	}
	if !from.IsZero() {
		l.held = max(l.held, l.before+now.Sub(from)-l.stood)
	}
	l.Step.Elapsed = min(l.held, l.Step.Hold)
}

// askAgainForLimits gives gates that miss their limit the baseline's own as
// soon as it has shown one.
func (a *actor) askAgainForLimits(now time.Time) {
	x := a.live.examiner
	if len(x.judge.Unset(true)) == 0 {
		return
	}
	if _, durations, queue := a.feed.recent.sum(now); x.limitsFrom(durations, queue, true) {
		_ = a.commit(change{table: true})
	}
}

// planLook sets the next look: in a second, or when the hold or the deadline
// is over.
func (a *actor) planLook() {
	l := a.live
	wait := askEvery
	if l.State == muru.Running {
		for _, left := range []time.Duration{l.Step.Hold - l.held, l.deadline() - l.spent} {
			if left > 0 {
				wait = min(wait, left)
			}
		}
	}
	a.lookAt = a.e.clock.Now().Add(wait)
}

// judgeNow asks every gate. A failing one ends the rollout, which it reports.
func (a *actor) judgeNow(now time.Time) (ended bool) {
	if before := a.before; before != nil {
		// Whatever somebody asks for now: what the gates say is in force.
		a.before = nil
		defer func() { a.before = a.image() }()
	}
	l := a.live
	a.readVerdicts(now)
	ruling := rule(l.Verdicts)
	if ruling.failed != nil && !l.frozen {
		a.failGate(*ruling.failed)
		return a.live == nil
	}
	a.sayErrors(ruling.errors)
	a.sayBothBad()
	return false
}

// readVerdicts asks every gate what it says now, and keeps what that is said
// from.
func (a *actor) readVerdicts(now time.Time) {
	l := a.live
	judge := l.examiner.judge
	// First: a request that is told to be overdue in between is then still open
	// for this look, and in the verdicts of the next.
	l.settled = l.examiner.settled(now)
	l.Verdicts = l.examiner.verdicts(now)
	l.memory = judge.Told()
	w := &l.witness
	w.step, w.least, w.paired = l.Step.Number, l.plan.judging().least, l.paired()
	w.window = 0
	if l.swapped {
		w.window = now.Sub(l.swappedAt)
	}
	w.candidate, w.all = judge.Balance()
}

// goOn moves a running rollout on: past its step, or to what is to happen
// when the step's time is up.
func (a *actor) goOn(now time.Time) {
	l := a.live
	if l.swapped && l.held >= l.Step.Hold && l.proven() && rule(l.Verdicts).passed && l.settled && a.checkBalance() {
		if a.e.log.failure() == nil {
			a.passStep()
		}
		return // nothing goes up while it cannot be written down; the gates stay armed
	}
	a.saySlow(now)
	if l.spent < l.deadline() {
		return
	}
	if !l.swapped || !a.ready(l.Candidate) {
		a.rollBackLive(messageNotReady(l.spent))
		return
	}
	a.stepWithoutData(now)
}

// passStep begins what follows a step that passed, or asks for its approval.
func (a *actor) passStep() {
	l := a.live
	k := l.Step.Number
	last := k == len(l.Steps)
	ask := l.plan.Approve == muru.ApproveAll || !last && l.plan.Approve == muru.ApproveEachStep ||
		last && l.plan.Approve == muru.ApprovePromotion
	switch {
	case ask:
		next := a.whatIsNext()
		a.await(next, messageAwaits(next, a.name))
	case last:
		_ = a.promoteLive(muruItself, l.passedMessage(muruItself)) // nobody asked
	default:
		_ = a.beginStep(k+1, change{events: []muru.Event{a.stepEvent(k+1, muruItself)}})
	}
}

// passedMessage is what a rollout is promoted for. One that a person let go
// on without proof did not pass everywhere.
func (l *live) passedMessage(by Caller) string {
	if l.unproven {
		return messagePromotedBy(by.who(), l.at(), l.Step.Number, l.Step.Of, "")
	}
	return messagePassed
}

// whatIsNext names what follows the present step.
func (a *actor) whatIsNext() string {
	l := a.live
	if l.Step.Number == len(l.Steps) {
		return promotion
	}
	return l.Steps[l.Step.Number].String()
}

// await stops until a person approves of what is next.
func (a *actor) await(next, message string, before ...muru.Event) {
	l := a.live
	l.awaitNext = next
	_ = a.commit(change{ // nobody asked
		state: &rolloutMove{muru.AwaitingApproval, message},
		events: append(before, a.rolloutEvent(muru.LevelNotice, muru.RolloutAwaiting, muruItself,
			eventRollout(l.Number, message))),
	})
}

// snapshot returns the rollout's public part.
func (l *live) snapshot() muru.Rollout {
	r := l.Rollout
	if r.Step != nil {
		step := *r.Step
		r.Step = &step
	}
	return r
}
