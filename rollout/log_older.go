package rollout

import (
	"context"
	"errors"
	"slices"

	"muru"
)

// A backlog is what the log has read so far of the events before those it was
// opened with. Reading all of them takes a second; whoever asks for some
// meanwhile gets them from here as they come, because reading them twice, side
// by side, takes both of them longer. It is guarded by the log's mutex.
type backlog struct {
	first int           // they are numbered below this
	pages [][]kept      // the newest page first, each oldest first; never written to again
	grown chan struct{} // closed, and replaced, when there is another page; closed for good at the end
}

// before returns the events just before number first. known is false if they
// are still to be read.
func (b *backlog) before(first int) (events []kept, known bool) {
	for _, page := range b.pages {
		if page[0].Seq < first {
			return page[:indexOf(page, first)], true
		}
	}
	return nil, false
}

// load reads up to n events into memory. If it cannot, queries read the store,
// and say so if they cannot either.
func (l *Log) load(b *backlog, n int) {
	d := l.disk
	for before, got := b.first, 0; got < n; {
		events, more, err := d.page(d.ctx, keyEvents, eventKey(before), min(pageSize, n-got))
		if err != nil || len(events) == 0 {
			break
		}
		got += len(events)
		before = events[len(events)-1].Seq
		slices.Reverse(events)
		l.mu.Lock()
		b.pages = append(b.pages, events)
		close(b.grown)
		b.grown = make(chan struct{})
		l.mu.Unlock()
		if !more {
			break
		}
	}
	pages := slices.Clone(b.pages) // nobody else adds to them
	slices.Reverse(pages)
	older := slices.Grow(slices.Concat(pages...), 2*newestAtOnce) // not while others wait for the mutex
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) > 0 && l.events[0].Seq == b.first { // not trimmed meanwhile
		l.events = append(older[indexOf(older, d.removed+1):], l.events...)
	}
	d.backlog = nil
	close(b.grown)
}

// older returns the events before the one numbered first that q selects, of
// which it has got some already. On an error they are those that were found.
func (l *Log) older(ctx context.Context, q EventQuery, got, first int) ([]muru.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readWithin, errReadWithin)
	defer cancel()
	limit, n := q.Limit, 0
	var parts [][]muru.Event
	var failed error
	for done := false; !done && first > 1; {
		events, err := l.pageBefore(ctx, first)
		if err != nil {
			failed = cutBefore(ctx, first, err)
		}
		if len(events) == 0 {
			break
		}
		first = events[0].Seq
		if limit > 0 {
			q.Limit = limit - got - n
		}
		var part []muru.Event
		part, done = q.collect(events)
		parts, n = append(parts, part), n+len(part)
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), failed
}

// pageBefore returns some of the events just before the one numbered first,
// oldest first, none if there are no more. They come from memory, from what is
// being read into it, for which it waits, or from the store.
func (l *Log) pageBefore(ctx context.Context, first int) ([]kept, error) {
	d := l.disk
	for {
		l.mu.Lock()
		removed, b := d.removed, d.backlog
		if first-1 <= removed {
			l.mu.Unlock()
			return nil, nil
		}
		page := l.events[:l.indexLocked(first)] // they have come into memory meanwhile
		if len(page) == 0 && b != nil && first <= b.first {
			page, _ = b.before(first)
		}
		var grown chan struct{}
		if b != nil {
			grown = b.grown
		}
		l.mu.Unlock()
		switch {
		case len(page) > 0:
			return page[indexOf(page, removed+1):], nil
		case b == nil || first > b.first:
			page, err := d.storedBefore(ctx, first)
			return page[indexOf(page, removed+1):], err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-d.ctx.Done():
			return nil, errClosed
		}
	}
}

// storedBefore reads a page of the store, oldest first.
func (d *logDisk) storedBefore(ctx context.Context, first int) ([]kept, error) {
	if d.ctx.Err() != nil {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(errClosed) })()
	events, _, err := d.page(ctx, keyEvents, eventKey(first), pageSize)
	slices.Reverse(events)
	return events, err
}

// indexOf finds where the event of that number or the next is.
func indexOf(events []kept, seq int) int {
	i, _ := slices.BinarySearchFunc(events, seq, func(e kept, seq int) int { return e.Seq - seq })
	return i
}

// errReadWithin is why a query that takes too long is cut.
var errReadWithin = errors.New("it takes too long")

// cutBefore says that the events before a number could not be read.
func cutBefore(ctx context.Context, first int, cause error) error {
	const hint = `ask again in a moment, or for newer ones: events(since = "1h")`
	switch why := context.Cause(ctx); {
	case errors.Is(why, errReadWithin):
		return muru.Errorf(muru.KindTimeout, "events before number %d could not be read within %s", first, muru.FormatDuration(readWithin)).
			WithHint(hint)
	case why != nil:
		return why
	case errors.Is(cause, errClosed):
		return cause
	}
	return muru.Errorf(muru.KindFailed, "events before number %d cannot be read: %w", first, cause).WithHint(hint)
}
