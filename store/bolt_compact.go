package store

import (
	"bytes"
	"context"
	"fmt"
)

// compactStep is how many entries of the log one transaction of a compaction
// cuts: other writers get their turn in between.
const compactStep = 2000

// Compact forgets the history below rev. It counts, durably, from the first of
// its transactions on; one that was interrupted is finished by the next
// compaction. The file does not get smaller: the room is used again.
func (b *Bolt) Compact(ctx context.Context, rev Rev) error {
	err := b.update(ctx, func(w *writer) error {
		if rev <= w.state.compacted {
			return fmt.Errorf("revision %d, compacted to %d: %w", rev, w.state.compacted, ErrCompacted)
		}
		if rev > w.state.rev {
			return fmt.Errorf("revision %d, the newest is %d: %w", rev, w.state.rev, ErrFuture)
		}
		w.state.compacted = rev
		return nil
	}, nil)
	if err != nil {
		return err
	}
	for more := true; more; {
		err := b.update(ctx, func(w *writer) (err error) {
			more, err = w.cut(compactStep)
			if err == nil && w.cuts == 0 {
				err = errNothing
			}
			return err
		}, nil)
		if err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	return nil
}

// cut removes up to limit entries from the beginning of the log, below the
// compaction, and the versions that they replaced.
func (w *writer) cut(limit int) (more bool, err error) {
	type entry struct {
		at  []byte
		rev Rev
		key string
	}
	// Collected first: bbolt's cursors do not bear changes. The entries of
	// the compaction's own revision stay, for a Watch from it, but what they
	// replaced is not seen from there any more.
	var entries []entry
	c := w.log.Cursor()
	for k, val := c.First(); k != nil; k, val = c.Next() {
		rev, key, err := decodeLog(k, val)
		if err != nil {
			return false, err
		}
		if rev > w.state.compacted {
			break
		}
		if len(entries) >= limit && rev < w.state.compacted {
			more = true
			break
		}
		entries = append(entries, entry{bytes.Clone(k), rev, key})
	}
	for _, e := range entries {
		if err := w.cutVersions(e.key, e.rev); err != nil {
			return false, err
		}
		if e.rev == w.state.compacted {
			continue
		}
		if err := w.log.Delete(e.at); err != nil {
			return false, err
		}
		w.cuts++
		w.state.logged--
	}
	return more, nil
}

// cutVersions removes the versions of key before rev, and that of rev too if
// it is a deletion below the compaction.
func (w *writer) cutVersions(key string, rev Rev) error {
	var gone [][]byte
	c := w.kv.Cursor()
	for k, val := c.Seek(kvKey(key, rev)); k != nil && sameKey(k, key); k, val = c.Next() {
		v, err := decodeVersion(k, val)
		if err != nil {
			return err
		}
		if v.kv.Mod < rev || (v.del && rev < w.state.compacted) {
			gone = append(gone, bytes.Clone(k))
		}
	}
	for _, k := range gone {
		if err := w.kv.Delete(k); err != nil {
			return err
		}
		w.cuts++
		w.state.versions--
	}
	return nil
}
