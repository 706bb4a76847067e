package rollout

import (
	"slices"

	"muru"
)

// startRollout makes the rollout and puts its first step in force.
func (a *actor) startRollout(q CanaryRequest, gates []muru.Gate) (muru.Rollout, error) {
	if q.Shield && a.route.Sticky > 0 {
		return muru.Rollout{}, muru.Errorf(muru.KindRefused, "%s is sticky: a client stays on its release, and the baseline cannot answer for it", a.name).
			WithHint("app(%q, sticky = None)", a.name)
	}
	queued, err := a.resolve(q, gates)
	if err != nil {
		return muru.Rollout{}, err
	}
	if queued != nil {
		remember(a.e, q.Caller, queued.Number)
		return queued.snapshot(), nil
	}
	if a.live == nil {
		if _, err := a.mayBeTried(q.Release); err != nil {
			return muru.Rollout{}, err
		}
	}
	l := a.newLive(q, gates)
	if a.live != nil {
		if err := a.supersede(q.Caller, l.String()); err != nil {
			a.e.forgetRollout(l.Number)
			return muru.Rollout{}, err
		}
	}
	if err := a.begin(l); err != nil {
		return muru.Rollout{}, err
	}
	remember(a.e, q.Caller, l.Number)
	return l.snapshot(), nil
}

// newLive makes a rollout that has not begun.
func (a *actor) newLive(q CanaryRequest, gates []muru.Gate) *live {
	l := &live{
		Rollout: muru.Rollout{
			Number: a.e.nextRollout(a), Candidate: q.Release, Baseline: a.split.Baseline(),
			Steps: slices.Clone(q.Steps), Gates: gates, Started: a.e.clock.Now(), By: q.who(), Run: q.Run,
		},
		plan: q, caller: q.Caller, bad: map[string]bool{},
	}
	for i := range l.Steps {
		l.Steps[i].Number, l.Steps[i].Of = i+1, len(l.Steps)
	}
	return l
}

// begin puts a rollout's first step in force.
func (a *actor) begin(l *live) error {
	base := a.split.Baseline()
	l.State, l.Message, l.Baseline, l.Started = muru.Running, "", base, a.e.clock.Now()
	l.examiner = a.e.newExaminer(arms{l.Candidate, base}, l.plan.judging(), l.Gates, a.nudge)
	a.live = l
	a.feed.attach(l.examiner.judge)
	_, durations, queue := a.feed.recent.sum(l.Started)
	l.examiner.limitsFrom(durations, queue, false)
	return a.beginStep(max(1, l.plan.FromStep), change{step: true, events: []muru.Event{
		a.rolloutEvent(muru.LevelNotice, muru.RolloutStarted, l.caller, eventRolloutStarted(l.Rollout, l.plan.falseAlarms(l.Gates))),
	}})
}
