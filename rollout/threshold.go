package rollout

import (
	"slices"
	"sync"
	"time"

	"muru"
)

// threshold is the plain judge: with its minimum of requests in the window, a
// gate fails when the candidate is over the limit and worse than ratio times
// the baseline in the same window. Without a request of the baseline the limit
// alone decides. Crashes need no minimum.
//
// A rate is looked at over the window and over its last five minutes, and
// fails if either does, so that hours of clean traffic do not hide a fresh
// fault. The last five minutes are asked only once they have the minimum
// themselves: one failure of two requests proves nothing.
type threshold struct {
	who   arms
	gates []muru.Gate // those it measures
	least int         // requests of the candidate it needs, at least 1
	wake  func()

	mu        sync.Mutex // guards what is below
	opening   opening
	limits    []limit // the time gates', in the order of gates
	candidate *arm
	baseline  *arm
}

// limit is a time gate's: what the edge watches for it.
type limit struct {
	gate    muru.Gate
	of      muru.Quantity
	percent float64       // of requests that may exceed it
	after   time.Duration // 0: not known yet
}

func newThreshold(who arms, gates []muru.Gate, least int, wake func()) *threshold {
	t := &threshold{who: who, least: max(1, least), wake: wake}
	for _, g := range gates {
		if g.Kind != muru.GateBuiltin || g.Name == muru.GateProbe {
			continue
		}
		t.gates = append(t.gates, g)
		if percent, of, ok := slowPercent(g.Name); ok {
			t.limits = append(t.limits, limit{g, of, percent, g.Max.Duration()})
		}
	}
	t.Begin(opening{Generation: ^uint64(0)}) // counts nothing until it is begun
	return t
}

// Begin implements [judge].
func (t *threshold) Begin(o opening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening = o
	t.candidate = newArm(t.who.Candidate, len(t.limits))
	t.baseline = newArm(t.who.Baseline, len(t.limits))
}

// arm returns the arm that counts a fact, nil if it belongs to none.
func (t *threshold) arm(f muru.Fact) *arm {
	switch {
	case f.Generation < t.opening.Generation:
		return nil
	case f.Release == t.who.Candidate:
		return t.candidate
	case f.Release == t.who.Baseline && t.opening.Paired:
		return t.baseline
	}
	return nil
}

// Done implements [muru.Sink].
func (t *threshold) Done(f muru.Fact) {
	t.mu.Lock()
	a := t.arm(f)
	before := t.candidate.step.requests
	if a != nil {
		a.done(f, f.Arrived.Add(f.Duration))
	}
	crossed := t.crossed(before, a)
	t.mu.Unlock()
	if crossed {
		t.wake()
	}
}

// Overdue implements [muru.Sink].
func (t *threshold) Overdue(f muru.Fact, th muru.Threshold) {
	t.mu.Lock()
	a := t.arm(f)
	before := t.candidate.step.requests
	if a != nil {
		var gates []int
		for i, l := range t.limits {
			if l.of == th.Of && l.after == th.After {
				gates = append(gates, i)
			}
		}
		if gates != nil {
			a.overdue(f, gates, f.Arrived.Add(th.After))
		}
	}
	crossed := t.crossed(before, a)
	t.mu.Unlock()
	if crossed {
		t.wake()
	}
}

// Pair implements [muru.Sink]. Copies are not weighed by this judge.
func (t *threshold) Pair(user, _ muru.Fact) { t.Done(user) }

// crossed reports whether something may have been decided: the candidate's
// first request starts the clock of the hold, its minimum arms the gates.
func (t *threshold) crossed(before int, a *arm) bool {
	n := t.candidate.step.requests
	return a == t.candidate && n != before && (before == 0 || n == t.least)
}

// Harm implements [judge].
func (t *threshold) Harm(id muru.ReleaseID, _ muru.Harm) {
	t.mu.Lock()
	switch {
	case t.opening.At.IsZero():
	case id == t.who.Candidate:
		t.candidate.crashes++
	case id == t.who.Baseline:
		t.baseline.crashes++
	}
	t.mu.Unlock()
	t.wake()
}

// Thresholds implements [judge].
func (t *threshold) Thresholds() []muru.Threshold {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []muru.Threshold
	for _, l := range t.limits {
		th := muru.Threshold{Of: l.of, After: l.after}
		if l.after > 0 && !slices.Contains(all, th) {
			all = append(all, th)
		}
	}
	return all
}

// Unset implements [judge].
func (t *threshold) Unset(missing bool) []muru.Gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	var unset []muru.Gate
	for _, l := range t.limits {
		if !l.gate.Max.IsSet() && (!missing || l.after == 0) {
			unset = append(unset, l.gate)
		}
	}
	return unset
}

// SetLimit implements [judge].
func (t *threshold) SetLimit(gate string, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.limits {
		if t.limits[i].gate.Name == gate {
			t.limits[i].after = after
		}
	}
}

// Seen implements [judge].
func (t *threshold) Seen() (first time.Time, requests int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.candidate.first, t.candidate.step.requests
}

// Window implements [judge].
func (t *threshold) Window(now time.Time) muru.Window {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := muru.Window{Candidate: t.candidate.snapshot(now)}
	if !t.opening.At.IsZero() {
		w.Elapsed = now.Sub(t.opening.At)
	}
	if t.opening.Paired {
		b := t.baseline.snapshot(now)
		w.Baseline = &b
	}
	return w
}
