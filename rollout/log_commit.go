package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"muru"
	"muru/store"
)

// errConflict is a record that is not as this engine wrote it last.
var errConflict = errors.New("the state is not what this muru wrote last: another one seems to use it")

// A write is one record to put. It is guarded: the key must be as it was at
// mod, and absent for 0.
type write struct {
	key   string
	value []byte
	mod   store.Rev
}

// commit writes records and events in one transaction and returns its
// revision. Events that are not on disk yet go with it, or before it if they
// are many, so that the order on disk is that of the numbers. The new events
// are shown when they are on disk; on an error nothing was done and they are
// not shown, unless the error is store.ErrUnknown.
//
// commit waits for its turn and for the disk. It is never called with a mutex
// held.
func (l *Log) commit(writes []write, events []muru.Event) (store.Rev, error) {
	d := l.disk
	d.turn <- struct{}{} // held for writeWithin at most
	defer func() { <-d.turn }()
	l.mu.Lock()
	d.busy = true
	l.mu.Unlock()
	rev, err := l.commitInTurn(writes, events)
	l.mu.Lock()
	d.busy = false
	l.numberLocked()
	l.mu.Unlock()
	l.note(err)
	return rev, err
}

// commitInTurn does it, while no other event can get a number.
func (l *Log) commitInTurn(writes []write, events []muru.Event) (store.Rev, error) {
	d := l.disk
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	for d.overfull(len(writes) + len(events)) {
		if _, err := l.put(ctx, nil, nil); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	idle := len(d.pending) == 0 && len(d.waiting) == 0
	l.mu.Unlock()
	if idle && len(writes) == 0 && len(events) == 0 {
		return 0, nil
	}
	return l.put(ctx, writes, events)
}

// opsMax is how many operations a transaction of ours has: the store's bound,
// less the counter. eventsMax keeps its bytes below the store's bound.
const (
	opsMax    = store.MaxOps - 1
	eventsMax = store.MaxTxnBytes / 2 / eventBytesMax
)

// overfull reports whether pending events must be written before n more
// operations.
func (d *logDisk) overfull(n int) bool { return len(d.pending) > max(0, min(opsMax-n, eventsMax)) }

// put makes one transaction of records, new events and as many of the pending
// ones as there is room for. Nothing else touches pending meanwhile.
func (l *Log) put(ctx context.Context, writes []write, events []muru.Event) (store.Rev, error) {
	d := l.disk
	pending := d.pending[:min(len(d.pending), eventsMax, max(0, opsMax-len(writes)-len(events)))]
	var cmps []store.Cmp
	var puts []store.Op
	for _, w := range writes {
		cmps = append(cmps, store.Unchanged(w.key, store.KV{Mod: w.mod}))
		puts = append(puts, store.Put(w.key, w.value, 0))
	}
	for _, e := range pending {
		puts = append(puts, store.Put(eventKey(e.Seq), encodeEvent(e), 0))
	}
	seq := l.seq // moves in turn only while busy
	now := l.clock.Now()
	for i := range events {
		if events[i].Time.IsZero() {
			events[i].Time = now
		}
		events[i].Message = muru.OneLine(events[i].Message)
		puts = append(puts, store.Put(eventKey(seq+1+i), encodeEvent(events[i]), 0))
	}
	reserved := d.reserved
	if seq+len(events) > reserved-reserveAhead/2 {
		reserved = seq + len(events) + reserveAhead
		puts = append(puts, store.Put(keyEventCounter, encodeCounter(reserved), 0))
	}
	rev, err := transact(ctx, d.store, cmps, puts)
	d.compactSoon(rev)
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, store.ErrUnknown) {
		// They may be on disk: their numbers are not given to others.
		l.seq += len(events)
	}
	if err != nil {
		return 0, err
	}
	d.reserved = reserved
	d.pending = d.pending[len(pending):]
	if len(d.pending) == 0 {
		d.pending = nil
	}
	for _, e := range events {
		l.showLocked(e)
	}
	return rev, nil
}

// historyKept is how many revisions of the store are kept when the older ones
// are forgotten. Nothing here reads them; they are for those who watch.
const historyKept = 1000

// compactSoon forgets old revisions now and then, in the background, because
// a live rollout makes one every second.
func (d *logDisk) compactSoon(rev store.Rev) {
	if rev < d.compactAt || d.ctx.Err() != nil {
		return
	}
	d.compactAt = rev + 2*historyKept
	if rev <= historyKept {
		return
	}
	d.tasks.Go(func() { _ = d.store.Compact(d.ctx, rev-historyKept) }) // or the next one does
}

// tries is how often a transaction is tried whose answer was lost.
const tries = 5

// transact makes a transaction, and makes it again while it is not known
// whether it was done: if it was, the comparisons fail and what is stored is
// what was to be. The error is store.ErrUnknown when that could not be found
// out, and nothing was done for any other.
func transact(ctx context.Context, s store.Store, cmps []store.Cmp, puts []store.Op) (store.Rev, error) {
	gets := make([]store.Op, len(puts))
	for i, p := range puts {
		gets[i] = store.Get(p.Key)
	}
	var unknown error
	for try := range tries {
		result, err := s.Txn(ctx, cmps, puts, gets)
		switch {
		case errors.Is(err, store.ErrUnknown):
			unknown = err
			_ = Sleep(ctx, RealClock{}, 10*time.Millisecond<<try)
			continue
		case err != nil && unknown != nil:
			return 0, fmt.Errorf("%w: %w", unknown, err)
		case err != nil:
			return 0, err
		case result.OK:
			return result.Rev, nil
		case stored(result.Gets, puts):
			return result.Gets[0].Mod, nil
		}
		return 0, errConflict
	}
	return 0, unknown
}

// stored reports whether the keys hold what was to be put.
func stored(got []store.KV, puts []store.Op) bool {
	for i, kv := range got {
		if kv.Version == 0 || !bytes.Equal(kv.Value, puts[i].Value) {
			return false
		}
	}
	return len(got) == len(puts)
}

// note keeps whether the store can be written, and says once when it cannot
// be: from then on changes are refused until it can.
func (l *Log) note(err error) {
	d := l.disk
	unwritable := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
	l.mu.Lock()
	said := d.failing != nil
	if err == nil || unwritable {
		d.failing = err
	}
	l.mu.Unlock()
	if unwritable && !said {
		l.Append(muru.Event{
			Level: muru.LevelError, Kind: muru.DaemonDiskFull, Subject: "muru", By: muruItself.By, Message: eventDiskFull(d.path),
		})
	}
}

// writable reports whether changes can be written. After a failure it tries,
// so that room is noticed by the first who needs it.
func (l *Log) writable() error {
	if l.failure() == nil {
		return nil
	}
	_, err := l.commit(nil, nil) // there is something to write: the event that says so, at least
	return err
}

// failure returns why the last write failed; nil if it did not.
func (l *Log) failure() error {
	if l.disk == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk.failing
}

// finish writes the rest and gives the numbers back that were taken in
// advance and not used.
func (l *Log) finish() error {
	d := l.disk
	for {
		_, err := l.commit(nil, nil)
		if err != nil {
			return err
		}
		l.mu.Lock()
		rest, seq, reserved := len(d.pending)+len(d.waiting), l.seq, d.reserved
		l.mu.Unlock()
		if rest > 0 {
			continue
		}
		if reserved == seq {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		defer cancel()
		_, err = transact(ctx, d.store, nil, []store.Op{store.Put(keyEventCounter, encodeCounter(seq), 0)})
		return err
	}
}
