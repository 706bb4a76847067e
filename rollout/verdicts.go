package rollout

import (
	"time"

	"muru"
)

// A stretch is both arms over one stretch of time: the window, or its last
// five minutes.
type stretch struct {
	candidate, baseline counts
}

// Verdicts implements [judge].
func (t *threshold) Verdicts(now time.Time) []muru.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	longest := time.Duration(0)
	for _, l := range t.limits {
		longest = max(longest, l.after)
	}
	t.candidate.sweep(longest, now)
	t.baseline.sweep(longest, now)
	stretches := []stretch{{t.candidate.step, t.baseline.step}}
	if now.Sub(t.opening.At) > recentWindow {
		if c := t.candidate.recent(now); c.requests >= t.least {
			stretches = append(stretches, stretch{c, t.baseline.recent(now)})
		}
	}
	var all []muru.Verdict
	timeGate := 0
	for _, g := range t.gates {
		i := timeGate
		_, _, timed := slowPercent(g.Name)
		if timed {
			timeGate++
		}
		switch {
		case g.Name == muru.GateCrashes:
			all = append(all, t.crashes(g, now))
		case t.opening.Dark:
			// Nobody is sent to the candidate: there is nothing to rate.
		case timed:
			all = append(all, t.worst(g, stretches, now, func(s stretch) muru.Verdict { return t.timed(i, s, now) }))
		default:
			all = append(all, t.worst(g, stretches, now, func(s stretch) muru.Verdict { return t.rate(g, s) }))
		}
	}
	return all
}

// worst judges a gate over each stretch: the first that fails, or else the
// whole window's verdict.
func (t *threshold) worst(g muru.Gate, all []stretch, now time.Time, judge func(stretch) muru.Verdict) muru.Verdict {
	verdict := judge(all[0])
	for _, s := range all[1:] {
		if v := judge(s); v.Result == muru.Fail && verdict.Result != muru.Fail {
			verdict = v
		}
	}
	verdict.Gate, verdict.At = g.Name, now
	return verdict
}

// crashes judges the gate that needs no minimum.
func (t *threshold) crashes(g muru.Gate, now time.Time) muru.Verdict {
	x, y := t.candidate.crashes, t.baseline.crashes
	v := muru.Verdict{
		Gate: g.Name, Result: muru.Pass, Candidate: muru.CountOf(x), Baseline: muru.CountOf(y), Limit: g.Max,
		Count: x, Requests: t.candidate.step.requests,
		BaselineCount: y, BaselineRequests: t.baseline.step.requests, At: now,
	}
	if float64(x) > g.Max.Value && float64(x) > g.Ratio*float64(y) {
		v.Result = muru.Fail
		v.Message = textCrashes(v.Candidate, v.Limit, v.Baseline)
	}
	return v
}

// rate judges the part of requests answered with a 5xx.
func (t *threshold) rate(g muru.Gate, s stretch) muru.Verdict {
	v := t.proportion(s, s.candidate.class[5], s.baseline.class[5], g.Max.Value, g.Ratio)
	v.Limit = g.Max
	if v.Requests > 0 {
		v.Candidate = muru.PercentOf(100 * float64(v.Count) / float64(v.Requests))
	}
	if v.BaselineRequests > 0 {
		v.Baseline = muru.PercentOf(100 * float64(v.BaselineCount) / float64(v.BaselineRequests))
	}
	if v.Result == muru.Fail {
		v.Message = textRate(g.Name, v.Candidate, v.Limit, v.Baseline)
	}
	return v
}

// timed judges the part of requests that were slower than the limit.
func (t *threshold) timed(i int, s stretch, now time.Time) muru.Verdict {
	l := t.limits[i]
	if l.after == 0 {
		// The baseline has not shown its own time yet.
		return muru.Verdict{Requests: s.candidate.requests, BaselineRequests: s.baseline.requests}
	}
	v := t.proportion(s, s.candidate.slow[i], s.baseline.slow[i], l.percent, l.gate.Ratio)
	v.Limit = muru.TimeOf(l.after)
	v.Candidate = quantileShown(l, i, t.candidate, s.candidate, now)
	v.Baseline = quantileShown(l, i, t.baseline, s.baseline, now)
	if v.Result == muru.Fail {
		v.Message = textTime(l.gate.Name, v.Candidate, v.Limit, v.Baseline)
	}
	return v
}

// quantileShown is the time to show beside a verdict that was found by
// counting: clamped to the side of the limit that the count is on.
func quantileShown(l limit, i int, a *arm, c counts, now time.Time) muru.Measure {
	h := c.queue
	if l.of == muru.OfDuration {
		h = a.withOpen(c.durations, now)
	}
	q, ok := h.Quantile(1 - l.percent/100)
	over := overPercent(c.slow[i], c.requests, l.percent)
	switch {
	case !ok && !over:
		return muru.Measure{}
	case over:
		return muru.TimeOf(max(q, l.after))
	}
	return muru.TimeOf(min(q, l.after))
}

// proportion compares x of the candidate's requests with y of the
// baseline's, over a limit in percent.
func (t *threshold) proportion(s stretch, x, y int, percent, ratio float64) muru.Verdict {
	n, m := s.candidate.requests, s.baseline.requests
	v := muru.Verdict{Count: x, Requests: n, BaselineCount: y, BaselineRequests: m}
	if t.candidate.step.requests < t.least {
		return v // no data
	}
	v.Result = muru.Pass
	// Cross-multiplied, so that nothing is divided by an arm without requests.
	worse := m == 0 || float64(x)*float64(m) > ratio*float64(y)*float64(n)
	if overPercent(x, n, percent) && worse {
		v.Result = muru.Fail
	}
	return v
}

// overPercent reports whether x of n is over a percentage. Comparing percents
// and not fractions keeps 29 of 100 at a limit of 29% from being over it.
func overPercent(x, n int, percent float64) bool {
	return 100*float64(x) > percent*float64(n)
}

// Settled implements [judge]. Without it a hold shorter than a gate's limit
// would pass a candidate whose requests hang: they become slow only later,
// when the step is over. Requests that are open count as if they were going to
// be slow, on both sides.
func (t *threshold) Settled(now time.Time, open inside) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opening.Dark {
		return true
	}
	for i, l := range t.limits {
		x, n := t.candidate.atWorst(i, l.after, open.candidate, now)
		y, m := t.baseline.atWorst(i, l.after, open.baseline, now)
		worse := !t.opening.Paired || m == 0 || float64(x)*float64(m) > l.gate.Ratio*float64(y)*float64(n)
		if overPercent(x, n, l.percent) && worse {
			return false
		}
	}
	return true
}
