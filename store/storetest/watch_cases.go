package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muru/store"
)

var watchCases = []testCase{
	{"AWatchFromZeroSeesTheNextChange", func(e *env) {
		e.do(e.put("a", "1"))
		from, to := e.bounds("", "")
		c, err := e.s.Watch(e.ctx, from, to, 0)
		e.must(err)
		w := &stream{e, c}
		e.do(e.put("a", "2"))
		e.want("next", w.next(), "2: +a=2")
	}},
	{"AWatchFromARevisionSeesThePastFirst", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		w := e.watch("", "", 1)
		e.want("past", w.next(), "1: +a=1")
		e.want("past", w.next(), "2: +a=2")
		e.do(e.del("a"))
		e.want("now", w.next(), "3: -a")
	}},
	{"AWatchFromARevisionToComeWaitsForIt", func(e *env) {
		w := e.watch("", "", 2)
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.want("next", w.next(), "2: +a=2")
	}},
	{"AllChangesOfARevisionAreOneBatch", func(e *env) {
		w := e.watch("", "", 1)
		e.do(e.put("b", "1"), e.put("a", "2"), e.put("c", "3"))
		e.do(e.delRange("b", ""), e.put("a", "4"))
		e.want("puts", w.next(), "1: +b=1 +a=2 +c=3")
		e.want("deletions", w.next(), "2: -b -c +a=4")
	}},
	{"AnyNumberOfChangesIsOneBatch", func(e *env) {
		const puts = 7
		for i := range puts {
			var ops []store.Op
			for j := range store.MaxOps {
				ops = append(ops, e.put(fmt.Sprintf("%d/%03d", i, j), ""))
			}
			e.do(ops...)
		}
		e.do(e.delRange("", ""))
		w := e.watch("", "", 1)
		for i := range puts + 1 {
			want := store.MaxOps
			if i == puts {
				want = puts * store.MaxOps
			}
			batch, _ := w.batch()
			e.want("changes", fmt.Sprint(batch.Rev-e.base, len(batch.Events)), fmt.Sprint(i+1, want))
		}
	}},
	{"AWatchSeesItsRangeOnly", func(e *env) {
		w := e.watch("b", "c", 1)
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"), e.put("b", "2"), e.put("bb", "2"), e.put("c", "2"))
		e.do(e.del("b"))
		e.want("next", w.next(), "2: +b=2 +bb=2")
		e.want("next", w.next(), "3: -b")
	}},
	{"WhatChangesNothingIsNotSeen", func(e *env) {
		w := e.watch("", "", 1)
		e.do(e.del("a"))
		e.txn([]store.Cmp{store.CmpVersion(e.key("a"), store.Equal, 9)}, []store.Op{e.put("a", "1")}, nil)
		e.do(e.put("a", "2"))
		e.want("next", w.next(), "1: +a=2")
	}},
	{"AChangeHasTheKeyBeforeIt", func(e *env) {
		w := e.watch("", "", 1)
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.do(e.del("a"))
		e.do(e.put("a", "3"))
		for _, want := range []string{"a=1 c1 m1 v1 after none", "a=2 c1 m2 v2 after a=1 c1 m1 v1", "none after a=2 c1 m2 v2", "a=3 c4 m4 v1 after none"} {
			batch, _ := w.batch()
			if len(batch.Events) != 1 {
				e.t.Fatalf("batch %+v", batch)
			}
			prev := store.KV{}
			if batch.Events[0].Prev != nil {
				prev = *batch.Events[0].Prev
			}
			e.want("change", e.show(batch.Events[0].KV)+" after "+e.show(prev), want)
		}
	}},
	{"ADeletionHasItsKeyAndRevision", func(e *env) {
		e.do(e.put("a", "1"))
		w := e.watch("", "", 2)
		e.do(e.del("a"))
		batch, _ := w.batch()
		got := batch.Events[0]
		e.want("change", fmt.Sprint(got.Del, got.KV.Key == e.key("a"), got.KV.Mod-e.base, got.KV.Create, got.KV.Version, len(got.KV.Value)), "true true 2 0 0 0")
	}},
	{"ARangeAndAWatchFromTheNextRevisionMissNothing", func(e *env) {
		e.do(e.put("a", "1"))
		page, err := e.page("", "", store.RangeOpt{})
		e.must(err)
		e.do(e.put("b", "1"))
		w := e.watch("", "", int64(page.Rev-e.base)+1)
		e.want("next", w.next(), "2: +b=1")
	}},
	{"AWatchBelowTheCompactionIsCompacted", func(e *env) {
		for i := range 4 {
			e.do(e.put("a", fmt.Sprint(i)))
		}
		e.compact(3)
		from, to := e.bounds("", "")
		c, err := e.s.Watch(e.ctx, from, to, e.base+1)
		if err != nil {
			e.wantErr(err, store.ErrCompacted)
			return
		}
		w := &stream{e, c}
		e.want("next", w.next(), "compacted")
		e.want("then", w.next(), "closed")
	}},
	{"AWatchFromTheCompactionSeesAllFromThereOn", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.do(e.del("a"), e.put("b", "3"))
		e.do(e.put("a", "4"))
		e.compact(3)
		w := e.watch("", "", 3)
		e.want("next", w.next(), "3: -a +b=3")
		e.want("next", w.next(), "4: +a=4")
	}},
	{"AWatchThatIsUpToDateOutlivesACompaction", func(e *env) {
		w := e.watch("", "", 1)
		e.do(e.put("a", "1"))
		e.want("next", w.next(), "1: +a=1")
		e.compact(1)
		e.do(e.put("a", "2"))
		e.want("next", w.next(), "2: +a=2")
	}},
	{"AWatchOfOtherKeysOutlivesACompaction", func(e *env) {
		w := e.watch("z", "", 1)
		for i := range 20 {
			e.do(e.put("a", fmt.Sprint(i)))
		}
		e.do(e.put("z", "1"))
		e.want("next", w.next(), "21: +z=1")
		e.compact(21)
		e.do(e.put("z", "2"))
		e.want("next", w.next(), "22: +z=2")
	}},
	{"ASlowReaderHoldsNobodyUpAndMissesNothing", func(e *env) {
		slow := e.watch("", "", 1)
		quick := e.watch("", "", 1)
		const n = 700
		for i := range n {
			e.do(e.put("a", fmt.Sprint(i)))
			if i%100 == 0 {
				for quick.next() != fmt.Sprintf("%d: +a=%d", i+1, i) {
				}
			}
		}
		for i := range n {
			e.want("next", slow.next(), fmt.Sprintf("%d: +a=%d", i+1, i))
		}
	}},
	{"AWatchEndsWithItsContext", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		from, to := e.bounds("", "")
		c, err := e.s.Watch(ctx, from, to, 0)
		e.must(err)
		cancel()
		e.want("next", (&stream{e, c}).next(), "closed")
	}},
	{"AWatchEndsWithTheStore", func(e *env) {
		w := e.watch("", "", 0)
		unread := e.watch("", "", 1)
		e.do(e.put("a", "1"))
		_ = w.next()
		e.must(e.s.Close())
		e.want("next", w.next(), "closed")
		// A batch may have been on its way.
		for got := ""; got != "closed"; got = unread.next() {
		}
	}},
	{"WatchesAreIndependent", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		from, to := e.bounds("", "")
		_, err := e.s.Watch(ctx, from, to, e.base+1)
		e.must(err)
		other := e.watch("", "", 1)
		cancel()
		e.do(e.put("a", "1"))
		e.want("next", other.next(), "1: +a=1")
	}},
}

var leaseCases = []testCase{
	{"ALeaseTakesNoRevision", func(e *env) {
		e.grant(time.Minute)
		e.want("revision", e.rev(), 0)
	}},
	{"AKeyKnowsItsLease", func(e *env) {
		id := e.grant(time.Minute)
		e.do(store.Put(e.key("a"), []byte("1"), id))
		kv, _, err := e.s.Get(e.ctx, e.key("a"))
		e.must(err)
		e.want("lease", kv.Lease, id)
	}},
	{"RevokingDeletesTheKeysInOneRevision", func(e *env) {
		id := e.grant(time.Minute)
		e.do(store.Put(e.key("b"), []byte("1"), id), store.Put(e.key("a"), []byte("1"), id), e.put("c", "1"))
		w := e.watch("", "", 2)
		e.must(e.revoke(id))
		e.want("watch", w.next(), "2: -a -b")
		e.want("left", e.list("", "", store.RangeOpt{}), "c=1")
	}},
	{"RevokingWithoutKeysTakesNoRevision", func(e *env) {
		e.must(e.revoke(e.grant(time.Minute)))
		e.want("revision", e.rev(), 0)
	}},
	{"ALeaseThatEndedIsNotFound", func(e *env) {
		id := e.grant(time.Minute)
		e.must(e.revoke(id))
		e.wantErr(e.revoke(id), store.ErrNotFound)
		_, err := e.s.KeepAlive(e.ctx, id)
		e.wantErr(err, store.ErrNotFound)
		_, err = e.try(nil, []store.Op{store.Put(e.key("a"), nil, id)}, nil)
		e.wantErr(err, store.ErrNotFound)
	}},
	{"ALeaseNotKeptAliveEndsWithItsKeys", func(e *env) {
		id := e.grant(e.h.ShortTTL)
		w := e.watch("", "", 1)
		_, err := e.try(nil, []store.Op{store.Put(e.key("a"), []byte("1"), id)}, nil)
		if errors.Is(err, store.ErrNotFound) {
			return // the machine was slower than the lease is short
		}
		e.must(err)
		e.want("put", w.next(), "1: +a=1")
		e.want("end", w.next(), "2: -a")
		_, err = e.s.KeepAlive(e.ctx, id)
		e.wantErr(err, store.ErrNotFound)
	}},
	{"KeepAliveReturnsTheTTL", func(e *env) {
		id := e.grant(time.Minute)
		ttl, err := e.s.KeepAlive(e.ctx, id)
		e.must(err)
		e.want("ttl", ttl >= time.Minute, true)
	}},
	{"APutWithoutALeaseTakesTheKeyFromItsLease", func(e *env) {
		id := e.grant(time.Minute)
		e.do(store.Put(e.key("a"), []byte("1"), id))
		e.do(e.put("a", "2"))
		e.must(e.revoke(id))
		e.want("a", e.get("a"), "a=2 c1 m2 v2")
	}},
	{"APutMovesAKeyToAnotherLease", func(e *env) {
		one, two := e.grant(time.Minute), e.grant(time.Minute)
		e.do(store.Put(e.key("a"), []byte("1"), one))
		e.do(store.Put(e.key("a"), []byte("2"), two))
		e.must(e.revoke(one))
		e.want("a", e.get("a"), "a=2 c1 m2 v2")
		e.must(e.revoke(two))
		e.want("a", e.get("a"), "none")
	}},
	{"ADeletedKeyLeavesItsLease", func(e *env) {
		id := e.grant(time.Minute)
		e.do(store.Put(e.key("a"), []byte("1"), id))
		e.do(e.del("a"))
		e.do(e.put("a", "2"))
		e.must(e.revoke(id))
		e.want("a", e.get("a"), "a=2 c3 m3 v1")
	}},
	{"ALeaseOfNoTimeIsRefused", func(e *env) {
		for {
			_, err := e.s.Grant(e.ctx, 0)
			if errors.Is(err, store.ErrUnknown) {
				continue
			}
			e.wantErr(err, store.ErrInvalid)
			return
		}
	}},
}
