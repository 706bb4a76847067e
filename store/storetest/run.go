package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru/store"
)

// A Harness opens stores of one engine.
type Harness struct {
	// Open returns a store that nobody else writes to. The suite closes it.
	Open func(t testing.TB) store.Store

	// Reopen closes s and opens it again. nil when the engine cannot.
	Reopen func(t testing.TB, s store.Store) store.Store

	// ShortTTL is the shortest lease the engine can do; 50ms by default.
	ShortTTL time.Duration
}

// patience is how long something that must happen may take.
const patience = 20 * time.Second

// Run runs the suite: the table, then the random sequences.
func Run(t *testing.T, h Harness) {
	if h.ShortTTL == 0 {
		h.ShortTTL = 50 * time.Millisecond
	}
	for _, table := range [][]testCase{txnCases, rangeCases, watchCases, leaseCases, leadCases, otherCases} {
		for _, c := range table {
			t.Run(c.name, func(t *testing.T) {
				e := newEnv(t, h)
				defer e.close()
				c.run(e)
			})
		}
	}
	t.Run("RandomOperationsDoWhatTheModelDoes", func(t *testing.T) { runRandom(t, h) })
}

type testCase struct {
	name string
	run  func(e *env)
}

// A fataler is the part of testing.TB that rapid's T has too.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// An env is one case's view of a store: its own keys, and revisions counted
// from where it began. Its changes cope with ErrUnknown as the only writer
// can: it looks whether the revision advanced.
type env struct {
	tb     testing.TB // of the whole case
	t      fataler    // fails it
	h      Harness
	s      store.Store
	prefix string
	base   store.Rev
	ctx    context.Context
	cancel context.CancelFunc
}

var cases atomic.Int64

func newEnv(t testing.TB, h Harness) *env {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	e := &env{
		tb: t, t: t, h: h, s: h.Open(t), ctx: ctx, cancel: cancel,
		prefix: fmt.Sprintf("/muru/case%d-%d/", time.Now().UnixNano(), cases.Add(1)),
	}
	e.base = e.status().Rev
	return e
}

func (e *env) close() {
	e.cancel()
	if err := e.s.Close(); err != nil {
		e.t.Fatalf("close: %v", err)
	}
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("%v", err)
	}
}

func (e *env) wantErr(got, want error) {
	e.t.Helper()
	if !errors.Is(got, want) {
		e.t.Fatalf("got error %v, want %v", got, want)
	}
}

func (e *env) want(what string, got, want any) {
	e.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		e.t.Fatalf("%s: got\n  %s\nwant\n  %s", what, g, w)
	}
}

func (e *env) status() store.Status {
	e.t.Helper()
	s, err := e.s.Status(e.ctx)
	e.must(err)
	return s
}

// rev returns the newest revision, counted from the case's beginning.
func (e *env) rev() int64 { e.t.Helper(); return int64(e.status().Rev - e.base) }

func (e *env) key(name string) string { return e.prefix + name }

// put, del and so on make operations on the case's own keys.
func (e *env) put(name, value string) store.Op { return store.Put(e.key(name), []byte(value), 0) }
func (e *env) del(name string) store.Op        { return store.Del(e.key(name)) }
func (e *env) read(name string) store.Op       { return store.Get(e.key(name)) }
func (e *env) delRange(from, to string) store.Op {
	return store.DelRange(e.bounds(from, to))
}

// bounds are [from, to) of the case's keys; to "" is all of them upwards.
func (e *env) bounds(from, to string) (string, string) {
	if to == "" {
		_, end := store.Prefix(e.prefix)
		return e.key(from), end
	}
	return e.key(from), e.key(to)
}

// do makes a transaction without comparisons and returns its revision.
func (e *env) do(ops ...store.Op) int64 {
	e.t.Helper()
	result, err := e.try(nil, ops, nil)
	e.must(err)
	return int64(result.Rev - e.base)
}

func (e *env) txn(cmps []store.Cmp, then, els []store.Op) store.TxnResult {
	e.t.Helper()
	result, err := e.try(cmps, then, els)
	e.must(err)
	return result
}

// try makes a transaction until its outcome is known.
func (e *env) try(cmps []store.Cmp, then, els []store.Op) (store.TxnResult, error) {
	e.t.Helper()
	before := e.status().Rev
	holds := e.holds(cmps)
	for {
		result, err := e.s.Txn(e.ctx, cmps, then, els)
		if !errors.Is(err, store.ErrUnknown) {
			return result, err
		}
		after := e.status().Rev
		if after == before {
			continue // nothing was done, or nothing was to be done
		}
		branch := els
		if holds {
			branch = then
		}
		return store.TxnResult{OK: holds, Rev: after, Gets: e.gets(branch, before, after)}, nil
	}
}

// holds evaluates comparisons by reading.
func (e *env) holds(cmps []store.Cmp) bool {
	for _, c := range cmps {
		kv, _, err := e.s.Get(e.ctx, c.Key)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			if !c.Holds(kv) {
				return false
			}
		}
	}
	return true
}

// gets reads what the Gets of a branch returned.
func (e *env) gets(branch []store.Op, before, after store.Rev) (found []store.KV) {
	for i, o := range branch {
		if o.Kind != store.OpGet {
			continue
		}
		rev := before
		if slices.ContainsFunc(branch[:i], func(earlier store.Op) bool { return writesKey(earlier, o.Key) }) {
			rev = after
		}
		from, to := store.Only(o.Key)
		page, err := e.s.Range(e.ctx, from, to, store.RangeOpt{AtRev: rev})
		e.must(err)
		found = append(found, append(page.KVs, store.KV{})[0])
	}
	return found
}

func writesKey(o store.Op, key string) bool {
	if o.Kind == store.OpDelRange {
		return o.Key <= key && (o.To == "" || key < o.To)
	}
	return o.Kind != store.OpGet && o.Key == key
}

// get shows one key, "none" when it is not there.
func (e *env) get(name string) string {
	e.t.Helper()
	kv, rev, err := e.s.Get(e.ctx, e.key(name))
	if errors.Is(err, store.ErrNotFound) {
		if rev < e.base {
			e.t.Fatalf("ErrNotFound came with revision %d, the newest is at least %d", rev, e.base)
		}
		return "none"
	}
	e.must(err)
	return e.show(kv)
}

// show prints a KV as a=1 c1 m2 v3: created, modified (from the base), version.
func (e *env) show(kv store.KV) string {
	if kv.Version == 0 {
		return "none"
	}
	name := strings.TrimPrefix(kv.Key, e.prefix)
	return fmt.Sprintf("%s=%s c%d m%d v%d", name, kv.Value, kv.Create-e.base, kv.Mod-e.base, kv.Version)
}

// list shows the names and values of a range: a=1 b=2, and … when there is more.
func (e *env) list(from, to string, opt store.RangeOpt) string {
	e.t.Helper()
	page, err := e.page(from, to, opt)
	e.must(err)
	var words []string
	for _, kv := range page.KVs {
		words = append(words, strings.TrimPrefix(kv.Key, e.prefix)+"="+string(kv.Value))
	}
	if page.More {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

func (e *env) page(from, to string, opt store.RangeOpt) (store.Page, error) {
	from, to = e.bounds(from, to)
	return e.s.Range(e.ctx, from, to, opt)
}

// at is the option for a revision counted from the base.
func (e *env) at(rev int64) store.RangeOpt { return store.RangeOpt{AtRev: e.base + store.Rev(rev)} }

// compact compacts to a revision counted from the base.
func (e *env) compact(rev int64) {
	e.t.Helper()
	err := e.s.Compact(e.ctx, e.base+store.Rev(rev))
	if errors.Is(err, store.ErrUnknown) {
		err = e.s.Compact(e.ctx, e.base+store.Rev(rev))
		if errors.Is(err, store.ErrCompacted) {
			err = nil // the first one did it
		}
	}
	e.must(err)
}

func (e *env) grant(ttl time.Duration) store.LeaseID {
	e.t.Helper()
	lease, err := e.s.Grant(e.ctx, ttl)
	if errors.Is(err, store.ErrUnknown) {
		lease, err = e.s.Grant(e.ctx, ttl) // the other one ends by itself
	}
	e.must(err)
	if lease.ID == 0 || lease.TTL < ttl {
		e.t.Fatalf("granted %+v, asked for %v", lease, ttl)
	}
	return lease.ID
}

func (e *env) revoke(id store.LeaseID) error {
	_, gone := e.s.KeepAlive(e.ctx, id)
	err := e.s.Revoke(e.ctx, id)
	if !errors.Is(err, store.ErrUnknown) {
		return err
	}
	if err = e.s.Revoke(e.ctx, id); errors.Is(err, store.ErrNotFound) && gone == nil {
		return nil // the first one did it
	}
	return err
}

// A stream is a watch being read.
type stream struct {
	e *env
	c <-chan store.Batch
}

// watch begins a watch from a revision counted from the base.
func (e *env) watch(from, to string, rev int64) *stream {
	e.t.Helper()
	from, to = e.bounds(from, to)
	c, err := e.s.Watch(e.ctx, from, to, e.base+store.Rev(rev))
	e.must(err)
	return &stream{e, c}
}

// next shows the next batch: 3: +a=1 -b; or its error.
func (s *stream) next() string {
	s.e.t.Helper()
	batch, ok := s.batch()
	switch {
	case !ok:
		return "closed"
	case batch.Err != nil && errors.Is(batch.Err, store.ErrCompacted):
		return "compacted"
	case batch.Err != nil:
		return batch.Err.Error()
	}
	words := []string{fmt.Sprintf("%d:", batch.Rev-s.e.base)}
	for _, c := range batch.Events {
		name := strings.TrimPrefix(c.KV.Key, s.e.prefix)
		if c.Del {
			words = append(words, "-"+name)
		} else {
			words = append(words, "+"+name+"="+string(c.KV.Value))
		}
	}
	return strings.Join(words, " ")
}

func (s *stream) batch() (store.Batch, bool) {
	s.e.t.Helper()
	select {
	case batch, ok := <-s.c:
		return batch, ok
	case <-time.After(patience):
		s.e.t.Fatalf("the watch sent nothing for %v", patience)
		panic("unreachable")
	}
}
