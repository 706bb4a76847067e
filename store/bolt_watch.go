package store

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// readAhead is how many entries of the log a watch reads at once. No snapshot
// is kept open while it waits for its reader.
const readAhead = 512

// Watch sends the changes in [from, to).
func (b *Bolt) Watch(ctx context.Context, from, to string, fromRev Rev) (<-chan Batch, error) {
	if fromRev < 0 {
		return nil, fmt.Errorf("a watch from revision %d: %w", fromRev, ErrInvalid)
	}
	if err := checkBounds(from, to); err != nil {
		return nil, err
	}
	err := b.view(ctx, func(r *reader) error {
		if fromRev == 0 {
			fromRev = r.state.rev + 1
		}
		return r.reaches(fromRev)
	})
	if err != nil {
		return nil, err
	}
	w := &watch{store: b, from: from, to: to, next: fromRev, out: make(chan Batch)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil { // closed meanwhile: nobody would wait for the goroutine
		return nil, err
	}
	b.running.Go(func() { w.run(ctx) })
	return w.out, nil
}

// reaches says whether the history from rev on is there.
func (r *reader) reaches(rev Rev) error {
	if rev < r.state.compacted {
		return fmt.Errorf("revision %d, history begins at %d: %w", rev, r.state.compacted, ErrCompacted)
	}
	return nil
}

// A watch reads the log at its own pace. It keeps no buffer: what its reader
// has not taken stays in the file.
type watch struct {
	store    *Bolt
	from, to string
	next     Rev // the first revision it has not read
	out      chan Batch
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	for {
		changed := w.store.wait() // before reading, so that no revision is missed
		batches, caughtUp, err := w.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			batches = append(batches, Batch{Err: err})
		}
		for _, batch := range batches {
			select {
			case w.out <- batch:
			case <-ctx.Done():
				return
			case <-w.store.closing:
				return
			}
		}
		if err != nil {
			return
		}
		if !caughtUp {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-w.store.closing:
			return
		}
	}
}

// read returns the next batches; caughtUp says that there are no more now.
func (w *watch) read(ctx context.Context) (batches []Batch, caughtUp bool, err error) {
	err = w.store.view(ctx, func(r *reader) error {
		if err := r.reaches(w.next); err != nil {
			return err
		}
		next, caughtUpNow, err := w.readLog(r, &batches)
		if err == nil {
			w.next, caughtUp = next, caughtUpNow
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return batches, caughtUp, nil
}

func (w *watch) readLog(r *reader, batches *[]Batch) (next Rev, caughtUp bool, err error) {
	c, kvs := r.tx.Bucket(bucketLog).Cursor(), r.kv.Cursor()
	next = w.next
	count := 0
	for k, val := c.Seek(logKey(w.next, 0)); k != nil; k, val = c.Next() {
		rev, key, err := decodeLog(k, val)
		if err != nil {
			return 0, false, err
		}
		if rev >= next {
			if count >= readAhead {
				return next, false, nil // a revision is never split
			}
			next = rev + 1
		}
		count++
		if key < w.from || (w.to != "" && key >= w.to) {
			continue
		}
		change, err := r.change(kvs, key, rev)
		if err != nil {
			return 0, false, err
		}
		if n := len(*batches); n == 0 || (*batches)[n-1].Rev != rev {
			*batches = append(*batches, Batch{Rev: rev})
		}
		last := &(*batches)[len(*batches)-1]
		last.Events = append(last.Events, change)
	}
	return max(next, r.state.rev+1, w.next), true, nil
}

// change returns what revision rev did to key.
func (r *reader) change(c *bbolt.Cursor, key string, rev Rev) (Change, error) {
	k, val := c.Seek(kvKey(key, rev))
	if k == nil || !sameKey(k, key) {
		return Change{}, fmt.Errorf("%.80q of revision %d is missing: %w", key, rev, errMalformed)
	}
	v, err := decodeVersion(k, val)
	if err != nil {
		return Change{}, err
	}
	if v.kv.Mod != rev {
		return Change{}, fmt.Errorf("%.80q of revision %d is missing: %w", key, rev, errMalformed)
	}
	v.kv.Value = slices.Clone(v.kv.Value)
	change := Change{Del: v.del, KV: v.kv}
	// The version before it is the next entry.
	if k, val = c.Next(); k == nil || !sameKey(k, key) {
		return change, nil
	}
	prev, err := decodeVersion(k, val)
	if err != nil || prev.del {
		return change, err
	}
	prev.kv.Value = slices.Clone(prev.kv.Value)
	change.Prev = &prev.kv
	return change, nil
}
