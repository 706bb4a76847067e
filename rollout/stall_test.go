package rollout

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"muru/store"
)

// A stallingStore does as the store inside does, until its disk is to hang.
type stallingStore struct {
	store.Store
	reads     atomic.Int64 // pages read
	skipReads atomic.Int64 // so many reads more are not held up
	broken    atomic.Bool  // reads fail
	writes    atomic.Int64 // transactions asked for

	read, write atomic.Pointer[chan struct{}] // what they wait for until it is closed; nil: nothing
}

// stallReads makes reads of pages wait until resume is called.
func (s *stallingStore) stallReads() (resume func()) { return stall(&s.read) }

// stallWrites makes transactions wait until resume is called.
func (s *stallingStore) stallWrites() (resume func()) { return stall(&s.write) }

func stall(gate *atomic.Pointer[chan struct{}]) (resume func()) {
	closed := make(chan struct{})
	gate.Store(&closed)
	return func() {
		gate.Store(nil)
		close(closed)
	}
}

// wait is a disk that hangs: it looks at no context.
func wait(gate *atomic.Pointer[chan struct{}]) {
	if g := gate.Load(); g != nil {
		<-*g
	}
}

func (s *stallingStore) Range(ctx context.Context, from, to string, o store.RangeOpt) (store.Page, error) {
	if s.skipReads.Add(-1) < 0 {
		wait(&s.read)
	}
	s.reads.Add(1)
	if s.broken.Load() {
		return store.Page{}, fmt.Errorf("read: %w", syscall.EIO)
	}
	return s.Store.Range(ctx, from, to, o)
}

func (s *stallingStore) Txn(ctx context.Context, cmps []store.Cmp, then, els []store.Op) (store.TxnResult, error) {
	s.writes.Add(1)
	wait(&s.write)
	return s.Store.Txn(ctx, cmps, then, els)
}
