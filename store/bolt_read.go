package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
)

// A reader is one snapshot of the file.
type reader struct {
	tx    *bbolt.Tx
	state state
	kv    *bbolt.Bucket
}

func newReader(tx *bbolt.Tx) (*reader, error) {
	meta, kv := tx.Bucket(bucketMeta), tx.Bucket(bucketKV)
	if meta == nil || kv == nil || tx.Bucket(bucketLog) == nil || tx.Bucket(bucketLease) == nil {
		return nil, fmt.Errorf("a bucket is missing: %w", errMalformed)
	}
	s, err := decodeState(meta.Get(metaState))
	if err != nil {
		return nil, err
	}
	return &reader{tx, s, kv}, nil
}

// newest as a revision is after every other.
const newest = Rev(math.MaxInt64)

// at returns the version of key at rev, owned by the caller; ok is false when
// the key was not there.
func (r *reader) at(c *bbolt.Cursor, key string, rev Rev) (kv KV, ok bool, err error) {
	seek := kvKey(key, rev)
	k, val := c.Seek(seek)
	if k == nil || !bytes.HasPrefix(k, seek[:len(seek)-8]) {
		return KV{}, false, nil
	}
	v, err := decodeVersion(k, val)
	if err != nil || v.del {
		return KV{}, false, err
	}
	v.kv.Value = bytes.Clone(v.kv.Value)
	return v.kv, true, nil
}

// get returns what a comparison or a Get sees: the zero KV when key is not
// there.
func (r *reader) get(key string) (KV, error) {
	kv, _, err := r.at(r.kv.Cursor(), key, newest)
	return kv, err
}

// scan calls fn for every key of [from, to) at rev until it returns false,
// downwards if desc. The KV's value points into the file.
func (r *reader) scan(from, to string, rev Rev, desc bool, fn func(KV) bool) error {
	c := r.kv.Cursor()
	step := r.up
	k, val := c.Seek(kvKey(from, newest))
	if desc {
		step = r.down
		k, val = seekBelow(c, to)
	}
	for k != nil {
		v, err := decodeVersion(k, val)
		if err != nil {
			return err
		}
		if v.kv.Key < from || (to != "" && v.kv.Key >= to) {
			return nil
		}
		var live bool
		var next func() ([]byte, []byte)
		if v, live, next, err = step(c, v, rev); err != nil {
			return err
		}
		if live && !fn(v.kv) {
			return nil
		}
		k, val = next()
	}
	return nil
}

// seekBelow goes to the last entry of the last key before to.
func seekBelow(c *bbolt.Cursor, to string) (k, val []byte) {
	if to == "" {
		return c.Last()
	}
	if k, _ := c.Seek(kvKey(to, newest)); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// up takes the newest version of a key, where the cursor is, and returns its
// version at rev and how to go to the next key.
func (r *reader) up(c *bbolt.Cursor, v version, rev Rev) (version, bool, func() ([]byte, []byte), error) {
	key := v.kv.Key
	next := func() ([]byte, []byte) {
		// Most keys have one version: look before seeking.
		k, val := c.Next()
		if k == nil || !sameKey(k, key) {
			return k, val
		}
		return c.Seek(afterKey(key))
	}
	if v.kv.Mod <= rev {
		return v, !v.del, next, nil
	}
	v, live, err := seekVersion(c, key, rev)
	return v, live, func() ([]byte, []byte) { return c.Seek(afterKey(key)) }, err
}

// down takes the oldest version of a key, where the cursor is, and returns
// its version at rev and how to go to the key before.
func (r *reader) down(c *bbolt.Cursor, v version, rev Rev) (version, bool, func() ([]byte, []byte), error) {
	key := v.kv.Key
	if v.kv.Mod > rev {
		return v, false, func() ([]byte, []byte) { return seekBelow(c, key) }, nil
	}
	if k, val := c.Prev(); k == nil || !sameKey(k, key) {
		return v, !v.del, func() ([]byte, []byte) { return k, val }, nil
	}
	v, live, err := seekVersion(c, key, rev)
	return v, live, func() ([]byte, []byte) { return seekBelow(c, key) }, err
}

// seekVersion returns the version of key at rev.
func seekVersion(c *bbolt.Cursor, key string, rev Rev) (v version, live bool, err error) {
	k, val := c.Seek(kvKey(key, rev))
	if k == nil || !sameKey(k, key) {
		return version{}, false, nil
	}
	v, err = decodeVersion(k, val)
	return v, err == nil && !v.del, err
}

// sameKey reports whether k is an entry of key.
func sameKey(k []byte, key string) bool {
	prefix := appendKey(make([]byte, 0, 64), key)
	return bytes.HasPrefix(k, prefix)
}

// Get returns a key.
func (b *Bolt) Get(ctx context.Context, key string) (kv KV, rev Rev, err error) {
	if err := checkKey(key); err != nil {
		return KV{}, 0, err
	}
	err = b.view(ctx, func(r *reader) error {
		rev = r.state.rev
		kv, err = r.get(key)
		if err == nil && kv.Version == 0 {
			err = fmt.Errorf("%.80q: %w", key, ErrNotFound)
		}
		return err
	})
	return kv, rev, err
}

// Range returns the keys of [from, to).
func (b *Bolt) Range(ctx context.Context, from, to string, opt RangeOpt) (Page, error) {
	if opt.AtRev < 0 || opt.Limit < 0 {
		return Page{}, fmt.Errorf("a range of at most %d keys at revision %d: %w", opt.Limit, opt.AtRev, ErrInvalid)
	}
	if err := checkBounds(from, to); err != nil {
		return Page{}, err
	}
	var page Page
	err := b.view(ctx, func(r *reader) error {
		page.Rev = r.state.rev
		if opt.AtRev > 0 {
			page.Rev = opt.AtRev
		}
		if page.Rev > r.state.rev {
			return fmt.Errorf("revision %d, the newest is %d: %w", page.Rev, r.state.rev, ErrFuture)
		}
		if page.Rev < r.state.compacted {
			return fmt.Errorf("revision %d, history begins at %d: %w", page.Rev, r.state.compacted, ErrCompacted)
		}
		var ended error
		err := r.scan(from, to, page.Rev, opt.Desc, func(kv KV) bool {
			if opt.Limit > 0 && len(page.KVs) == opt.Limit {
				page.More = true
				return false
			}
			if opt.Keys {
				kv.Value = nil
			}
			kv.Value = bytes.Clone(kv.Value)
			page.KVs = append(page.KVs, kv)
			if len(page.KVs)%1024 == 0 {
				ended = b.usable(ctx)
			}
			return ended == nil
		})
		return errors.Join(err, ended)
	})
	if err != nil {
		return Page{}, err
	}
	return page, nil
}

func checkBounds(from, to string) error {
	if len(from) > MaxKeyBytes+1 || len(to) > MaxKeyBytes+1 {
		return fmt.Errorf("the bounds of a range are of %d and %d bytes: at most %d: %w", len(from), len(to), MaxKeyBytes, ErrTooLarge)
	}
	return nil
}
