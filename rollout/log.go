package rollout

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"muru"
)

// defaultLogSize bounds a log that was given no size.
const defaultLogSize = 100_000

// subscriberBuffer is how many events a subscriber may lag behind before it
// is dropped.
const subscriberBuffer = 1024

// A Log is the numbered record of what happened. It lives in memory and keeps
// the newest events up to its size. Its methods are safe for concurrent use.
type Log struct {
	clock Clock
	max   int

	mu     sync.Mutex // guards what is below
	events []muru.Event
	seq    int
	subs   map[chan muru.Event]func()
}

// NewLog returns an empty log that keeps max events; 0 means 100,000. A nil
// clock is [RealClock].
func NewLog(clock Clock, max int) *Log {
	if clock == nil {
		clock = RealClock{}
	}
	if max <= 0 {
		max = defaultLogSize
	}
	return &Log{clock: clock, max: max, subs: map[chan muru.Event]func(){}}
}

// Append numbers e, stamps it with the time unless it has one, keeps it and
// hands it to the subscribers. It returns the event as kept and never waits.
func (l *Log) Append(e muru.Event) muru.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq, e.Message = l.seq, muru.OneLine(e.Message)
	if e.Time.IsZero() {
		e.Time = l.clock.Now()
	}
	l.events = append(l.events, e)
	// Dropping a tenth at a time keeps the cost of an append constant.
	if len(l.events) > l.max+l.max/10 {
		l.events = slices.Clone(l.events[len(l.events)-l.max:])
	}
	for ch, stop := range l.subs {
		select {
		case ch <- e:
		default:
			delete(l.subs, ch)
			close(ch)
			stop()
		}
	}
	return e
}

// Subscribe returns a channel of the events from now on. It is closed when
// ctx ends, or when the subscriber fell more than a thousand events behind:
// the log waits for nobody. What was missed can be asked for with
// [Log.Query].
func (l *Log) Subscribe(ctx context.Context) <-chan muru.Event {
	ch := make(chan muru.Event, subscriberBuffer)
	l.mu.Lock()
	defer l.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, ok := l.subs[ch]; ok {
			delete(l.subs, ch)
			close(ch)
		}
	})
	l.subs[ch] = func() { stop() }
	return ch
}

// Query returns the events that q selects, oldest first.
func (l *Log) Query(q EventQuery) []muru.Event {
	l.mu.Lock()
	events := l.events[max(0, len(l.events)-l.max):]
	l.mu.Unlock()
	// The slice above is never written to again: appends go behind it.
	var found []muru.Event
	for i := len(events) - 1; i >= 0; i-- {
		if q.Limit > 0 && len(found) == q.Limit {
			break
		}
		if q.selects(events[i]) {
			found = append(found, events[i])
		}
	}
	slices.Reverse(found)
	return found
}

// selects reports whether q wants e.
func (q EventQuery) selects(e muru.Event) bool {
	switch {
	case q.Release != (muru.ReleaseID{}) && e.Subject != q.Release.String():
		return false
	case q.App != "" && e.Subject != q.App && !strings.HasPrefix(e.Subject, q.App+"@"):
		return false
	case q.Rollout != 0 && e.Data["rollout"] != q.Rollout:
		return false
	case q.Run != 0 && e.Data["run"] != q.Run && e.Subject != "run "+strconv.Itoa(q.Run):
		return false
	case !q.Since.IsZero() && e.Time.Before(q.Since):
		return false
	case q.Kind != "" && !muru.KindMatches(e.Kind, q.Kind):
		return false
	case q.Level != nil && e.Level < *q.Level:
		return false
	}
	return true
}
