package rollout

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"time"

	"muru"
)

// deadlineSlack is how much longer than its hold a step may take that was
// given no deadline.
const deadlineSlack = 10 * time.Minute

// Canary starts a rollout and returns when the table has its first step (or
// it waits for a candidate that is not ready yet). [Engine.WaitRollout] waits
// for its end. With a key that was used it returns the rollout of then.
// Errors: usage (with the position of what is wrong), not_found, refused (the
// candidate serves or has no workers, nothing serves, a rollout is live).
func (e *Engine) Canary(ctx context.Context, q CanaryRequest) (muru.Rollout, Report, error) {
	if number, ok := again[int](e, q.Caller); ok {
		r, err := e.Rollout(number)
		return r, reportState(r), err
	}
	if err := checkSteps(q); err != nil {
		return muru.Rollout{}, "", err
	}
	gates, err := planGates(q.Gates)
	if err != nil {
		return muru.Rollout{}, "", err
	}
	a, err := e.actorOf(q.Release.App)
	if err != nil {
		return muru.Rollout{}, "", err
	}
	var started muru.Rollout
	err = a.ask(ctx, func() error {
		started, err = a.startRollout(q, gates)
		return err
	})
	if err != nil {
		return muru.Rollout{}, "", err
	}
	if started.State == muru.Queued {
		return started, reportQueued(started), nil
	}
	return started, reportStarted(started), nil
}

// checkSteps refuses a plan that cannot be.
func checkSteps(q CanaryRequest) error {
	usage := func(format string, args ...any) *muru.Error { return muru.Errorf(muru.KindUsage, format, args...) }
	if len(q.Steps) == 0 {
		return usage("steps is empty: a rollout needs at least one step").WithHint("steps = [10, 50]")
	}
	for i, s := range q.Steps {
		switch {
		case s.Share < 0:
			return usage("steps[%d]: %s is below 0%%", i, s.Share)
		case s.Share > muru.Buckets:
			return usage("steps[%d]: %s is over 100%%", i, s.Share)
		case s.Shadow && s.Share == 0:
			return usage("steps[%d]: copies of 0%% are none", i)
		case s.Shadow && i > 0 && !q.Steps[i-1].Shadow && q.Steps[i-1].Share > 0:
			return usage("steps[%d]: %s comes after %s: copies come first", i, s.ShareText(), q.Steps[i-1].Share)
		case i > 0 && s.Shadow == q.Steps[i-1].Shadow && s.Share <= q.Steps[i-1].Share:
			return usage("steps[%d]: %s is not above %s", i, s.ShareText(), q.Steps[i-1].ShareText())
		case i > 0 && q.Steps[i-1].Shadow && !s.Shadow && s.Share == 0:
			return usage("steps[%d]: 0%% comes after %s: it comes first", i, q.Steps[i-1].ShareText())
		case s.Hold < 0:
			return usage("steps[%d]: a hold of %s is below 0s", i, muru.FormatDuration(s.Hold))
		case q.Deadline != 0 && q.Deadline < s.Hold:
			return usage("steps[%d]: the deadline of %s is before the end of the hold of %s", i,
				muru.FormatDuration(q.Deadline), muru.FormatDuration(s.Hold))
		}
	}
	if q.MinRequests < 0 {
		return usage("min_requests: %d is below 0", q.MinRequests)
	}
	if q.Deadline < 0 {
		return usage("deadline: %s is below 0s", muru.FormatDuration(q.Deadline))
	}
	if !(q.Alpha >= 0 && q.Alpha <= alphaMax) {
		return usage("alpha: %s is over %d%%", muru.FormatRate(q.Alpha), alphaMax)
	}
	if q.Until == UntilConfident && q.Judge == "threshold" {
		return usage(`until: comparing rates proves nothing: "confident" needs the judge "sequential"`)
	}
	if q.FromStep < 0 || q.FromStep > len(q.Steps) {
		return usage("from_step: there are %d steps", len(q.Steps))
	}
	return checkJudge(q.Judge)
}

// alphaMax is the largest false-alarm budget in percent: with more than even
// odds nobody would learn anything from a verdict.
const alphaMax = 50

// falseAlarms returns how many percent of rollouts of a release no worse than
// its baseline are failed at most: by all gates together that weigh evidence.
// It is 0 where there is no such bound.
func (q CanaryRequest) falseAlarms(gates []muru.Gate) float64 {
	if q.Judge == "threshold" {
		return 0
	}
	return cmp.Or(q.Alpha, alphaPercent) * float64(len(newThreshold(arms{}, gates, 1, nil).rated))
}

func checkJudge(name string) error {
	if name != "" && !slices.Contains(judgeNames, name) {
		err := muru.Errorf(muru.KindUsage, "judge: %q is not a judge", name)
		if suggest(err, name, judgeNames).Hint == "" {
			err = err.WithHint("judge = %q", judgeNames[0])
		}
		return err
	}
	return nil
}

// builtinGates are the gates muru measures itself, for hints.
var builtinGates = []string{
	muru.Gate5xx, muru.GateCrashes, muru.GateP95, muru.GateP99, muru.GateQueueWait, muru.GateProbe,
}

// planGates returns the gates of a rollout: the default ones, each replaced
// by the one that names it, then the others in their order.
func planGates(named []muru.Gate) ([]muru.Gate, error) {
	all := muru.DefaultGates()
	for i, g := range named {
		for _, earlier := range named[:i] {
			if earlier.Name == g.Name {
				return nil, muru.Errorf(muru.KindUsage, "gates[%d]: %s is named twice", i, g.Name)
			}
		}
		g, err := completeGate(i, g)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(d muru.Gate) bool { return d.Name == g.Name })
		if at >= 0 {
			all[at] = g
		} else {
			all = append(all, g)
		}
	}
	return all, nil
}

// completeGate fills in what a gate leaves open and refuses what it cannot be.
func completeGate(i int, g muru.Gate) (muru.Gate, error) {
	usage := func(format string, args ...any) (muru.Gate, error) {
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: "+format, append([]any{i}, args...)...)
	}
	if g.Ratio == 0 {
		g.Ratio = 1
	}
	switch {
	case g.Kind == muru.GateCheck && g.Check == nil:
		return usage("%s has no function", g.Name)
	case g.Kind == muru.GateCheck && slices.Contains(builtinGates, g.Name):
		return usage("%s is measured by muru and takes no function", g.Name)
	case g.Kind == muru.GateCheck:
		return g, nil
	case g.Kind == muru.GateHeader:
		return completeHeader(i, g)
	case g.Kind == muru.GateQuery:
		return completeQuery(i, g)
	case g.Kind != muru.GateBuiltin:
		return usage("%s: %s gates are not supported", g.Name, g.Kind)
	}
	unit := muru.UnitTime
	switch g.Name {
	case muru.Gate5xx:
		unit = muru.UnitPercent
		if !g.Max.IsSet() {
			g.Max = muru.PercentOf(1)
		}
	case muru.GateCrashes:
		unit = muru.UnitCount
		if !g.Max.IsSet() {
			g.Max = muru.CountOf(0)
		}
	case muru.GateP95, muru.GateP99, muru.GateQueueWait:
		if g.Max.IsSet() && g.Max.Value <= 0 {
			return usage("%s: a max of %s is no time", g.Name, g.Max)
		}
	case muru.GateProbe:
		return completeProbe(i, g)
	default:
		err := muru.Errorf(muru.KindUsage, "gates[%d]: muru measures no %q", i, g.Name)
		return g, suggest(err, g.Name, builtinGates)
	}
	if g.Max.IsSet() && g.Max.Unit != unit {
		return usage("%s: a max of %s is in the wrong unit", g.Name, g.Max)
	}
	return g, nil
}

// completeHeader checks a gate on what the app marks.
func completeHeader(i int, g muru.Gate) (muru.Gate, error) {
	switch {
	case slices.Contains(builtinGates, g.Name):
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: %s is measured by muru and takes no header", i, g.Name)
	case g.Header == "":
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: %s has no header", i, g.Name)
	case g.Max.Unit != muru.UnitPercent:
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: %s: max is a percentage of the requests", i, g.Name)
	}
	g.Header = http.CanonicalHeaderKey(g.Header)
	return g, nil
}

func completeProbe(i int, g muru.Gate) (muru.Gate, error) {
	if len(g.Paths) == 0 {
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: probe has no paths", i).WithHint(`gate("probe", paths = ["/healthz"])`)
	}
	for _, p := range g.Paths {
		if _, _, err := splitTarget(p); err != nil {
			return g, muru.Errorf(muru.KindUsage, "gates[%d]: probe: %w", i, err)
		}
	}
	if _, err := regexp.Compile(g.Body); err != nil {
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: probe: body %q is not a regular expression: %w", i, g.Body, err)
	}
	g.Within = cmpOr(g.Within, probeWithin)
	g.Every = cmpOr(g.Every, 5*time.Second)
	if g.Failures <= 0 {
		g.Failures = 2
	}
	return g, nil
}

// mayBeTried refuses a candidate that cannot be.
func (a *actor) mayBeTried(id muru.ReleaseID) (*release, error) {
	r, err := a.release(id)
	if err != nil {
		return nil, err
	}
	refused := func(format string, args ...any) (*release, error) {
		return nil, muru.Errorf(muru.KindRefused, format, args...)
	}
	switch share, _ := a.split.Share(id); {
	case r.State == muru.Serving:
		return refused("%s serves %s of %s already: there is nothing to try", id, share, a.name)
	case r.stopping != nil:
		return refused("%s is being stopped", id)
	case r.State == muru.FailedToStart:
		return refused("%s %s", id, r.Message)
	case r.State != muru.Held && r.State != muru.Warm:
		return refused("%s is %s: a candidate is held or warm", id, r.State)
	case a.baseline() == nil:
		return nil, muru.Errorf(muru.KindRefused, "nothing serves %s: there is no baseline to compare %s with", a.name, id).
			WithHint("muru promote %s", id)
	case a.live == nil && len(a.split.Arms) > 1:
		return nil, muru.Errorf(muru.KindRefused, "%s is split by hand (%s)", a.name, a.split).
			WithHint("give the shares back first: split(%q, {})", a.name)
	}
	return r, nil
}
