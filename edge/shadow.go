package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"muru"
)

const (
	// maxCopies bounds the shadow copies of one app that are under way.
	maxCopies = 64
	// copyPatience is how long a copy is waited for when no judge wants to
	// hear of any time.
	copyPatience = 30 * time.Second
)

// errCopyLate is why a copy is given up.
var errCopyLate = fmt.Errorf("shadow copy: %w", muru.ErrHardTimeout)

// copies reports whether the requests of a client in bucket that release
// answers have shadow copies.
func (s *state) copies(release muru.ReleaseID, bucket int) bool {
	shadow := s.routing.Shadow
	return shadow != nil && bucket < int(shadow.Share) && release == s.routing.Split.Baseline() && release != shadow.Release
}

// copy sends a shadow copy of the request if it can be repeated and the
// shadow's release has room. It returns the judge of the request, which hears
// of both as a pair. The client waits for nothing but the making of the copy.
// Copies have no line in the access log and no place in the release's counts
// but muru_shadow_copies_total.
func (q *request) copy(user muru.Fact) *judge {
	s, e, shadow := q.state, q.edge, q.state.routing.Shadow
	q.copied = true
	t := s.targets[shadow.Release]
	if t == nil || !isRead(&q.x) {
		return s.judge
	}
	if !e.admitsCopy(s.app, t) {
		t.stats.dropped.Inc()
		return s.judge
	}
	t.stats.copied.Inc()
	c := &shadowCopy{x: q.x.Again(), state: s}
	c.x.Header = append(slices.Clone(c.x.Header), muru.Field{Name: "Muru-Shadow", Value: "1"})
	c.x.Arrived, c.x.Answer = time.Now(), c
	patience, listens := copyPatience, s.judge
	if s.judge != nil {
		patience = s.judge.longest(copyPatience)
		c.fact = user
		c.fact.Release, c.fact.Arrived = shadow.Release, c.x.Arrived
		c.pair = &pair{sink: s.judge.sink, share: shadow.Share}
		listens = &judge{thresholds: s.judge.thresholds, sink: c.pair}
	}
	go func() {
		defer e.copyEnded(s.app)
		c.run(e, t.backend, patience)
	}()
	return listens
}

// admitsCopy reserves a place for a copy, if there is one.
func (e *Edge) admitsCopy(a *app, t *target) bool {
	if b, ok := t.backend.(muru.BusyBackend); ok && b.Busy() {
		return false
	}
	if a.copies.Add(1) > maxCopies || e.base.Err() != nil {
		a.copies.Add(-1)
		return false
	}
	e.copies.Add(1)
	return true
}

func (e *Edge) copyEnded(a *app) {
	a.copies.Add(-1)
	e.copies.Add(-1)
}

// waitCopies waits until no copy is under way, or ctx ends. The edge is cut,
// so that no new one begins.
func (e *Edge) waitCopies(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for e.copies.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// longest returns the longest duration that the judge wants to hear of, none
// if there is none.
func (j *judge) longest(none time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, t := range j.thresholds {
		if t.Of == muru.OfDuration {
			longest = max(longest, t.After)
		}
	}
	if longest == 0 {
		return none
	}
	return longest
}

// A shadowCopy is a copy of a request and the place where its answer is
// dropped. It is its own goroutine's, which runs in Do; as a [muru.Answer] it
// has that one's rules.
type shadowCopy struct {
	x     *muru.Exchange
	state *state
	fact  muru.Fact // but for how it ended
	pair  *pair     // nil: nobody judges

	held    bool
	status  int
	length  int64 // of the body; -1: not known, or there is none by definition
	written int64
	stream  bool
	overrun bool
	marks   []string
}

// run gives the copy to its release and waits for the end. A copy that takes
// longer than patience is a failure then; the release may have it for longer,
// and so it keeps its place until the release is rid of it.
func (c *shadowCopy) run(e *Edge, backend muru.Backend, patience time.Duration) {
	ctx, cancel := context.WithTimeoutCause(e.base, patience, errCopyLate)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("a backend panicked with a shadow copy", "id", c.x.ID, "panic", p)
			c.fail(muru.ErrWorkerDied)
		}
	}()
	out := backend.Do(ctx, c.x)
	switch {
	case ctx.Err() != nil:
		c.fail(context.Cause(ctx))
	case c.overrun, out.Err == nil && (!c.held || c.length > c.written):
		c.fail(muru.ErrWorkerDied)
	case out.Err != nil:
		c.fail(out.Err)
	default:
		c.end(c.status, muru.ReasonNone)
	}
}

// fail ends a copy that has no complete answer.
func (c *shadowCopy) fail(cause error) {
	for _, refusal := range []error{muru.ErrDraining, muru.ErrDrainCut, muru.ErrQueueFull, muru.ErrQueueTimeout} {
		if errors.Is(cause, refusal) {
			// The release never had it, or has to end: that proves nothing.
			if c.pair != nil {
				c.pair.dropped()
			}
			return
		}
	}
	reason, _ := muru.ReasonOf(cause)
	if c.pair != nil {
		c.pair.copied(c.ended(reason.Status(), reason))
	}
}

// end ends a copy that was answered.
func (c *shadowCopy) end(status int, reason muru.Reason) {
	if c.pair == nil {
		return
	}
	f := c.ended(status, reason)
	f.Stream, f.Marks = c.stream, c.marks
	c.pair.copied(f)
}

// ended may be called while Do runs.
func (c *shadowCopy) ended(status int, reason muru.Reason) muru.Fact {
	f := c.fact
	f.Status, f.Reason, f.Duration = status, reason, time.Since(f.Arrived)
	var started bool
	if f.QueueWait, started = c.x.QueueWait(); !started {
		f.QueueWait = f.Duration
	}
	return f
}

// Inform implements [muru.Answer].
func (c *shadowCopy) Inform(int, []muru.Field) error { return nil }

// Head implements [muru.Answer]. The rest of a stream is nobody's.
func (c *shadowCopy) Head(status int, header []muru.Field, length int64) error {
	c.held, c.status, c.length = true, status, length
	c.marks = c.state.marked(header)
	if c.x.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		c.length = -1
	}
	if c.stream = muru.IsStream(c.x.Method, status, header, length); c.stream {
		c.end(status, muru.ReasonNone)
		return fmt.Errorf("the copy of a stream ends with its head: %w", muru.ErrClientGone)
	}
	return nil
}

// Write implements [muru.Answer].
func (c *shadowCopy) Write(p []byte) (int, error) {
	c.written += int64(len(p))
	if c.length >= 0 && c.written > c.length {
		c.overrun = true
		return 0, fmt.Errorf("answer of %d bytes is longer than promised: %w", c.length, muru.ErrClientGone)
	}
	return len(p), nil
}

// Flush implements [muru.Answer].
func (c *shadowCopy) Flush() error { return nil }

// Trailer implements [muru.Answer].
func (c *shadowCopy) Trailer([]muru.Field) error { return nil }

// Upgrade implements [muru.Answer]. Requests for one are not copied.
func (c *shadowCopy) Upgrade(int, []muru.Field) (io.ReadWriteCloser, error) {
	return nil, fmt.Errorf("a copy cannot be upgraded: %w", muru.ErrClientGone)
}
