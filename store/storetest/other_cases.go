package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muru/store"
)

var leadCases = []testCase{
	{"ALeaderIsAKeyWithItsValue", func(e *env) {
		term := e.lead("leader", "me")
		page, err := e.page("leader", "", store.RangeOpt{})
		e.must(err)
		e.want("keys", len(page.KVs), 1)
		e.want("value", string(page.KVs[0].Value), "me")
		e.must(term.Resign(e.ctx))
		e.want("after", e.list("leader", "", store.RangeOpt{}), "")
	}},
	{"OneLeadsAtATime", func(e *env) {
		first := e.lead("leader", "1")
		ctx, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
		defer cancel()
		_, err := e.s.Lead(ctx, e.key("leader"), "2", time.Minute)
		e.wantErr(err, context.DeadlineExceeded)
		e.must(first.Resign(e.ctx))
		e.must(e.lead("leader", "3").Resign(e.ctx))
	}},
	{"TheNextLeaderTakesOverFromOneThatResigns", func(e *env) {
		first := e.lead("leader", "1")
		next := make(chan store.Term, 1)
		go func() {
			term, err := e.s.Lead(e.ctx, e.key("leader"), "2", time.Minute)
			if err != nil {
				close(next)
				return
			}
			next <- term
		}()
		e.must(first.Resign(e.ctx))
		second, ok := <-next
		e.want("leads", ok, true)
		e.want("later epoch", second.Epoch() > first.Epoch(), true)
		e.must(second.Resign(e.ctx))
	}},
	{"AGuardHoldsAsLongAsTheTerm", func(e *env) {
		first := e.lead("leader", "1")
		e.want("first", e.txn([]store.Cmp{first.Guard()}, []store.Op{e.put("a", "1")}, nil).OK, true)
		e.must(first.Resign(e.ctx))
		e.want("resigned", e.txn([]store.Cmp{first.Guard()}, []store.Op{e.put("a", "2")}, nil).OK, false)
		second := e.lead("leader", "2")
		e.want("replaced", e.txn([]store.Cmp{first.Guard()}, []store.Op{e.put("a", "3")}, nil).OK, false)
		e.want("second", e.txn([]store.Cmp{second.Guard()}, []store.Op{e.put("a", "4")}, nil).OK, true)
		e.must(second.Resign(e.ctx))
	}},
	{"LeadersOfDifferentNamesDoNotWait", func(e *env) {
		one, two := e.lead("one", "1"), e.lead("two", "2")
		e.must(errors.Join(one.Resign(e.ctx), two.Resign(e.ctx)))
	}},
	{"ATermIsLostByResigningOnce", func(e *env) {
		term := e.lead("leader", "1")
		select {
		case <-term.Lost():
			e.t.Fatalf("lost at once")
		default:
		}
		e.must(term.Resign(e.ctx))
		<-term.Lost()
		e.must(term.Resign(e.ctx))
	}},
	{"ATermIsLostWithTheStore", func(e *env) {
		term := e.lead("leader", "1")
		e.must(e.s.Close())
		<-term.Lost()
	}},
}

func (e *env) lead(name, value string) store.Term {
	e.t.Helper()
	term, err := e.s.Lead(e.ctx, e.key(name), value, time.Minute)
	e.must(err)
	return term
}

var otherCases = []testCase{
	{"CompactingTwiceIsCompacted", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.compact(2)
		for _, rev := range []store.Rev{1, 2} {
			err := e.s.Compact(e.ctx, e.base+rev)
			for errors.Is(err, store.ErrUnknown) {
				err = e.s.Compact(e.ctx, e.base+rev)
			}
			e.wantErr(err, store.ErrCompacted)
		}
	}},
	{"CompactingTheFutureIsRefused", func(e *env) {
		err := e.s.Compact(e.ctx, e.base+1)
		for errors.Is(err, store.ErrUnknown) {
			err = e.s.Compact(e.ctx, e.base+1)
		}
		e.wantErr(err, store.ErrFuture)
	}},
	{"ACompactionTakesNoRevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.compact(1)
		e.want("revision", e.rev(), 1)
		e.want("compacted", e.status().Compacted-e.base, 1)
	}},
	{"StatusCountsKeys", func(e *env) {
		before := e.status().Keys
		e.do(e.put("a", "1"), e.put("b", "2"))
		e.do(e.put("a", "2"))
		e.want("after puts", e.status().Keys-before, 2)
		e.do(e.delRange("", ""))
		e.want("after deletions", e.status().Keys-before, 0)
	}},
	{"ASnapshotIsWritten", func(e *env) {
		e.do(e.put("a", "1"))
		var b bytes.Buffer
		e.must(e.s.Snapshot(e.ctx, &b))
		e.want("not empty", b.Len() > 0, true)
	}},
	{"ASnapshotThatCannotBeWrittenSaysSo", func(e *env) {
		broken := errors.New("broken pipe")
		e.wantErr(e.s.Snapshot(e.ctx, failingWriter{broken}), broken)
	}},
	{"CallsEndWithTheirContext", func(e *env) {
		ctx, cancel := context.WithCancelCause(e.ctx)
		cause := errors.New("the caller left")
		cancel(cause)
		_, _, err := e.s.Get(ctx, e.key("a"))
		e.wantErr(err, cause)
		_, err = e.s.Range(ctx, e.key("a"), "", store.RangeOpt{})
		e.wantErr(err, cause)
		_, err = e.s.Txn(ctx, nil, []store.Op{e.put("a", "1")}, nil)
		e.want("not done or unknown", errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown), true)
		e.want("a", e.get("a"), "none")
	}},
	{"AClosedStoreIsUnavailable", func(e *env) {
		e.must(e.s.Close())
		_, _, err := e.s.Get(e.ctx, e.key("a"))
		e.wantErr(err, store.ErrUnavailable)
		_, err = e.s.Watch(e.ctx, "", "", 0)
		e.wantErr(err, store.ErrUnavailable)
		_, err = e.s.KeepAlive(e.ctx, 1)
		e.wantErr(err, store.ErrUnavailable)
		_, err = e.s.Status(e.ctx)
		e.wantErr(err, store.ErrUnavailable)
	}},
	{"WhatWasWrittenIsThereAfterOpeningAgain", func(e *env) {
		id := e.grant(time.Hour)
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"), store.Put(e.key("b"), []byte("1"), id))
		e.do(e.del("a"))
		if e.h.Reopen != nil {
			e.s = e.h.Reopen(e.tb, e.s)
		}
		e.want("revision", e.rev(), 3)
		e.want("now", e.list("", "", store.RangeOpt{}), "b=1")
		e.want("then", e.list("", "", e.at(2)), "a=2 b=1")
		e.want("watch", e.watch("", "", 2).next(), "2: +a=2 +b=1")
		ttl, err := e.s.KeepAlive(e.ctx, id)
		e.must(err)
		e.want("lease", ttl >= time.Hour, true)
		e.must(e.revoke(id))
		e.want("revoked", e.get("b"), "none")
	}},
	{"ManyWritersCountExactly", manyWriters},
	{"ConcurrentReadersSeeWholeTransactions", wholeTransactions},
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// manyWriters increments one counter from many goroutines by comparing. After
// ErrUnknown each looks for its own mark, as a caller does that must not count
// twice.
func manyWriters(e *env) {
	const writers, each = 4, 15
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for i := range each {
				mark := e.key(fmt.Sprintf("mark/%d-%d", writer, i))
				for !e.increment(e.key("count"), mark) {
				}
			}
		})
	}
	wg.Wait()
	kv, _, err := e.s.Get(e.ctx, e.key("count"))
	e.must(err)
	e.want("count", string(kv.Value), fmt.Sprint(writers*each))
	e.want("version", kv.Version, writers*each)
}

// increment adds one to the counter once; false: try again.
func (e *env) increment(counter, mark string) bool {
	kv, _, err := e.s.Get(e.ctx, counter)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return e.ctx.Err() != nil
	}
	n := 0
	_, _ = fmt.Sscan(string(kv.Value), &n)
	result, err := e.s.Txn(e.ctx,
		[]store.Cmp{store.Unchanged(counter, kv), store.Absent(mark)},
		[]store.Op{store.Put(counter, fmt.Append(nil, n+1), 0), store.Put(mark, nil, 0)}, nil)
	if errors.Is(err, store.ErrUnknown) {
		_, _, err = e.s.Get(e.ctx, mark)
		return err == nil
	}
	return result.OK || e.ctx.Err() != nil
}

// wholeTransactions reads two keys that are always written together.
func wholeTransactions(e *env) {
	e.do(e.put("a", "0"), e.put("b", "0"))
	done := make(chan struct{})
	var wg sync.WaitGroup
	problems := make(chan string, 2)
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				page, err := e.page("", "", store.RangeOpt{})
				if err != nil || len(page.KVs) != 2 || !bytes.Equal(page.KVs[0].Value, page.KVs[1].Value) {
					problems <- fmt.Sprintf("%v %v", page, err)
					return
				}
			}
		})
	}
	for i := range 100 {
		e.do(e.put("a", fmt.Sprint(i)), e.put("b", fmt.Sprint(i)))
	}
	close(done)
	wg.Wait()
	close(problems)
	for p := range problems {
		e.t.Fatalf("half a transaction: %s", p)
	}
}
