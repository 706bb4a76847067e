package rollout

import (
	"context"

	"muru"
)

// RetryRequest starts the plan of a rollout that has ended once more.
type RetryRequest struct {
	Caller
	Rollout  int
	FromStep int // the step to begin with; 0 is 1
}

// Retry starts a new rollout with the plan of an earlier one, on the same
// candidate, whose workers are warm still, and returns as [Engine.Canary]
// does. Errors: not_found; usage (there is no such step); refused (it has not
// ended, it was promoted, its candidate cannot be tried, or one of its gates
// was a function of a recipe that this muru has not run).
func (e *Engine) Retry(ctx context.Context, q RetryRequest) (muru.Rollout, Report, error) {
	if number, ok := again[int](e, q.Caller); ok {
		r, err := e.Rollout(number)
		return r, reportState(r), err
	}
	a, err := e.actorOfRollout(q.Rollout)
	if err != nil {
		return muru.Rollout{}, "", err
	}
	var started muru.Rollout
	err = a.ask(ctx, func() error {
		plan, err := a.planAgain(q)
		if err != nil {
			return err
		}
		started, err = a.startRollout(plan, plan.Gates)
		return err
	})
	if err != nil {
		return muru.Rollout{}, "", err
	}
	return started, reportStarted(started), nil
}

// planAgain returns the plan of a rollout that is to be tried once more.
func (a *actor) planAgain(q RetryRequest) (CanaryRequest, error) {
	var plan CanaryRequest
	refused := func(format string, args ...any) (CanaryRequest, error) {
		return plan, muru.Errorf(muru.KindRefused, format, args...)
	}
	r := a.view.Load().rollout(q.Rollout)
	if r.Live() {
		return plan, muru.Errorf(muru.KindRefused, "rollout %d is %s: it has not ended", r.Number, r.State).
			WithHint("muru rollout abort %s", a.name)
	}
	l := a.past[q.Rollout]
	if l == nil {
		return refused("rollout %d is gone", q.Rollout)
	}
	from := max(1, q.FromStep)
	if from > len(l.Steps) {
		return plan, muru.Errorf(muru.KindUsage, "from_step: rollout %d has %d steps", r.Number, len(l.Steps))
	}
	for _, g := range l.Gates {
		if g.Kind == muru.GateCheck && g.Check == nil {
			return plan, muru.Errorf(muru.KindRefused, "gate %s is a function of a recipe that muru has not run since it was started", g.Name).
				WithHint("run the recipe again")
		}
	}
	plan = l.plan
	plan.Caller, plan.FromStep, plan.Gates, plan.OnConflict = q.Caller, from, l.Gates, ConflictRefuse
	return plan, nil
}
