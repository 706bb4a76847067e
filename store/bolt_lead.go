package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Lead needs no lease here: the process that holds the file leads, and the
// file's lock ends with it. Within the process the leaders of a name take
// turns. ttl is not used.
func (b *Bolt) Lead(ctx context.Context, name, value string, ttl time.Duration) (Term, error) {
	if err := Check(nil, []Op{Put(name, []byte(value), 0)}, nil); err != nil {
		return nil, err
	}
	seat := b.seat(name)
	select {
	case seat <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to lead %.80q: %w: %w", name, ErrUnavailable, context.Cause(ctx))
	case <-b.closing:
		return nil, fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	result, err := b.Txn(ctx, nil, []Op{Put(name, []byte(value), 0)}, nil)
	if err != nil {
		<-seat
		return nil, fmt.Errorf("lead %.80q: %w", name, err)
	}
	t := &boltTerm{store: b, name: name, epoch: result.Rev, seat: seat, lost: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		<-seat
		return nil, err
	}
	b.running.Go(t.watchClose)
	return t, nil
}

// seat returns the channel whose one place the leader of name has. Names are
// few, so they are kept.
func (b *Bolt) seat(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seats[name] == nil {
		b.seats[name] = make(chan struct{}, 1)
	}
	return b.seats[name]
}

type boltTerm struct {
	store *Bolt
	name  string
	epoch Rev // the revision of the put that made it leader
	seat  chan struct{}
	once  sync.Once
	lost  chan struct{} // closed when the term has ended
}

func (t *boltTerm) Epoch() Rev                  { return t.epoch }
func (t *boltTerm) Guard() Cmp                  { return CmpMod(t.name, Equal, t.epoch) }
func (t *boltTerm) Deadline() (time.Time, bool) { return time.Time{}, false }
func (t *boltTerm) Lost() <-chan struct{}       { return t.lost }

// Resign deletes the key, unless somebody changed it, and gives up the seat.
func (t *boltTerm) Resign(ctx context.Context) error {
	var err error
	t.once.Do(func() {
		_, err = t.store.Txn(ctx, []Cmp{t.Guard()}, []Op{Del(t.name)}, nil)
		close(t.lost)
		<-t.seat
	})
	if err != nil {
		return fmt.Errorf("resign as %.80q: %w", t.name, err)
	}
	return nil
}

// watchClose ends the term when the store is closed.
func (t *boltTerm) watchClose() {
	select {
	case <-t.lost:
	case <-t.store.closing:
		t.once.Do(func() { close(t.lost); <-t.seat })
	}
}
