package rollout

import (
	"slices"
	"time"

	"muru"
)

// The last five minutes are kept in parts, so that a look at them covers
// between four and a half and five minutes.
const (
	recentWindow = 5 * time.Minute
	recentParts  = 10
	recentPart   = recentWindow / recentParts
)

// clientsMax bounds the set of clients an arm remembers; later ones are not
// counted. It bounds a number that is shown, not one that decides.
const clientsMax = 1 << 16

// overdueKeep is how much longer than the longest limit a request whose client
// left without an answer is remembered, so that it is not counted a second
// time when it is overdue.
const overdueKeep = 30 * time.Second

// counts are what one arm did in one stretch of time. slow is by the index
// of the time gate it belongs to.
type counts struct {
	requests  int
	class     [6]int
	durations muru.Histogram
	queue     muru.Histogram
	slow      []int
	marked    []int // by the index of the header gate
}

func newCounts(timeGates, marks int) counts {
	all := make([]int, timeGates+marks)
	return counts{slow: all[:timeGates:timeGates], marked: all[timeGates:]}
}

func (c *counts) add(o counts) {
	c.requests += o.requests
	for i := range c.class {
		c.class[i] += o.class[i]
	}
	c.durations.Add(o.durations)
	c.queue.Add(o.queue)
	for i := range o.slow {
		c.slow[i] += o.slow[i]
	}
	for i := range o.marked {
		c.marked[i] += o.marked[i]
	}
}

// requestKey tells one request from another: a fact has no number, but a
// client sends no two requests in the same nanosecond.
type requestKey struct {
	client  uint64
	arrived int64
}

func keyOf(f muru.Fact) requestKey { return requestKey{f.Client, f.Arrived.UnixNano()} }

// An arm counts one release since the window began: over all of it, and over
// its last five minutes. It is guarded by its judge's mutex.
type arm struct {
	id    muru.ReleaseID
	first time.Time // the earliest arrival
	step  counts
	parts [recentParts]counts
	slots [recentParts]int64 // which part of time each of parts holds

	crashes int
	clients map[uint64]int64 // when the first request arrived that is known of each
	// open holds the requests counted as overdue that have not ended, left
	// those that ended without an answer and may still become overdue.
	open map[requestKey]time.Time
	left map[requestKey]struct{}

	failed    int // requests that ended with a 5xx
	shielded  int // those of them that the baseline answered in the end
	minted    int // clients whose identity was made for their request
	timeGates int
	marks     []string
}

func newArm(id muru.ReleaseID, timeGates int, marks []string) *arm {
	a := &arm{
		id: id, step: newCounts(timeGates, len(marks)), timeGates: timeGates, marks: marks,
		clients: map[uint64]int64{}, open: map[requestKey]time.Time{}, left: map[requestKey]struct{}{},
	}
	for i := range a.slots {
		a.slots[i] = -1
	}
	return a
}

// part returns the counts of the part of the last five minutes that now lies
// in; nil if that is over: a stream tells of its head only at its end.
func (a *arm) part(now time.Time) *counts {
	slot := now.UnixNano() / int64(recentPart)
	i := int(slot % recentParts)
	if slot < a.slots[i] {
		return nil
	}
	if a.slots[i] != slot {
		a.slots[i], a.parts[i] = slot, newCounts(a.timeGates, len(a.marks))
	}
	return &a.parts[i]
}

// recent sums the last five minutes.
func (a *arm) recent(now time.Time) counts {
	sum := newCounts(a.timeGates, len(a.marks))
	newest := now.UnixNano() / int64(recentPart)
	for i, slot := range a.slots {
		if slot > newest-recentParts && slot <= newest {
			sum.add(a.parts[i])
		}
	}
	return sum
}

// both applies fn to the counts of the whole window and of its present part.
func (a *arm) both(now time.Time, fn func(*counts)) {
	fn(&a.step)
	if part := a.part(now); part != nil {
		fn(part)
	}
}

// arrive notes whose request it is and when it came.
func (a *arm) arrive(f muru.Fact) {
	if a.first.IsZero() || f.Arrived.Before(a.first) {
		a.first = f.Arrived
	}
	at := f.Arrived.UnixNano()
	if first, known := a.clients[f.Client]; known && at < first || !known && len(a.clients) < clientsMax {
		a.clients[f.Client] = at
	}
}

// opens reports whether a request that was counted is its client's first in
// the window, as far as is known: one that came before it may not have ended.
func (a *arm) opens(f muru.Fact) bool {
	first, known := a.clients[f.Client]
	return f.Minted || known && f.Arrived.UnixNano() <= first
}

// clientLeft reports whether a request ended because its client left.
func clientLeft(f muru.Fact) bool {
	return f.Reason == muru.ReasonClientGone || f.Status == muru.ReasonClientGone.Status()
}

// done counts a request that ended.
func (a *arm) done(f muru.Fact, now time.Time) {
	a.arrive(f)
	key := keyOf(f)
	_, counted := a.open[key]
	if f.Minted && !counted {
		a.minted++
	}
	delete(a.open, key)
	if f.Status/100 == 5 {
		a.failed++
	}
	if f.Shielded {
		a.shielded++
	}
	gone := clientLeft(f)
	if gone && !counted {
		a.left[key] = struct{}{}
	}
	a.both(now, func(c *counts) {
		if !counted {
			c.requests++
		}
		if class := f.Status / 100; !gone && class >= 1 && class <= 5 {
			c.class[class]++
		}
		c.durations.Observe(f.Duration)
		c.queue.Observe(f.QueueWait)
		if len(f.Marks) > 0 {
			for i, mark := range a.marks {
				if slices.Contains(f.Marks, mark) {
					c.marked[i]++
				}
			}
		}
	})
}

// paired counts one half of a pair, which tells of its slowness itself.
func (a *arm) paired(f muru.Fact, limits []limit) {
	now := f.Arrived.Add(f.Duration)
	a.done(f, now)
	a.both(now, func(c *counts) {
		for i, l := range limits {
			if l.exceeded(f) {
				c.slow[i]++
			}
		}
	})
}

// exceeded reports whether a request was slower than the limit.
func (l limit) exceeded(f muru.Fact) bool {
	took := f.Duration
	if l.of == muru.OfQueueWait {
		took = f.QueueWait
	}
	return l.after > 0 && took > l.after
}

// overdue counts a request past the limit of the time gates at the indexes.
func (a *arm) overdue(f muru.Fact, gates []int, now time.Time) {
	a.arrive(f)
	key := keyOf(f)
	_, open := a.open[key]
	_, left := a.left[key]
	if !open && !left {
		a.open[key] = f.Arrived
		if f.Minted {
			a.minted++
		}
	}
	a.both(now, func(c *counts) {
		if !open && !left {
			c.requests++
		}
		for _, g := range gates {
			c.slow[g]++
		}
	})
}

// atWorst counts the requests that are slow for a time gate, and all, if those
// that are undecided turn out slow: inside the release and not overdue yet, or
// left by their client and not past the limit yet, with a second for the edge
// to say that they are.
func (a *arm) atWorst(gate int, limit time.Duration, inside int, now time.Time) (slow, all int) {
	undecided := max(0, inside-len(a.open))
	slow, all = a.step.slow[gate]+undecided, a.step.requests+undecided
	for key := range a.left {
		if now.Sub(time.Unix(0, key.arrived)) < limit+time.Second {
			slow++
		}
	}
	return slow, all
}

// sweep forgets abandoned requests that can no longer become overdue.
func (a *arm) sweep(longest time.Duration, now time.Time) {
	for key := range a.left {
		if now.Sub(time.Unix(0, key.arrived)) > longest+overdueKeep {
			delete(a.left, key)
		}
	}
}

// withOpen returns the histogram of durations with the requests that are
// overdue and still open at the age they have.
func (a *arm) withOpen(h muru.Histogram, now time.Time) muru.Histogram {
	h = h.Clone()
	for _, arrived := range a.open {
		h.Observe(now.Sub(arrived))
	}
	return h
}

// snapshot returns the arm as gates' functions and people see it.
func (a *arm) snapshot(now time.Time) muru.Arm {
	return muru.Arm{
		Release: a.id, Requests: a.step.requests, Clients: len(a.clients), Class: a.step.class,
		Crashes: a.crashes, Durations: a.withOpen(a.step.durations, now), QueueWait: a.step.queue.Clone(),
	}
}
