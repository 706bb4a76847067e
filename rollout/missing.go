package rollout

import (
	"time"

	"muru"
)

// stepWithoutData does what the plan says of a step whose time is up without
// a verdict of every gate.
func (a *actor) stepWithoutData(now time.Time) {
	l := a.live
	missing := l.missing(now)
	message := messageNoData(l.at(), missing)
	said := a.rolloutEvent(muru.LevelWarning, muru.RolloutNoData, muruItself,
		eventAtStep(l.Step.Number, placeOf(*l.Step), eventNoData(missing, l.plan.OnNoData)))
	if l.plan.OnNoData == muru.NoDataRollback {
		a.rollBackLive(message, said)
		return
	}
	l.noData = true
	a.await(a.whatIsNext(), messageNoDataAwaits(message, a.name), said)
}

// missing says what keeps a step from being over.
func (l *live) missing(now time.Time) string {
	if !l.dark() && l.Step.Requests < l.plan.judging().least {
		return missingRequests(l.Step.Requests, l.plan.judging().least, l.spent)
	}
	for _, v := range l.Verdicts {
		if v.Result != muru.Pass {
			if v.Message == "" {
				v.Message = l.examiner.reason(v.Gate)
			}
			return missingVerdict(v, l.spent)
		}
	}
	switch {
	case l.unbalanced:
		return missingOther(missingBalance, l.spent)
	case !l.proven() && l.plan.Until == UntilConfident:
		return missingOther(missingProof, l.spent)
	case !l.settled:
		return missingOther(missingOpen, l.spent)
	}
	return missingRequests(l.Step.Requests, l.least(), l.spent)
}
