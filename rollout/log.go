package rollout

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muru"
)

// defaultLogSize bounds a log that was given no size.
const defaultLogSize = 100_000

// subscriberBuffer is how many events a subscriber may lag behind before it
// is dropped.
const subscriberBuffer = 1024

// A Log is the numbered record of what happened. [NewLog] makes one that lives
// in memory, [OpenLog] one that keeps its events in a store as well. In memory
// it holds the newest events up to its size. Its methods are safe for
// concurrent use.
type Log struct {
	clock Clock
	max   int
	disk  *logDisk // nil: in memory only

	mu     sync.Mutex // guards what is below
	events []kept     // never written to again once they are there
	seq    int
	subs   map[chan muru.Event]func()
}

// NewLog returns an empty log in memory that keeps max events; 0 means
// 100,000. A nil clock is [RealClock].
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
// hands it to the subscribers. It never waits: a log on a store writes it
// within 50 ms, in order with all others. While a transaction of the engine is
// on its way to the disk, e gets its number after the transaction's events;
// it is returned without one then.
func (l *Log) Append(e muru.Event) muru.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Message = muru.OneLine(e.Message)
	if e.Time.IsZero() {
		e.Time = l.clock.Now()
	}
	if l.disk != nil {
		return l.appendDurable(e)
	}
	return l.showLocked(e)
}

// showLocked gives an event its number, keeps it and hands it out.
func (l *Log) showLocked(e muru.Event) muru.Event {
	l.seq++
	e.Seq = l.seq
	l.events = append(l.events, keep(e))
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

// kept is an event in memory with what queries ask for most: looking a number
// up in a hundred thousand maps takes too long.
type kept struct {
	muru.Event
	rollout, run int
}

func keep(e muru.Event) kept {
	k := kept{Event: e}
	k.rollout, _ = e.Data["rollout"].(int)
	k.run, _ = e.Data["run"].(int)
	if n, ok := strings.CutPrefix(e.Subject, "run "); ok && k.run == 0 {
		k.run, _ = strconv.Atoi(n)
	}
	return k
}

// Find returns the events that q selects, oldest first. What memory does not
// hold is read from the store, if there is one, for up to 5 s.
//
// A list that may lack older events comes with an error: timeout, failed (the
// store cannot be read, or muru is stopping) or the cause of ctx. What was
// found until then is returned with it.
func (l *Log) Find(ctx context.Context, q EventQuery) ([]muru.Event, error) {
	l.mu.Lock()
	events := l.events[max(0, len(l.events)-l.max):]
	first := l.seq + 1
	l.mu.Unlock()
	if q.After > 0 && len(events) > 0 && q.After >= events[0].Seq {
		found, _ := q.collect(events[indexOf(events, q.After+1):]) // those who follow ask for each event: this is quick
		return found, nil
	}
	if len(events) > 0 {
		first = events[0].Seq
	}
	// The slice above is never written to again: appends go behind it.
	found, done := q.collect(events)
	if done || l.disk == nil {
		return found, nil
	}
	older, err := l.older(ctx, q, len(found), first)
	return append(older, found...), err
}

// Query is [Log.Find] for those who can do without events that cannot be read
// now: they are left out.
func (l *Log) Query(q EventQuery) []muru.Event {
	found, _ := l.Find(context.Background(), q)
	return found
}

// collect returns the events that q selects. done means that no older event
// can be wanted.
func (q EventQuery) collect(events []kept) (found []muru.Event, done bool) {
	if q == (EventQuery{}) {
		found = make([]muru.Event, 0, len(events))
	}
	if q.Limit > 0 {
		for i := len(events) - 1; i >= 0 && len(found) < q.Limit; i-- {
			if q.selects(&events[i]) {
				found = append(found, events[i].Event)
			}
		}
		slices.Reverse(found)
	} else {
		for i := range events {
			if q.selects(&events[i]) {
				found = append(found, events[i].Event)
			}
		}
	}
	// Events are in the order of their times, but for a clock set back: the
	// search goes on a while past the first that is too old.
	over := len(events) > 0 && !q.Since.IsZero() && events[0].Time.Before(q.Since.Add(-time.Hour))
	over = over || len(events) > 0 && events[0].Seq <= q.After
	return found, over || q.Limit > 0 && len(found) == q.Limit
}

// selects reports whether q wants e.
func (q EventQuery) selects(e *kept) bool {
	switch {
	case q.Release != (muru.ReleaseID{}) && e.Subject != q.Release.String():
		return false
	case q.App != "" && e.Subject != q.App && !strings.HasPrefix(e.Subject, q.App+"@"):
		return false
	case q.Rollout != 0 && e.rollout != q.Rollout:
		return false
	case q.Run != 0 && e.run != q.Run:
		return false
	case e.Seq <= q.After:
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
