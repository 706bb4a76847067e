package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru/store"
)

// runRandom does random operations on a store and on the model, and compares
// everything that comes back.
func runRandom(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		e := newEnv(t, h)
		e.t = rt
		defer e.close()
		r := &random{env: e, m: newModel(e.base, e.status().Compacted)}
		rt.Repeat(map[string]func(*rapid.T){
			"txn":     r.txn,
			"range":   r.rangeAt,
			"watch":   r.watchFrom,
			"compact": r.compactTo,
			"grant":   r.grantOne,
			"revoke":  r.revokeOne,
			"reopen":  r.reopen,
			"":        r.check,
		})
	})
}

type random struct {
	*env
	m *model
}

// The names are few, so that operations meet, and hard to keep in order.
var names = rapid.SampledFrom([]string{"a", "b", "ab", "a\x00", "a\x00\x01", "a\x00\xff", "\x00", "\xff", "c/1", "c/2"})

func (r *random) anyBounds(t *rapid.T) (from, to string) {
	to = rapid.OneOf(names, rapid.Just("")).Draw(t, "to")
	return r.bounds(rapid.OneOf(names, rapid.Just("")).Draw(t, "from"), to)
}

func (r *random) anyLease(t *rapid.T) store.LeaseID {
	ids := slices.Sorted(maps.Keys(r.m.leases))
	return rapid.SampledFrom(append(ids, 0)).Draw(t, "lease")
}

func (r *random) anyCmp(t *rapid.T) store.Cmp {
	c := store.Cmp{
		Key:    r.key(names.Draw(t, "key")),
		Target: rapid.SampledFrom([]store.Target{store.Create, store.Mod, store.Version, store.Value}).Draw(t, "target"),
		Rel:    rapid.SampledFrom([]store.Rel{store.Equal, store.Less, store.Greater}).Draw(t, "rel"),
	}
	switch c.Target {
	case store.Value:
		c.Value = rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "value")
	case store.Version:
		c.Num = rapid.Int64Range(0, 4).Draw(t, "version")
	default:
		c.Num = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(int64(r.base), int64(r.m.rev))).Draw(t, "rev")
	}
	return c
}

func (r *random) anyOp(t *rapid.T) store.Op {
	key := r.key(names.Draw(t, "key"))
	switch rapid.SampledFrom([]string{"put", "put", "put", "del", "delrange", "get"}).Draw(t, "op") {
	case "put":
		return store.Put(key, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value"), r.anyLease(t))
	case "del":
		return store.Del(key)
	case "delrange":
		return store.DelRange(r.anyBounds(t))
	default:
		return store.Get(key)
	}
}

func (r *random) txn(t *rapid.T) {
	cmps := rapid.SliceOfN(rapid.Custom(r.anyCmp), 0, 2).Draw(t, "cmps")
	then := rapid.SliceOfN(rapid.Custom(r.anyOp), 0, 4).Draw(t, "then")
	els := rapid.SliceOfN(rapid.Custom(r.anyOp), 0, 2).Draw(t, "else")
	got, err := r.try(cmps, then, els)
	if store.Check(cmps, then, els) != nil {
		r.wantErr(err, store.ErrInvalid)
		return
	}
	r.must(err)
	want := r.m.txn(cmps, then, els)
	r.want("ok", got.OK, want.OK)
	r.want("revision", got.Rev, want.Rev)
	r.want("gets", showKVs(got.Gets), showKVs(want.Gets))
}

func (r *random) rangeAt(t *rapid.T) {
	from, to := r.anyBounds(t)
	opt := store.RangeOpt{
		Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Keys: rapid.Bool().Draw(t, "keys"), Desc: rapid.Bool().Draw(t, "desc"),
		AtRev: store.Rev(rapid.Int64Range(int64(r.base), int64(r.m.rev)+1).Draw(t, "at")),
	}
	got, err := r.s.Range(r.ctx, from, to, opt)
	switch {
	case opt.AtRev > r.m.rev:
		r.wantErr(err, store.ErrFuture)
		return
	case opt.AtRev < r.m.compacted:
		r.wantErr(err, store.ErrCompacted)
		return
	}
	r.must(err)
	want := r.m.page(from, to, opt)
	r.want("range", showKVs(got.KVs), showKVs(want.KVs))
	r.want("revision", got.Rev, want.Rev)
	r.want("more", got.More, want.More)
}

func (r *random) watchFrom(t *rapid.T) {
	from, to := r.anyBounds(t)
	rev := store.Rev(rapid.Int64Range(int64(r.base)+1, int64(r.m.rev)+1).Draw(t, "from rev"))
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	c, err := r.s.Watch(ctx, from, to, rev)
	w := &stream{r.env, c}
	if rev < r.m.compacted {
		if err == nil {
			batch, _ := w.batch()
			err = batch.Err
		}
		r.wantErr(err, store.ErrCompacted)
		return
	}
	r.must(err)
	for _, want := range r.m.batches(from, to, rev) {
		batch, _ := w.batch()
		r.want("batch", showBatch(batch, r.m.compacted), want)
	}
}

func (r *random) compactTo(t *rapid.T) {
	rev := store.Rev(rapid.Int64Range(int64(r.base), int64(r.m.rev)+1).Draw(t, "rev"))
	switch err := r.s.Compact(r.ctx, rev); {
	case errors.Is(err, store.ErrUnknown):
		r.m.compacted = r.status().Compacted
	case rev > r.m.rev:
		r.wantErr(err, store.ErrFuture)
	case rev <= r.m.compacted:
		r.wantErr(err, store.ErrCompacted)
	default:
		r.must(err)
		r.m.compacted = rev
	}
}

func (r *random) grantOne(*rapid.T) { r.m.leases[r.grant(time.Hour)] = true }

func (r *random) revokeOne(t *rapid.T) {
	id := r.anyLease(t)
	if id == 0 {
		return
	}
	r.must(r.revoke(id))
	r.m.revoke(id)
}

func (r *random) reopen(*rapid.T) {
	if r.h.Reopen != nil {
		r.s = r.h.Reopen(r.tb, r.s)
	}
}

func (r *random) check(*rapid.T) {
	from, to := r.bounds("", "")
	page, err := r.s.Range(r.ctx, from, to, store.RangeOpt{})
	r.must(err)
	r.want("keys now", showKVs(page.KVs), showKVs(r.m.page(from, to, store.RangeOpt{}).KVs))
	status := r.status()
	r.want("status", []store.Rev{status.Rev, status.Compacted}, []store.Rev{r.m.rev, r.m.compacted})
}
