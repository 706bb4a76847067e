package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// A writer is a transaction that changes the file. Its changes share the next
// revision, taken by the first of them.
type writer struct {
	reader
	log     *bbolt.Bucket
	lease   *bbolt.Bucket
	changes int // so far
	cuts    int // entries that a compaction removed
}

func newWriter(tx *bbolt.Tx) (*writer, error) {
	r, err := newReader(tx)
	if err != nil {
		return nil, err
	}
	w := &writer{reader: *r, log: tx.Bucket(bucketLog), lease: tx.Bucket(bucketLease)}
	// The log is only ever appended to: full pages, not half empty ones.
	w.log.FillPercent = 0.95
	return w, nil
}

// Txn does then or els.
func (b *Bolt) Txn(ctx context.Context, cmps []Cmp, then, els []Op) (TxnResult, error) {
	if err := Check(cmps, then, els); err != nil {
		return TxnResult{}, err
	}
	var result TxnResult
	if !anyWrites(then) && !anyWrites(els) {
		err := b.view(ctx, func(r *reader) (err error) {
			result, err = r.branch(cmps, then, els, r.read)
			result.Rev = r.state.rev
			return err
		})
		return result, err
	}
	err := b.update(ctx, func(w *writer) (err error) {
		result, err = w.branch(cmps, then, els, w.apply)
		result.Rev = w.state.rev
		if err == nil && w.changes == 0 {
			err = errNothing
		}
		return err
	}, nil)
	if err != nil {
		return TxnResult{}, err
	}
	return result, nil
}

func anyWrites(ops []Op) bool {
	for _, o := range ops {
		if o.writes() {
			return true
		}
	}
	return false
}

// branch compares and does one of the branches with do.
func (r *reader) branch(cmps []Cmp, then, els []Op, do func(Op, *TxnResult) error) (TxnResult, error) {
	result := TxnResult{OK: true}
	for _, c := range cmps {
		kv, err := r.get(c.Key)
		if err != nil {
			return result, err
		}
		if !c.Holds(kv) {
			result.OK = false
			break
		}
	}
	ops := then
	if !result.OK {
		ops = els
	}
	for _, o := range ops {
		if err := do(o, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

func (r *reader) read(o Op, result *TxnResult) error {
	kv, err := r.get(o.Key)
	result.Gets = append(result.Gets, kv)
	return err
}

func (w *writer) apply(o Op, result *TxnResult) error {
	switch o.Kind {
	case OpPut:
		return w.put(o)
	case OpDel:
		kv, err := w.get(o.Key)
		if err != nil || kv.Version == 0 {
			return err
		}
		return w.del(kv)
	case OpDelRange:
		return w.delRange(o.Key, o.To)
	default:
		return w.read(o, result)
	}
}

func (w *writer) put(o Op) error {
	if o.Lease != 0 && w.lease.Get(leaseKey(o.Lease, "")) == nil {
		return fmt.Errorf("lease %d: %w", o.Lease, ErrNotFound)
	}
	old, err := w.get(o.Key)
	if err != nil {
		return err
	}
	rev := w.revision()
	kv := KV{Key: o.Key, Value: o.Value, Create: old.Create, Mod: rev, Version: old.Version + 1, Lease: o.Lease}
	if old.Version == 0 {
		kv.Create = rev
		w.state.live++
	}
	if err := w.attach(o.Key, old.Lease, o.Lease); err != nil {
		return err
	}
	return w.record(version{kv: kv})
}

func (w *writer) del(old KV) error {
	w.state.live--
	if err := w.attach(old.Key, old.Lease, 0); err != nil {
		return err
	}
	return w.record(version{kv: KV{Key: old.Key, Mod: w.revision()}, del: true})
}

func (w *writer) delRange(from, to string) error {
	// Collected first: bbolt's cursors do not bear changes.
	var found []KV
	err := w.scan(from, to, newest, false, func(kv KV) bool {
		kv.Value = nil
		found = append(found, kv)
		return true
	})
	if err != nil {
		return err
	}
	for _, kv := range found {
		if err := w.del(kv); err != nil {
			return err
		}
	}
	return nil
}

// revision returns the revision of this transaction.
func (w *writer) revision() Rev {
	if w.changes == 0 {
		w.state.rev++
	}
	w.changes++
	return w.state.rev
}

// record writes a version and its place in the log. revision was called for it.
func (w *writer) record(v version) error {
	w.state.versions++
	w.state.logged++
	k, at := kvKey(v.kv.Key, v.kv.Mod), logKey(v.kv.Mod, w.changes)
	return errors.Join(w.kv.Put(k, encodeVersion(k, v)), w.log.Put(at, seal(at, []byte(v.kv.Key))))
}

// attach moves a key from one lease to another; 0 is none.
func (w *writer) attach(key string, from, to LeaseID) error {
	if from == to {
		return nil
	}
	if from != 0 {
		if err := w.lease.Delete(leaseKey(from, key)); err != nil {
			return err
		}
	}
	if to != 0 {
		k := leaseKey(to, key)
		return w.lease.Put(k, seal(k, nil))
	}
	return nil
}

// under returns the keys of a lease, in order.
func (w *writer) under(id LeaseID) []string {
	prefix := leaseKey(id, "")
	var keys []string
	c := w.lease.Cursor()
	for k, _ := c.Seek(prefix); len(k) >= 8 && LeaseID(binary.BigEndian.Uint64(k)) == id; k, _ = c.Next() {
		if key := string(k[8:]); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
