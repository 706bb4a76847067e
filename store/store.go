package store

import (
	"context"
	"io"
	"time"
)

// A Rev numbers the transactions that changed a store: one revision each,
// shared by all its keys, counting up from 1, the revision of an empty store.
type Rev int64

// A LeaseID names a lease. The zero value is no lease.
type LeaseID int64

// A Lease is a promise to be renewed: when KeepAlive was not called for TTL,
// the lease ends and the keys put under it are deleted in one transaction.
// A store that was closed and opened again gives every lease its full TTL.
type Lease struct {
	ID  LeaseID
	TTL time.Duration // at least what was asked; a remote engine rounds up to seconds
}

// A KV is one key at one revision. The zero value stands for a key that is
// not there: its Create, Mod and Version are what a [Cmp] sees of it.
type KV struct {
	Key     string
	Value   []byte // the caller's own copy; nil when only keys were asked for
	Create  Rev    // when the key was created, again after it was deleted
	Mod     Rev    // when it was last put
	Version int64  // how often it was put since it was created; 1 at first
	Lease   LeaseID
}

// RangeOpt narrows a Range. The zero value asks for everything, now, upwards.
type RangeOpt struct {
	Limit int  // at most so many keys; 0 is no limit
	AtRev Rev  // as the keys were at this revision; 0 is now
	Keys  bool // leave the values out
	Desc  bool // from the last key down
}

// A Page is what a Range found: one snapshot.
type Page struct {
	KVs  []KV
	Rev  Rev  // the revision the page shows; a Watch from Rev+1 misses nothing
	More bool // the limit left keys out
}

// A Batch is all changes of one revision that are within a watch's range, or
// the error that ended the watch.
type Batch struct {
	Rev    Rev
	Events []Change // in the order of the transaction's operations
	Err    error
}

// A Change is one key put or deleted. For a deletion, KV holds the key and
// the revision of the deletion (Mod) alone. Prev is the key before the
// change, nil when it was not there or that revision is compacted.
type Change struct {
	Del  bool
	KV   KV
	Prev *KV
}

// TxnResult is what became of a transaction.
type TxnResult struct {
	OK   bool // the comparisons held: then was done, not els
	Rev  Rev  // the revision after it: a new one if it changed anything
	Gets []KV // for each Get in the branch that was done; the zero KV where there is none
}

// Status describes a store.
type Status struct {
	Rev       Rev // the newest revision
	Compacted Rev // history below it is gone; 0 when there was no compaction
	Keys      int // keys that are there now
	Leases    int
	Bytes     int64 // on disk
	// Torn says that the file's newest page was half written when the store
	// was opened, as after a power cut, and the state of one transaction
	// before is used: a transaction that was being made then is not in it.
	Torn bool
}

// Limits of every store, below those of every engine. Larger things are files
// named by their hash.
const (
	MaxKeyBytes   = 4 << 10
	MaxValueBytes = 256 << 10
	MaxOps        = 100     // comparisons, and operations in a branch
	MaxTxnBytes   = 1 << 20 // all keys and values of a transaction together
)

// A Store keeps keys and values durably, and their history back to the last
// compaction. Its methods are safe for concurrent use. The semantics are
// etcd's:
//
//   - A transaction that changes anything takes the next revision, shared by
//     all its keys. Failed comparisons with an empty else, reads and deletions
//     of keys that are not there change nothing; a put of an equal value does.
//   - What a call returned without an error is on disk (or with a majority)
//     and seen by every later call.
//   - A range is [from, to); to == "" is no upper end; see [Prefix] and [Only].
//   - A key that was deleted and put again has Version 1 and a new Create.
//
// Every blocking call ends with its context; the error then wraps
// ErrUnavailable (not done) or ErrUnknown, and the context's cause.
type Store interface {
	// Get returns a key and the revision it was read at. ErrNotFound still
	// comes with that revision.
	Get(ctx context.Context, key string) (KV, Rev, error)

	// Range returns the keys of [from, to) in one snapshot. An AtRev below the
	// compaction is ErrCompacted, one that is not reached yet is ErrFuture.
	Range(ctx context.Context, from, to string, opt RangeOpt) (Page, error)

	// Txn does all of then if all of cmps hold, all of els otherwise, or
	// returns an error and does nothing (but see ErrUnknown). Operations are
	// done in order: a Get sees what is before it. [Check] says what is
	// refused.
	Txn(ctx context.Context, cmps []Cmp, then, els []Op) (TxnResult, error)

	// Watch sends every change in [from, to) from fromRev on, the past first,
	// in order, all of a revision in one Batch; 0 starts with the next change.
	// A slow reader holds nobody up and misses nothing, unless a compaction
	// overtakes it: then, as for a fromRev below the compaction, the Batch's
	// Err is ErrCompacted (Watch itself may return it). The channel is closed
	// after a Batch with an Err, when ctx ends, and when the store is closed.
	Watch(ctx context.Context, from, to string, fromRev Rev) (<-chan Batch, error)

	// Lead waits to become the leader called name, a key that holds value
	// while somebody leads. There is one leader of a name at a time; ttl is
	// how long a remote engine takes to notice that one died.
	Lead(ctx context.Context, name, value string, ttl time.Duration) (Term, error)

	// Grant makes a lease that ends ttl after the last KeepAlive. Leases take
	// no revision.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)

	// KeepAlive renews a lease and returns its TTL. ErrNotFound says that it
	// has ended.
	KeepAlive(ctx context.Context, id LeaseID) (time.Duration, error)

	// Revoke ends a lease now and deletes its keys in one transaction.
	Revoke(ctx context.Context, id LeaseID) error

	// Compact forgets the history below rev: a Range at rev and a Watch from
	// rev still work. ErrCompacted: it was compacted to rev or beyond already.
	Compact(ctx context.Context, rev Rev) error

	Status(ctx context.Context) (Status, error)

	// Snapshot writes a copy of the whole store, of one moment, while it is
	// being used.
	Snapshot(ctx context.Context, w io.Writer) error

	// Close ends the watches and the terms of this store, waits for calls
	// that are running and releases it. Later calls return ErrUnavailable.
	Close() error
}

// A Term is one time of being the leader. A leader puts Guard into every
// transaction: it then fails if somebody else leads by now.
type Term interface {
	// Epoch numbers the terms of a name: a later term has a higher one.
	Epoch() Rev

	// Guard is the comparison that holds as long as this term does.
	Guard() Cmp

	// Deadline is when the term ends unless it is renewed in the background;
	// ok is false when it cannot end by time.
	Deadline() (deadline time.Time, ok bool)

	// Lost is closed when the term has ended, also by Resign or Close.
	Lost() <-chan struct{}

	// Resign ends the term and lets the next one lead. The term has ended
	// also when it returns an error; then the key may be left. A second call
	// does nothing.
	Resign(ctx context.Context) error
}

// Prefix returns the range of all keys that begin with prefix, for Range,
// Watch and [DelRange].
func Prefix(prefix string) (from, to string) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix, prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return prefix, ""
}

// Only returns the range of one key.
func Only(key string) (from, to string) { return key, key + "\x00" }
