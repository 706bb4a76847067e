package edge

import (
	"sync"
	"time"

	"muru"
)

// A watch tells a judge of one randomised request: Overdue for each threshold
// that passes, once, and Done, once. A timer for each threshold stops when the
// request is answered, or when muru answers a client that is still there; when
// the client left and no answer came, it goes on and fires after Done.
//
// Safe for concurrent use. The judge is called with mu held: it is what keeps
// an Overdue that is on its way from arriving after Done.
type watch struct {
	sink muru.Sink
	x    *muru.Exchange
	pace *pace // of its body

	mu     sync.Mutex
	fact   muru.Fact
	limits []limit
	head   time.Duration // of a stream or upgrade: until its head; 0: none yet
	over   bool          // timers have nothing more to say
	done   bool
}

type limit struct {
	muru.Threshold
	timer *time.Timer
	fired bool
}

func newWatch(j *judge, x *muru.Exchange, p *pace, fact muru.Fact) *watch {
	w := &watch{sink: j.sink, x: x, pace: p, fact: fact, limits: make([]limit, len(j.thresholds))}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, t := range j.thresholds {
		w.limits[i].Threshold = t
		w.limits[i].timer = time.AfterFunc(t.After-time.Since(fact.Arrived), func() { w.passed(i) })
	}
	return w
}

// passed is a timer's end.
func (w *watch) passed(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	l, elapsed := &w.limits[i], time.Since(w.fact.Arrived)
	w.check(l, elapsed)
	if wait, started := queueWait(w.x, w.pace, elapsed); l.Of == muru.OfQueueWait && !l.fired && !started {
		l.timer.Reset(max(l.After-wait, time.Millisecond)) // it waited for its client first
	}
}

// queueWait is how long a request, elapsed after its arrival, waited or waits
// for a worker. A release that reads its body before does not count that, so
// neither do we while it has not started; then started is false.
func queueWait(x *muru.Exchange, p *pace, elapsed time.Duration) (wait time.Duration, started bool) {
	if wait, started = x.QueueWait(); !started {
		wait = max(0, elapsed-p.blocked())
	}
	return wait, started
}

// check reports l once if the request is over it, elapsed after its arrival.
func (w *watch) check(l *limit, elapsed time.Duration) {
	wait, _ := queueWait(w.x, w.pace, elapsed)
	measured := elapsed
	switch {
	case l.Of == muru.OfQueueWait:
		measured = wait
	case w.head > 0:
		measured = w.head
	}
	if l.fired || measured < l.After {
		return
	}
	l.fired = true
	f := w.fact
	f.Duration, f.QueueWait = measured, wait
	if l.Of == muru.OfQueueWait {
		f.Duration = elapsed
	}
	w.sink.Overdue(f, l.Threshold)
}

// headSent ends the time of a stream or upgrade.
func (w *watch) headSent(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = max(1, now.Sub(w.fact.Arrived))
	for i := range w.limits {
		w.check(&w.limits[i], w.head)
	}
	w.stop()
}

// mark adds to the request's fact what is known of its answer.
func (w *watch) mark(marks []string, shielded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fact.Marks, w.fact.Shielded = marks, shielded
}

// end reports that the request has ended. answered is false when the client
// left before anybody answered.
func (w *watch) end(now time.Time, status int, reason muru.Reason, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		panic("BUG: a request ended twice for its judge")
	}
	w.done = true
	elapsed := now.Sub(w.fact.Arrived)
	if !w.over {
		for i := range w.limits {
			w.check(&w.limits[i], elapsed)
		}
	}
	if answered {
		w.stop()
	}
	f := w.fact
	f.Status, f.Reason, f.Duration, f.Stream = status, reason, elapsed, w.head > 0
	if w.head > 0 {
		f.Duration = w.head
	}
	f.QueueWait, _ = queueWait(w.x, w.pace, elapsed)
	w.sink.Done(f)
}

// drop ends the watch of a request that its release did not take. There is no
// Done: it was not that release's request.
func (w *watch) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.stop()
}

func (w *watch) stop() {
	w.over = true
	for _, l := range w.limits {
		l.timer.Stop()
	}
}
