package daemon

import (
	"context"
	"sync"
	"time"

	"muru/control"
)

// The bounds of what is kept of a run's messages, for whoever attaches later.
const (
	messagesKept = 1000
	bytesKept    = 1 << 20
)

// An output keeps the newest messages of a run and hands them to everybody
// who follows. A follower that is slow delays nobody and misses what is no
// longer kept. The zero value is ready and safe for concurrent use.
type output struct {
	mu      sync.Mutex // guards what follows
	kept    []numbered
	size    int
	last    int           // number of the newest message
	dropped int           // number of the newest that is not kept, needless ones aside
	changed chan struct{} // closed at the next change; nil: nobody waits
	finish  chan struct{} // closed when the run has ended; made by whoever needs it first
	closed  bool
	err     error
	at      time.Time
}

type numbered struct {
	n int
	control.Message
}

// replaces reports whether a message makes the one before it needless: the
// next progress of the same rollout, or the next call.
func replaces(m, old control.Message) bool {
	return m.Kind == old.Kind && (m.Kind == control.KindProgress && m.Rollout == old.Rollout || m.Kind == control.KindBegin)
}

// add keeps a message.
func (o *output) add(m control.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	if n := len(o.kept); n > 0 && replaces(m, o.kept[n-1].Message) {
		o.size -= sizeOf(o.kept[n-1].Message)
		o.kept = o.kept[:n-1]
	}
	o.kept = append(o.kept, numbered{o.last, m})
	o.size += sizeOf(m)
	for len(o.kept) > messagesKept || o.size > bytesKept && len(o.kept) > 1 {
		o.size -= sizeOf(o.kept[0].Message)
		o.dropped = o.kept[0].n
		o.kept = o.kept[1:]
	}
	o.wake()
}

func sizeOf(m control.Message) int { return len(m.Text) + len(m.Value) }

// wake tells everybody who waits. o.mu is held.
func (o *output) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// end says that the run has ended with err. It is called once.
func (o *output) end(err error, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.err, o.at = true, err, at
	o.wake()
	if o.finish == nil {
		o.finish = make(chan struct{})
	}
	close(o.finish)
}

// ended returns how and when the run ended, if it has.
func (o *output) ended() (at time.Time, done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at, o.closed, o.err
}

// done is closed when the run has ended.
func (o *output) done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finish == nil {
		o.finish = make(chan struct{})
	}
	return o.finish
}

// after returns the messages with a number above n, or else what to wait for,
// nil if the run has ended; missed says that some in between are not kept.
func (o *output) after(n int) (messages []numbered, missed bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, m := range o.kept {
		if m.n > n {
			messages = append(messages, o.kept[i:]...)
			break
		}
	}
	if len(messages) == 0 && !o.closed {
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed = o.changed
	}
	return messages, n < o.dropped, changed
}

// follow hands over what is kept and what comes until the run has ended, and
// returns how. When ctx ends first, it returns why.
func (o *output) follow(ctx context.Context, out func(control.Message)) error {
	last := 0
	for {
		messages, missed, changed := o.after(last)
		if missed {
			out(control.Message{Kind: control.KindPrint, Text: "... what the run said in between is not kept"})
		}
		for _, m := range messages {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			out(m.Message)
			last = m.n
		}
		if len(messages) > 0 {
			continue
		}
		if changed == nil {
			_, _, err := o.ended()
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
