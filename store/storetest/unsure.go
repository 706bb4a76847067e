package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"muru/store"
)

// Moment is when an [Unsure] store loses its answer.
type Moment uint8

// The moments.
const (
	BeforeCommit Moment = iota // nothing was done
	AfterCommit                // it was done, or refused
)

// Unsure returns s with every other change answered by ErrUnknown, as a
// remote engine does when the answer is lost: it was not made at all, or it
// was made, by the moment. Reads are as they are. Closing it closes s.
func Unsure(s store.Store, when Moment) store.Store {
	return &unsure{Store: s, when: when}
}

type unsure struct {
	store.Store
	when  Moment
	calls atomic.Int64
}

// lose calls do, unless this answer is lost before it.
func (u *unsure) lose(do func() error) error {
	lost := u.calls.Add(1)%2 == 1
	if lost && u.when == BeforeCommit {
		return fmt.Errorf("the request was lost: %w", store.ErrUnknown)
	}
	err := do()
	if lost {
		return fmt.Errorf("the answer was lost: %w", store.ErrUnknown)
	}
	return err
}

func (u *unsure) Txn(ctx context.Context, cmps []store.Cmp, then, els []store.Op) (result store.TxnResult, err error) {
	err = u.lose(func() error {
		result, err = u.Store.Txn(ctx, cmps, then, els)
		return err
	})
	if err != nil {
		return store.TxnResult{}, err
	}
	return result, nil
}

func (u *unsure) Grant(ctx context.Context, ttl time.Duration) (lease store.Lease, err error) {
	err = u.lose(func() error {
		lease, err = u.Store.Grant(ctx, ttl)
		return err
	})
	if err != nil {
		return store.Lease{}, err
	}
	return lease, nil
}

func (u *unsure) Revoke(ctx context.Context, id store.LeaseID) error {
	return u.lose(func() error { return u.Store.Revoke(ctx, id) })
}

func (u *unsure) Compact(ctx context.Context, rev store.Rev) error {
	return u.lose(func() error { return u.Store.Compact(ctx, rev) })
}
