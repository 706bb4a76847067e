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
	stretches := t.stretches(now)
	return t.each(now, func(r rated) muru.Verdict { return t.worst(r, stretches, now) })
}

// stretches returns the window, and its last five minutes if they have the
// minimum of requests.
func (t *threshold) stretches(now time.Time) []stretch {
	longest := time.Duration(0)
	for _, l := range t.limits {
		longest = max(longest, l.after)
	}
	t.candidate.sweep(longest, now)
	t.baseline.sweep(longest, now)
	all := []stretch{{t.candidate.step, t.baseline.step}}
	if now.Sub(t.opening.At) > recentWindow {
		if c := t.candidate.recent(now); c.requests >= t.least {
			all = append(all, stretch{c, t.baseline.recent(now)})
		}
	}
	return all
}

// each returns the verdicts of all gates: crashes, and what judge says of
// those that are rates.
func (t *threshold) each(now time.Time, judge func(rated) muru.Verdict) []muru.Verdict {
	var all []muru.Verdict
	next := 0
	for _, g := range t.gates {
		if g.Name == muru.GateCrashes && g.Kind == muru.GateBuiltin {
			all = append(all, t.crashes(g, now))
			continue
		}
		r := t.rated[next]
		next++
		if t.opening.Dark {
			continue // nobody is sent to the candidate: there is nothing to rate
		}
		v := judge(r)
		v.Gate, v.At = g.Name, now
		all = append(all, v)
	}
	return all
}

// worst judges a gate over each stretch: the first that fails, or else the
// whole window's verdict.
func (t *threshold) worst(r rated, all []stretch, now time.Time) muru.Verdict {
	verdict, over, known := t.measure(r, all[0], now)
	if !known || t.candidate.step.requests < t.least {
		return verdict // no data
	}
	if verdict.Result = muru.Pass; over {
		return failed(r, verdict)
	}
	for _, s := range all[1:] {
		if v, over, _ := t.measure(r, s, now); over {
			return failed(r, v)
		}
	}
	return verdict
}

// failed makes a verdict one that fails, and words it.
func failed(r rated, v muru.Verdict) muru.Verdict {
	v.Result = muru.Fail
	if r.limit >= 0 {
		v.Message = textTime(r.gate.Name, v.Candidate, v.Limit, v.Baseline)
	} else {
		v.Message = textRate(r.gate.Name, v.Candidate, v.Limit, v.Baseline)
	}
	return v
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

// measure returns what a gate comes to over a stretch, without a result, and
// whether the candidate is over the limit and worse than the baseline there.
// known is false while a time gate has no limit yet.
func (t *threshold) measure(r rated, s stretch, now time.Time) (v muru.Verdict, over, known bool) {
	x, n, y, m := r.events(s.candidate), s.candidate.requests, r.events(s.baseline), s.baseline.requests
	v = muru.Verdict{Count: x, Requests: n, BaselineCount: y, BaselineRequests: m, Limit: r.gate.Max}
	if r.limit < 0 {
		v.Candidate, v.Baseline = percentOf(x, n), percentOf(y, m)
	} else {
		l := t.limits[r.limit]
		if l.after == 0 {
			// The baseline has not shown its own time yet.
			return muru.Verdict{Requests: n, BaselineRequests: m}, false, false
		}
		v.Limit = muru.TimeOf(l.after)
		v.Candidate = quantileShown(l, r.limit, t.candidate, s.candidate, now)
		v.Baseline = quantileShown(l, r.limit, t.baseline, s.baseline, now)
	}
	return v, overPercent(x, n, r.percent) && worse(x, n, y, m, r.gate.Ratio), true
}

// percentOf is x of n in percent; not set if n is 0.
func percentOf(x, n int) muru.Measure {
	if n == 0 {
		return muru.Measure{}
	}
	return muru.PercentOf(100 * float64(x) / float64(n))
}

// worse reports whether x of n is a higher rate than ratio times y of m. It
// is cross-multiplied, so that nothing is divided by an arm without requests;
// there is nothing that could excuse the candidate then.
func worse(x, n, y, m int, ratio float64) bool {
	return m == 0 || float64(x)*float64(m) > ratio*float64(y)*float64(n)
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
	return t.settled(now, open)
}

func (t *threshold) settled(now time.Time, open inside) bool {
	if t.opening.Dark {
		return true
	}
	for i, l := range t.limits {
		x, n := t.candidate.atWorst(i, l.after, open.candidate, now)
		y, m := t.baseline.atWorst(i, l.after, open.baseline, now)
		if overPercent(x, n, l.percent) && (!t.opening.Paired || worse(x, n, y, m, l.gate.Ratio)) {
			return false
		}
	}
	return true
}
