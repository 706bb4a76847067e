package rollout

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muru"
)

// A feed is what an app's edge tells its facts to while somebody may want
// them (see listens). It hands them to whoever judges at the time (a rollout, any number
// of observe calls) and keeps the last minute of the release that serves, so
// that a rollout can start from what its baseline did before it.
type feed struct {
	judges atomic.Pointer[[]judge]
	recent lastMinute
}

func newFeed() *feed {
	f := &feed{}
	f.judges.Store(&[]judge{})
	return f
}

// attach and detach are called by the app's actor only.
func (f *feed) attach(j judge) {
	all := append(slices.Clone(*f.judges.Load()), j)
	f.judges.Store(&all)
}

func (f *feed) detach(j judge) {
	all := slices.DeleteFunc(slices.Clone(*f.judges.Load()), func(o judge) bool { return o == j })
	f.judges.Store(&all)
}

// thresholds returns what all judges want watched.
func (f *feed) thresholds() []muru.Threshold {
	var all []muru.Threshold
	for _, j := range *f.judges.Load() {
		for _, t := range j.Thresholds() {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// marks returns the headers all judges want told.
func (f *feed) marks() []string {
	var all []string
	for _, j := range *f.judges.Load() {
		for _, m := range j.Marks() {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// Done implements [muru.Sink].
func (f *feed) Done(fact muru.Fact) {
	f.recent.done(fact)
	for _, j := range *f.judges.Load() {
		j.Done(fact)
	}
}

// Overdue implements [muru.Sink].
func (f *feed) Overdue(fact muru.Fact, t muru.Threshold) {
	for _, j := range *f.judges.Load() {
		j.Overdue(fact, t)
	}
}

// Pair implements [muru.Sink].
func (f *feed) Pair(user, shadow muru.Fact) {
	f.recent.done(user)
	for _, j := range *f.judges.Load() {
		j.Pair(user, shadow)
	}
}

// harm hands on a crash or a kill.
func (f *feed) harm(id muru.ReleaseID, h muru.Harm) {
	for _, j := range *f.judges.Load() {
		j.Harm(id, h)
	}
}

// lastMinute keeps how long the requests of one release took in the last
// minute, in parts of ten seconds.
type lastMinute struct {
	mu    sync.Mutex // guards what is below
	of    muru.ReleaseID
	since time.Time // it has been listened since; zero: nobody listens
	parts [minuteParts]minutePart
}

const (
	minuteParts = 6
	minuteSlot  = time.Minute / minuteParts
)

type minutePart struct {
	slot             int64
	first            time.Time // when the first of its requests ended
	durations, queue muru.Histogram
}

// follow starts over with another release.
func (m *lastMinute) follow(id muru.ReleaseID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != id {
		m.of, m.parts = id, [minuteParts]minutePart{}
		m.since = time.Time{} // the swap that follows says so
	}
}

// listen notes whether facts come from now on.
func (m *lastMinute) listen(on bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !on:
		m.since = time.Time{}
	case m.since.IsZero():
		m.since = now
	}
}

// rate counts the requests of the last minute, or of that part of it in which
// facts came. It begins with its first request: an app that nobody has visited
// until now is not one of few visitors.
func (m *lastMinute) rate(now time.Time) (requests int, seen time.Duration) {
	m.mu.Lock()
	listens, first := !m.since.IsZero(), now
	newest := now.UnixNano() / int64(minuteSlot)
	for _, p := range m.parts {
		if p.slot > newest-minuteParts && p.slot <= newest && p.first.Before(first) {
			first = p.first
		}
	}
	m.mu.Unlock()
	if !listens {
		return 0, 0
	}
	_, durations, _ := m.sum(now)
	return durations.Count(), now.Sub(first)
}

func (m *lastMinute) done(f muru.Fact) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Release != m.of {
		return
	}
	slot := f.Arrived.Add(f.Duration).UnixNano() / int64(minuteSlot)
	p := &m.parts[slot%minuteParts]
	if slot < p.slot {
		return // over: a stream tells of its head only at its end
	}
	if p.slot != slot {
		*p = minutePart{slot: slot, first: f.Arrived.Add(f.Duration)}
	}
	p.durations.Observe(f.Duration)
	p.queue.Observe(f.QueueWait)
}

// sum returns the release followed and its last minute.
func (m *lastMinute) sum(now time.Time) (of muru.ReleaseID, durations, queue muru.Histogram) {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest := now.UnixNano() / int64(minuteSlot)
	for _, p := range m.parts {
		if p.slot > newest-minuteParts && p.slot <= newest {
			durations.Add(p.durations)
			queue.Add(p.queue)
		}
	}
	return m.of, durations, queue
}

// ownLimit returns the quantile that a time gate without a max takes as its
// limit. ok is false while there are too few requests for the quantile to be
// of any: at least one must lie beyond it.
func ownLimit(gate string, durations, queue muru.Histogram) (limit time.Duration, ok bool) {
	percent, of, _ := slowPercent(gate)
	h := durations
	if of == muru.OfQueueWait {
		h = queue
	}
	if float64(h.Count())*percent < 100 {
		return 0, false
	}
	q, ok := h.Quantile(1 - percent/100)
	return max(q, time.Microsecond), ok // 0 would mean that there is no limit
}
