package rollout

import (
	"math"
	"strconv"
	"time"

	"muru"
)

// rolloutSalt is the salt of a rollout's split: each rollout tries its
// candidate on other people first.
func rolloutSalt(number int) string { return "rollout " + strconv.Itoa(number) }

// rolloutEvent makes an event of the live rollout, whose subject is the
// candidate.
func (a *actor) rolloutEvent(level muru.Level, kind string, by Caller, message string) muru.Event {
	e := a.event(level, kind, a.live.Candidate.String(), by, message)
	e.Data = map[string]any{"rollout": a.live.Number}
	if run := cmpInt(by.Run, a.live.Run); run != 0 {
		e.Data["run"] = run
	}
	return e
}

// cmpInt is a, or b when a is 0.
func cmpInt(a, b int) int {
	if a == 0 {
		return b
	}
	return a
}

// say adds an event that is no change of the app.
func (a *actor) say(e muru.Event) { a.e.log.Append(e) }

// stepEvent says that step k begins.
func (a *actor) stepEvent(k int, by Caller) muru.Event {
	return a.rolloutEvent(muru.LevelNotice, muru.RolloutStep, by, a.live.Steps[k-1].String())
}

// failGate rolls back because of a verdict.
func (a *actor) failGate(v muru.Verdict) {
	l := a.live
	said := a.rolloutEvent(muru.LevelWarning, muru.RolloutGateFailed, muruItself,
		eventAtStep(l.Step.Number, l.at(), v.Message+textEvidence(v)))
	said.Data["gate"] = v.Gate
	if v.Needed > 0 {
		said.Data["evidence"], said.Data["needed"] = min(v.Evidence, evidenceMax), v.Needed
		said.Data["clients"], said.Data["baseline_clients"] = v.Clients, v.BaselineClients
	}
	said.Data["count"], said.Data["requests"] = v.Count, v.Requests
	said.Data["baseline_count"], said.Data["baseline_requests"] = v.BaselineCount, v.BaselineRequests
	said.Data["limit"] = v.Limit.String()
	if l.plan.OnFail == OnFailFreeze {
		a.freeze(v.Message, said, a.rolloutEvent(muru.LevelError, muru.RolloutFrozen, muruItself,
			eventFrozen(l.Number, l.at(), v.Message, a.name)))
		return
	}
	a.rollBackLive(messageGateFailed(l.at(), v.Message), said)
}

// freeze pauses the live rollout where it is because of what happened to it:
// its share and its processes stay.
func (a *actor) freeze(why string, events ...muru.Event) {
	l := a.live
	a.countTime(a.e.clock.Now())
	l.frozen, l.awaitNext, l.noData = true, "", false
	if l.State == muru.AwaitingApproval {
		l.State = muru.Running // what it waited for is off the table
	}
	message := messageFrozen(l.at(), why)
	if l.State == muru.Paused {
		l.Message = message
		_ = a.commit(change{step: true, events: events}) // nobody asked
		return
	}
	_ = a.commit(change{state: &rolloutMove{muru.Paused, message}, events: events}) // nobody asked
}

// rollBackLive takes the candidate out of traffic and keeps it for
// inspection. before are the events that say why.
func (a *actor) rollBackLive(message string, before ...muru.Event) {
	l := a.live
	text := eventRolledBack(l.Number, message)
	if l.plan.Shield {
		text += textShielded(l.shieldedSoFar())
	}
	_ = a.takeOutCandidate(&ending{muru.RolledBack, message, 0}, append(before,
		a.rolloutEvent(muru.LevelWarning, muru.RolloutRolledBack, muruItself, text)))
}

// takeOutCandidate ends the live rollout with all traffic on the baseline.
func (a *actor) takeOutCandidate(end *ending, events []muru.Event) error {
	l := a.live
	next, _ := muru.NewSplit("", l.Baseline)
	moves := a.leaving(next, muru.Held, eventRollout(l.Number, end.message))
	delete(a.honoured, l.Baseline.Number)
	return a.commit(change{split: &next, moves: moves, ended: end, events: events})
}

// promoteLive ends the live rollout with all traffic on the candidate.
func (a *actor) promoteLive(by Caller, message string, before ...muru.Event) error {
	r := a.numbered(a.live.Candidate.Number)
	_, err := a.serveAll(r, by, "", &ending{muru.Promoted, message, muru.Buckets}, before...)
	return err
}

// abortLive ends the live rollout because somebody wants it to.
func (a *actor) abortLive(by Caller, reason string) Report {
	l := a.live
	number, message := l.Number, messageBy(by.who(), l.at(), reason)
	_ = a.takeOutCandidate(&ending{muru.Aborted, message, 0}, []muru.Event{
		a.rolloutEvent(muru.LevelWarning, muru.RolloutAborted, by, eventRollout(number, message)),
	})
	return reportState(a.view.Load().rollout(number))
}

// sayErrors reports the first of a row of errors of each gate.
func (a *actor) sayErrors(errors []muru.Verdict) {
	l := a.live
	bad := map[string]bool{}
	for _, v := range errors {
		bad[v.Gate] = true
		if !l.bad[v.Gate] {
			a.say(a.rolloutEvent(muru.LevelWarning, muru.RolloutGateError, muruItself,
				eventAtStep(l.Step.Number, l.at(), eventGateError(v.Gate, v.Message))))
		}
	}
	l.bad = bad
}

// bothBadEvents is how many failures each release must have had before it is
// said that both are bad.
const bothBadEvents = 5

// sayBothBad reports, once for each gate and step, that a gate would have
// failed if the baseline were any better.
func (a *actor) sayBothBad() {
	l := a.live
	for _, v := range l.Verdicts {
		if v.Gate == muru.GateCrashes || v.Result != muru.Pass || l.bothBad[v.Gate] ||
			v.Count < bothBadEvents || v.BaselineCount < bothBadEvents || !overLimit(v.Candidate, v.Limit) || !overLimit(v.Baseline, v.Limit) {
			continue
		}
		l.bothBad[v.Gate] = true
		what := quantileName(v.Gate)
		if v.Limit.Unit == muru.UnitPercent {
			what = v.Gate + " rate"
		}
		a.say(a.rolloutEvent(muru.LevelError, muru.RolloutBothBad, muruItself,
			eventAtStep(l.Step.Number, l.at(), eventBothBad(what, v.Candidate, v.Baseline, v.Limit))))
	}
}

// overLimit reports whether a measured value is over its limit.
func overLimit(v, limit muru.Measure) bool {
	return v.IsSet() && limit.IsSet() && v.Value > limit.Value
}

// rateLeast is how long traffic must have been seen before it is said how
// much of it there is.
const rateLeast = 10 * time.Second

// saySlowAtStart says, when a step begins, how long it will take at the
// traffic of the last minute if that is longer than its hold.
func (a *actor) saySlowAtStart(now time.Time) {
	l := a.live
	requests, seen := a.feed.recent.rate(now)
	if l.dark() || l.plan.Until == UntilConfident || seen < rateLeast || requests == 0 || l.baseBefore == 0 {
		return
	}
	all := float64(requests) / seen.Minutes() * muru.Buckets / float64(l.baseBefore)
	a.saySlowFor(all * float64(l.Step.Share) / muru.Buckets)
}

// saySlowFor says how long the step will take if the candidate gets so many
// requests a minute, once in a step. It warns if that is past its deadline.
func (a *actor) saySlowFor(perMinute float64) {
	l := a.live
	needs := time.Duration(math.Min(float64(l.least())/perMinute*float64(time.Minute), math.MaxInt64/2))
	if needs <= max(l.Step.Hold, slowAfter) {
		return
	}
	l.slowSaid = true
	level := muru.LevelNotice
	if needs > l.deadline() {
		level = muru.LevelWarning
	}
	a.say(a.rolloutEvent(level, muru.RolloutSlow, muruItself, eventSlow(perMinute, l.at(), needs, l.least())))
}

// slowAfter is how long a step is watched before it is said how long it will
// take.
const slowAfter = time.Minute

// saySlow says once in a step, after its first minute, that its requests will
// not be there when its hold is over. It warns if not even at the deadline.
func (a *actor) saySlow(now time.Time) {
	l := a.live
	if l.slowSaid || !l.swapped || l.dark() || l.Step.Requests == 0 || now.Sub(l.swappedAt) < slowAfter {
		return
	}
	a.saySlowFor(float64(l.Step.Requests) / now.Sub(l.swappedAt).Minutes())
	l.slowSaid = true
}
