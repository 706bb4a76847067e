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
	rated []rated     // those of them that are rates, in their order
	marks []string    // headers of the header gates, in the order of gates
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

// rated is a gate on how many of the requests were events: failures, slow
// ones, or ones that the app marked.
type rated struct {
	gate    muru.Gate
	percent float64 // of requests that may be
	limit   int     // index of the limit it counts by, -1
	mark    int     // index of the mark it counts, -1
}

// events counts the gate's events in c.
func (r rated) events(c counts) int {
	switch {
	case r.limit >= 0:
		return c.slow[r.limit]
	case r.mark >= 0:
		return c.marked[r.mark]
	}
	return c.class[5]
}

func newThreshold(who arms, gates []muru.Gate, least int, wake func()) *threshold {
	t := &threshold{who: who, least: max(1, least), wake: wake}
	for _, g := range gates {
		percent, of, timed := slowPercent(g.Name)
		switch {
		case g.Kind == muru.GateHeader:
			t.rated = append(t.rated, rated{g, g.Max.Value, -1, len(t.marks)})
			t.marks = append(t.marks, g.Header)
		case g.Kind != muru.GateBuiltin || g.Name == muru.GateProbe:
			continue
		case timed:
			t.rated = append(t.rated, rated{g, percent, len(t.limits), -1})
			t.limits = append(t.limits, limit{g, of, percent, g.Max.Duration()})
		case g.Name != muru.GateCrashes:
			t.rated = append(t.rated, rated{g, g.Max.Value, -1, -1})
		}
		t.gates = append(t.gates, g)
	}
	t.Begin(opening{Generation: ^uint64(0)}) // counts nothing until it is begun
	return t
}

// Begin implements [judge].
func (t *threshold) Begin(o opening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(o)
}

func (t *threshold) begin(o opening) {
	t.opening = o
	t.candidate = newArm(t.who.Candidate, len(t.limits), t.marks)
	t.baseline = newArm(t.who.Baseline, len(t.limits), t.marks)
}

// arm returns the arm that counts a fact, nil if it belongs to none.
func (t *threshold) arm(f muru.Fact) *arm {
	switch {
	case f.Generation < t.opening.Generation:
		return nil
	case f.Release == t.who.Candidate:
		return t.candidate
	case f.Release == t.who.Baseline && t.opening.Paired && !t.opening.Shadow:
		return t.baseline
	}
	return nil
}

// Done implements [muru.Sink].
func (t *threshold) Done(f muru.Fact) {
	t.mu.Lock()
	crossed := t.done(f)
	t.mu.Unlock()
	if crossed {
		t.wake()
	}
}

// done counts a request, and reports whether something may be decided.
func (t *threshold) done(f muru.Fact) (crossed bool) {
	a := t.arm(f)
	if a == nil {
		return false
	}
	before := t.candidate.step.requests
	a.done(f, f.Arrived.Add(f.Duration))
	return t.crossed(before, a)
}

// Overdue implements [muru.Sink].
func (t *threshold) Overdue(f muru.Fact, th muru.Threshold) {
	t.mu.Lock()
	crossed := t.overdue(f, th)
	t.mu.Unlock()
	if crossed {
		t.wake()
	}
}

func (t *threshold) overdue(f muru.Fact, th muru.Threshold) (crossed bool) {
	a := t.arm(f)
	if a == nil {
		return false
	}
	before := t.candidate.step.requests
	var gates []int
	for i, l := range t.limits {
		if l.of == th.Of && l.after == th.After {
			gates = append(gates, i)
		}
	}
	if gates != nil {
		a.overdue(f, gates, f.Arrived.Add(th.After))
	}
	return t.crossed(before, a)
}

// Pair implements [muru.Sink]: both are requests of the window.
func (t *threshold) Pair(user, shadow muru.Fact) {
	t.mu.Lock()
	crossed := t.pair(user, shadow)
	t.mu.Unlock()
	if crossed {
		t.wake()
	}
}

func (t *threshold) pair(user, shadow muru.Fact) (crossed bool) {
	if user.Generation < t.opening.Generation || !t.opening.Shadow ||
		user.Release != t.who.Baseline || shadow.Release != t.who.Candidate {
		return false
	}
	before := t.candidate.step.requests
	t.baseline.paired(user, t.limits)
	t.candidate.paired(shadow, t.limits)
	return t.crossed(before, t.candidate)
}

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

// Marks implements [judge].
func (t *threshold) Marks() []string { return t.marks }

// Told implements [judge].
func (t *threshold) Told() []memory { return nil }

// Memory implements [judge]: there is nothing that this one carries on.
func (t *threshold) Memory(bool) []memory { return nil }

// Recall implements [judge].
func (t *threshold) Recall([]memory) {}

// Confident implements [judge]: comparing rates proves nothing.
func (t *threshold) Confident() bool { return false }

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

// Balance implements [judge].
func (t *threshold) Balance() (candidate, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opening.Shadow {
		return 0, 0 // a client and its copy are on both arms: nothing was split
	}
	return t.candidate.minted, t.candidate.minted + t.baseline.minted
}

// Shielded implements [judge].
func (t *threshold) Shielded() (failures, shielded int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.candidate.failed, t.candidate.shielded
}
