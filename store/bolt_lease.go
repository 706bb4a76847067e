package store

import (
	"context"
	"fmt"
	"time"
)

// retryLease is when a lease that could not be ended is tried again, as when
// the disk is full.
const retryLease = time.Second

// A leaseTimer is what is known of a lease beside the file: the file holds its
// TTL only, so KeepAlive writes nothing.
type leaseTimer struct {
	ttl   time.Duration
	end   time.Time
	ended bool // its time has come: it is being ended, and not renewed any more
}

// readLeases gives every lease in the file its full TTL: while nothing served
// the leases, nobody could renew them.
func (b *Bolt) readLeases() (map[LeaseID]*leaseTimer, error) {
	leases := make(map[LeaseID]*leaseTimer)
	now := time.Now()
	err := b.view(context.Background(), func(r *reader) error {
		return r.tx.Bucket(bucketLease).ForEach(func(k, val []byte) error {
			id, key, ttl, err := decodeLease(k, val)
			if err == nil && key == "" {
				leases[id] = &leaseTimer{ttl: ttl, end: now.Add(ttl)}
			}
			return err
		})
	})
	return leases, err
}

// Grant makes a lease.
func (b *Bolt) Grant(ctx context.Context, ttl time.Duration) (Lease, error) {
	if ttl <= 0 {
		return Lease{}, fmt.Errorf("a lease of %v: %w", ttl, ErrInvalid)
	}
	lease := Lease{TTL: ttl}
	err := b.update(ctx, func(w *writer) error {
		w.state.lastLease++
		w.state.leases++
		lease.ID = w.state.lastLease
		k := leaseKey(lease.ID, "")
		return w.lease.Put(k, encodeTTL(k, ttl))
	}, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leases[lease.ID] = &leaseTimer{ttl: ttl, end: time.Now().Add(ttl)}
	})
	if err != nil {
		return Lease{}, err
	}
	select {
	case b.sooner <- struct{}{}:
	default: // it has been told and has not looked yet
	}
	return lease, nil
}

// KeepAlive renews a lease.
func (b *Bolt) KeepAlive(ctx context.Context, id LeaseID) (time.Duration, error) {
	if err := b.usable(ctx); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	lease, ok := b.leases[id]
	if !ok || lease.ended {
		return 0, fmt.Errorf("lease %d: %w", id, ErrNotFound)
	}
	lease.end = time.Now().Add(lease.ttl)
	return lease.ttl, nil
}

// Revoke ends a lease.
func (b *Bolt) Revoke(ctx context.Context, id LeaseID) error {
	return b.update(ctx, func(w *writer) error { return w.revoke(id) }, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.leases, id)
	})
}

func (w *writer) revoke(id LeaseID) error {
	k := leaseKey(id, "")
	if w.lease.Get(k) == nil {
		return fmt.Errorf("lease %d: %w", id, ErrNotFound)
	}
	for _, key := range w.under(id) {
		kv, err := w.get(key)
		if err != nil {
			return err
		}
		if kv.Version == 0 || kv.Lease != id {
			return fmt.Errorf("key %.80q is not under its lease %d: %w", key, id, errMalformed)
		}
		if err := w.del(kv); err != nil {
			return err
		}
	}
	w.state.leases--
	return w.lease.Delete(k)
}

// endLeases ends leases when their time has come, until the store is closed.
func (b *Bolt) endLeases() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(b.untilNextEnd())
		select {
		case <-timer.C:
		case <-b.sooner:
		case <-b.closing:
			return
		}
		for _, id := range b.takeEnded(time.Now()) {
			b.end(id)
		}
	}
}

// untilNextEnd returns how long until the first lease ends.
func (b *Bolt) untilNextEnd() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := time.Hour
	for _, lease := range b.leases {
		wait = min(wait, time.Until(lease.end))
	}
	return max(wait, 0)
}

// takeEnded marks and returns the leases that ended, and puts them off: one
// that cannot be ended now is tried again later.
func (b *Bolt) takeEnded(now time.Time) []LeaseID {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ended []LeaseID
	for id, lease := range b.leases {
		if !lease.end.After(now) {
			ended = append(ended, id)
			lease.ended, lease.end = true, now.Add(retryLease)
		}
	}
	return ended
}

func (b *Bolt) end(id LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Nobody waits for the outcome, and a failure is tried again.
	_ = b.Revoke(ctx, id)
}
