package rollout

import (
	"math"
	"slices"

	"muru"
)

// Evidence that the candidate is worse than the baseline, or, from the other
// side, that it is not. It looks at nothing but the events (a failure, a slow
// request) and asks of each which arm it came from: given that an event
// happened, that is a coin whose bias is known under the hypothesis, whatever
// the load does. The idea is Lindon and Malek's (Anytime-Valid Inference for
// Multinomial Count Data, NeurIPS 2022).
//
// The odds of each event are multiplied up for every alternative of a grid of
// rate ratios; the evidence is their mean. Under the hypothesis it is a
// non-negative supermartingale, so that it reaches 1/alpha with probability
// alpha at most, however often it is looked at (Ville).

// worseThan is the grid for "the candidate's rate is more than ratio times
// the baseline's", in multiples of that ratio.
var worseThan = []float64{1.25, 1.5, 2, 3, 5, 10, 20, 50}

// betterThan is the grid for "it is less than ratio times the baseline's".
var betterThan = []float64{0.1, 0.2, 0.33, 0.5, 0.8}

// A tally counts events under one share of the candidate's.
type tally struct {
	share               muru.Share
	candidate, baseline int
}

// evidence is of one gate over a whole rollout. The zero value is not ready;
// see newEvidence. It is guarded by its judge's mutex.
type evidence struct {
	ratio    float64 // what the hypothesis allows the candidate's rate to be, in baseline's
	grid     []float64
	logs     []float64 // L_j of the grid
	tallies  []tally   // what logs are the sum of: those few shares that steps have
	peak     float64   // the largest ln E there was; 0 at the start, since E is 1 then
	odds     []odds    // by the index of tallies
	weighted float64   // ln E now
}

// odds are what one event adds to each L_j.
type odds struct{ candidate, baseline []float64 }

// newEvidence returns evidence against "the candidate's rate is at most ratio
// times the baseline's" for the grid worseThan, against "at least" for
// betterThan.
func newEvidence(ratio float64, grid []float64) *evidence {
	return &evidence{ratio: ratio, grid: grid, logs: make([]float64, len(grid))}
}

// countable reports whether events under a share say anything: a coin that
// can only fall on one side does not.
func countable(share muru.Share) bool { return share > 0 && share < muru.Buckets }

// add weighs x events of the candidate and y of the baseline that happened
// under a share which was fixed before them, and reports whether the evidence
// has a new peak.
func (e *evidence) add(share muru.Share, x, y int) (rose bool) {
	if !countable(share) {
		return false
	}
	i := e.index(share)
	e.tallies[i].candidate += x
	e.tallies[i].baseline += y
	for j := range e.logs {
		e.logs[j] += float64(x)*e.odds[i].candidate[j] + float64(y)*e.odds[i].baseline[j]
	}
	e.weighted = mixture(e.logs)
	if e.weighted > e.peak {
		e.peak = e.weighted
		return true
	}
	return false
}

// index returns where the tally of a share is, making it.
func (e *evidence) index(share muru.Share) int {
	for i := range e.tallies {
		if e.tallies[i].share == share {
			return i
		}
	}
	e.tallies = append(e.tallies, tally{share: share})
	e.odds = append(e.odds, e.oddsUnder(share))
	return len(e.tallies) - 1
}

func (e *evidence) oddsUnder(share muru.Share) odds {
	rho := float64(share) / muru.Buckets
	coin := func(ratio float64) float64 { return ratio * rho / (ratio*rho + 1 - rho) }
	q0 := coin(e.ratio)
	var o odds
	for _, r := range e.grid {
		q := coin(r * e.ratio)
		o.candidate = append(o.candidate, math.Log(q/q0))
		o.baseline = append(o.baseline, math.Log((1-q)/(1-q0)))
	}
	return o
}

// with returns what ln E would be with x and y more events under a share.
func (e *evidence) with(share muru.Share, x, y int) float64 {
	if !countable(share) {
		return e.weighted
	}
	o := e.oddsUnder(share)
	logs := slices.Clone(e.logs)
	for j := range logs {
		logs[j] += float64(x)*o.candidate[j] + float64(y)*o.baseline[j]
	}
	return mixture(logs)
}

// events counts all there were.
func (e *evidence) events() (candidate, baseline int) {
	for _, t := range e.tallies {
		candidate += t.candidate
		baseline += t.baseline
	}
	return candidate, baseline
}

// restore puts back what was recorded. The L_j are sums over the tallies, so
// these are all there is to keep beside the peak.
func (e *evidence) restore(tallies []tally, peak float64) {
	for _, t := range tallies {
		e.add(t.share, t.candidate, t.baseline)
	}
	e.peak = max(e.weighted, peak, 0)
}

// mixture is ln of the mean of exp(logs), which themselves may be far beyond
// what exp can hold.
func mixture(logs []float64) float64 {
	top := slices.Max(logs)
	sum := 0.0
	for _, l := range logs {
		sum += math.Exp(l - top)
	}
	return top + math.Log(sum/float64(len(logs)))
}

// rateBound is the largest rate that a clean run of n clients leaves
// believable: 1 - alpha^(1/n). It is 1 without any.
func rateBound(n int, alpha float64) float64 {
	if n <= 0 {
		return 1
	}
	return -math.Expm1(math.Log(alpha) / float64(n))
}
