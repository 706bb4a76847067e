package host

import (
	"context"
	"sync"
	"time"
)

// A life is the context of a request at a server that speaks HTTP. It ends
// when muru ends the request, which is not when its client leaves: see depart.
// Err is the cause. It has no values, is ready for use when zero and safe for
// concurrent use.
//
// The context package has all of this at the price of a dozen allocations a
// request; most requests end without anyone having asked when they must.
type life struct {
	mu    sync.Mutex // guards all below
	cause error
	done  chan struct{} // made when asked for
	calls []*lateCall
	first [1]*lateCall // what calls begins in
	one   lateCall     // the first of them
}

// A lateCall is a function to be called at the end.
type lateCall struct{ f func() }

var _ context.Context = (*life)(nil)

// end ends it; the first cause counts.
func (l *life) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	l.cause = cause
	if l.done != nil {
		close(l.done)
	}
	for _, c := range l.calls {
		go c.f()
	}
	l.calls = nil
}

// Deadline implements [context.Context]: there is none.
func (l *life) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (l *life) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err implements [context.Context]; so does [context.Cause] return it.
func (l *life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Value implements [context.Context].
func (l *life) Value(any) any { return nil }

// AfterFunc has f called on a goroutine of its own when the life ends, at
// once if it has; stop reports whether it came before that. The context
// package uses it, too.
func (l *life) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		go f()
		return func() bool { return false }
	}
	c := &l.one
	if l.calls == nil {
		l.calls = l.first[:0]
	} else {
		c = new(lateCall)
	}
	c.f = f
	l.calls = append(l.calls, c)
	return func() bool { return l.forget(c) }
}

// forget takes c off the calls and reports whether it was there.
func (l *life) forget(c *lateCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.calls {
		if other == c {
			l.calls = append(l.calls[:i], l.calls[i+1:]...)
			return true
		}
	}
	return false
}
