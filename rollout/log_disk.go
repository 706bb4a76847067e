package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muru"
	"muru/store"
)

const (
	// flushWithin is how long an event that is no change may be in memory only.
	flushWithin = 50 * time.Millisecond
	// retryEvery is how often what could not be written is tried again.
	retryEvery = time.Second
	// writeWithin bounds a transaction with all its tries.
	writeWithin = 10 * time.Second
	// readWithin bounds the reading of older events, and of records whose last
	// write is in doubt.
	readWithin = 5 * time.Second
	// reserveAhead is how many numbers of events are taken in advance. A crash
	// skips at most so many.
	reserveAhead = 64
	// pageSize is how many records are read at once.
	pageSize = 1000
	// newestAtOnce is how many events are read before the log is open; the
	// others follow in the background.
	newestAtOnce = 500
)

// A logDisk is the part of a [Log] that reaches the store. Every transaction of
// the engine goes through it, one after the other, because each carries events
// and those are numbered without a gap in between.
type logDisk struct {
	store store.Store
	path  string
	turn  chan struct{} // holds a value while somebody writes

	compactAt store.Rev // when old revisions are forgotten next; whose turn it is may use it

	ctx    context.Context // of the goroutines; ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// Guarded by the log's mutex.
	reserved int          // the last number that may be given out
	busy     bool         // a transaction with events is on its way
	pending  []muru.Event // shown and numbered, not on disk
	waiting  []muru.Event // without a number yet
	writing  bool         // the writer runs
	closed   bool
	failing  error    // why the last write failed; nil: it did not
	backlog  *backlog // what is being read into memory; nil: nothing any more
	removed  int      // no event up to this number is kept any more
}

// LogOptions are the choices of [OpenLog]. The zero value is good.
type LogOptions struct {
	Clock Clock  // nil: [RealClock]
	Max   int    // how many events are held in memory; 0: 100,000
	Path  string // of the state file, to name it in events
}

// OpenLog returns the log in s, which has to outlive it. Numbers go on where
// they were. The newest events are there at once; older ones are read into
// memory in the background, and queries that need them wait for that. A disk
// that takes nothing is no error. The caller closes it, after everything that reports.
func OpenLog(ctx context.Context, s store.Store, o LogOptions) (*Log, error) {
	l := NewLog(o.Clock, o.Max)
	d := &logDisk{store: s, path: o.Path, turn: make(chan struct{}, 1)}
	last := 0
	kv, _, err := s.Get(ctx, keyEventCounter)
	if err == nil {
		last, err = decodeCounter(kv.Value)
	} else if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the number of the last event: %w", err)
	}
	from, to := store.Prefix(keyEvents)
	newest, more, err := d.page(ctx, from, to, min(newestAtOnce, l.max))
	if err != nil {
		return nil, fmt.Errorf("read the newest events: %w", err)
	}
	slices.Reverse(newest)
	l.events, l.seq = newest, last
	if n := len(newest); n > 0 {
		l.seq = max(last, newest[n-1].Seq)
	}
	d.reserved = l.seq
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.disk = d
	// Numbers for the first events. A full disk keeps no muru from starting.
	_, err = l.put(ctx, nil, nil)
	if l.note(err); err != nil && l.failure() == nil {
		return nil, fmt.Errorf("reserve numbers of events: %w", err)
	}
	if more && len(newest) < l.max {
		d.backlog = &backlog{first: newest[0].Seq, grown: make(chan struct{})}
		d.tasks.Go(func() { l.load(d.backlog, l.max-len(newest)) })
	}
	return l, nil
}

// page reads the newest events of [from, to), newest first.
func (d *logDisk) page(ctx context.Context, from, to string, limit int) (events []kept, more bool, err error) {
	page, err := d.store.Range(ctx, from, to, store.RangeOpt{Limit: limit, Desc: true})
	if err != nil {
		return nil, false, err
	}
	for _, kv := range page.KVs {
		seq, err := keyNumber(kv.Key, 12)
		if err != nil {
			return nil, false, err
		}
		e, err := decodeEvent(seq, kv.Value)
		if err != nil {
			return nil, false, fmt.Errorf("event %d: %w", seq, err)
		}
		events = append(events, keep(e))
	}
	return events, page.More, nil
}

// appendDurable is Append of a log on a store.
func (l *Log) appendDurable(e muru.Event) muru.Event {
	d := l.disk
	switch {
	case d.closed:
		return l.showLocked(e) // nobody writes any more
	case d.busy || l.seq >= d.reserved:
		d.waiting = append(d.waiting, e)
	default:
		e = l.showLocked(e)
		d.pending = append(d.pending, e)
	}
	l.boundLocked()
	l.writeSoonLocked()
	return e
}

// boundLocked forgets the oldest of what waits for a disk that takes nothing:
// the log in memory has no more room either.
func (l *Log) boundLocked() {
	d := l.disk
	if len(d.waiting) > l.max+l.max/10 {
		d.waiting = slices.Clone(d.waiting[len(d.waiting)-l.max:])
	}
}

// numberLocked gives those that wait their numbers, as far as there are any.
func (l *Log) numberLocked() {
	d := l.disk
	for len(d.waiting) > 0 && l.seq < d.reserved {
		d.pending = append(d.pending, l.showLocked(d.waiting[0]))
		d.waiting = d.waiting[1:]
	}
	if len(d.waiting) == 0 {
		d.waiting = nil
	}
	if len(d.pending) > 0 || len(d.waiting) > 0 {
		l.writeSoonLocked()
	}
}

// writeSoonLocked starts the writer unless it runs.
func (l *Log) writeSoonLocked() {
	d := l.disk
	if !d.writing && !d.closed {
		d.writing = true
		d.tasks.Go(l.write)
	}
}

// write writes what is pending, in batches, until nothing is.
func (l *Log) write() {
	d := l.disk
	for {
		l.mu.Lock()
		wait := flushWithin
		switch {
		case d.failing != nil:
			wait = retryEvery
		case len(d.waiting) > 0 && !d.busy:
			wait = 0 // they are out of numbers
		}
		l.mu.Unlock()
		_ = Sleep(d.ctx, RealClock{}, wait) // the disk's time, not that of a recipe
		_, _ = l.commit(nil, nil)           // noted in failing
		l.mu.Lock()
		if len(d.pending) == 0 && len(d.waiting) == 0 || d.closed {
			d.writing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// Close writes what is not on disk yet and ends the log's goroutines. Events
// that are reported later are not kept. A log in memory has nothing to close.
func (l *Log) Close(ctx context.Context) error {
	d := l.disk
	if d == nil {
		return nil
	}
	l.mu.Lock()
	closed := d.closed
	d.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	d.cancel()
	done := make(chan struct{})
	go func() {
		d.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("close the event log: %w", context.Cause(ctx))
	}
	if err := l.finish(); err != nil {
		return fmt.Errorf("write the last events: %w", err)
	}
	return nil
}
