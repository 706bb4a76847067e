package storetest

import (
	"bytes"
	"fmt"
	"strings"

	"muru/store"
)

var txnCases = []testCase{
	{"AKeyThatIsNotThereIsNotFoundWithARevision", func(e *env) {
		e.want("get", e.get("a"), "none")
	}},
	{"APutTakesTheNextRevision", func(e *env) {
		e.want("revision", e.do(e.put("a", "1")), 1)
		e.want("get", e.get("a"), "a=1 c1 m1 v1")
		e.want("revision", e.do(e.put("b", "1")), 2)
	}},
	{"ASecondPutKeepsCreateAndCountsTheVersion", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.want("get", e.get("a"), "a=2 c1 m2 v2")
	}},
	{"APutOfAnEqualValueAdvancesTheRevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.want("revision", e.do(e.put("a", "1")), 2)
		e.want("get", e.get("a"), "a=1 c1 m2 v2")
	}},
	{"AllKeysOfATransactionShareItsRevision", func(e *env) {
		e.want("revision", e.do(e.put("a", "1"), e.put("b", "2"), e.put("c", "3")), 1)
		e.want("a", e.get("a"), "a=1 c1 m1 v1")
		e.want("c", e.get("c"), "c=3 c1 m1 v1")
	}},
	{"ADeletionTakesARevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.want("revision", e.do(e.del("a")), 2)
		e.want("get", e.get("a"), "none")
	}},
	{"DeletingAMissingKeyTakesNoRevision", func(e *env) {
		e.want("revision", e.do(e.del("a")), 0)
		e.do(e.put("a", "1"))
		e.want("revision", e.do(e.del("b")), 1)
	}},
	{"DeletingAnEmptyRangeTakesNoRevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.want("revision", e.do(e.delRange("b", "")), 1)
	}},
	{"AKeyCreatedAgainHasVersionOneAndANewCreate", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.do(e.del("a"))
		e.do(e.put("a", "3"))
		e.want("get", e.get("a"), "a=3 c4 m4 v1")
	}},
	{"ATransactionOfReadsTakesNoRevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.want("revision", e.do(e.read("a"), e.read("b")), 1)
	}},
	{"AnEmptyTransactionTakesNoRevision", func(e *env) {
		e.want("revision", e.do(), 0)
	}},
	{"AFailedComparisonChangesNothing", func(e *env) {
		e.do(e.put("a", "1"))
		result := e.txn([]store.Cmp{store.Absent(e.key("a"))}, []store.Op{e.put("a", "2")}, nil)
		e.want("ok", result.OK, false)
		e.want("revision", result.Rev-e.base, 1)
		e.want("get", e.get("a"), "a=1 c1 m1 v1")
	}},
	{"AFailedComparisonDoesElse", func(e *env) {
		e.do(e.put("a", "1"))
		result := e.txn([]store.Cmp{store.Absent(e.key("a"))}, []store.Op{e.put("b", "then")}, []store.Op{e.put("b", "else")})
		e.want("ok", result.OK, false)
		e.want("revision", result.Rev-e.base, 2)
		e.want("b", e.get("b"), "b=else c2 m2 v1")
	}},
	{"AllComparisonsMustHold", func(e *env) {
		e.do(e.put("a", "1"))
		cmps := []store.Cmp{store.CmpVersion(e.key("a"), store.Equal, 1), store.CmpVersion(e.key("b"), store.Equal, 1)}
		e.want("ok", e.txn(cmps, []store.Op{e.put("c", "1")}, nil).OK, false)
		e.do(e.put("b", "1"))
		e.want("ok", e.txn(cmps, []store.Op{e.put("c", "1")}, nil).OK, true)
	}},
	{"NoComparisonsHold", func(e *env) {
		e.want("ok", e.txn(nil, []store.Op{e.put("a", "1")}, []store.Op{e.put("a", "2")}).OK, true)
		e.want("a", e.get("a"), "a=1 c1 m1 v1")
	}},
	{"EveryTargetComparesInEveryRelation", compareAll},
	{"AMissingKeyComparesAsZeroAndHasNoValue", func(e *env) {
		missing := e.key("missing")
		for want, cmps := range map[bool][]store.Cmp{
			true: {
				store.CmpCreate(missing, store.Equal, 0), store.CmpMod(missing, store.Less, 1),
				store.CmpVersion(missing, store.Greater, -1),
			},
			false: {
				store.CmpValue(missing, store.Equal, nil), store.CmpValue(missing, store.Less, []byte("z")),
				store.CmpValue(missing, store.Greater, nil), store.CmpCreate(missing, store.Greater, 0),
			},
		} {
			for _, c := range cmps {
				e.want(fmt.Sprintf("%+v", c), e.txn([]store.Cmp{c}, nil, nil).OK, want)
			}
		}
	}},
	{"ValuesCompareAsBytes", func(e *env) {
		e.do(store.Put(e.key("a"), []byte{0x80}, 0))
		e.want("unsigned", e.txn([]store.Cmp{store.CmpValue(e.key("a"), store.Greater, []byte{0x7f, 0xff})}, nil, nil).OK, true)
	}},
	{"CreateOnlyKeysAreMadeOnce", func(e *env) {
		once := []store.Cmp{store.Absent(e.key("a"))}
		e.want("first", e.txn(once, []store.Op{e.put("a", "1")}, nil).OK, true)
		e.want("second", e.txn(once, []store.Op{e.put("a", "2")}, nil).OK, false)
		e.want("a", e.get("a"), "a=1 c1 m1 v1")
	}},
	{"AGetSeesWhatIsBeforeItInTheTransaction", func(e *env) {
		e.do(e.put("a", "old"), e.put("b", "old"))
		result := e.txn(nil, []store.Op{e.read("a"), e.put("a", "new"), e.read("a"), e.del("b"), e.read("b"), e.read("none")}, nil)
		var shown []string
		for _, kv := range result.Gets {
			shown = append(shown, e.show(kv))
		}
		e.want("gets", strings.Join(shown, ", "), "a=old c1 m1 v1, a=new c1 m2 v2, none, none")
	}},
	{"OnlyTheBranchThatWasDoneReturnsItsGets", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"))
		result := e.txn([]store.Cmp{store.Absent(e.key("a"))}, []store.Op{e.read("a")}, []store.Op{e.read("b")})
		e.want("gets", len(result.Gets), 1)
		e.want("get", e.show(result.Gets[0]), "b=2 c1 m1 v1")
	}},
	{"ARangeIsDeletedAtOneRevision", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"), e.put("c", "3"))
		e.want("revision", e.do(e.delRange("a", "c")), 2)
		e.want("left", e.list("", "", store.RangeOpt{}), "c=3")
	}},
	{"APutBesideADeletedRangeIsOneTransaction", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"))
		e.want("revision", e.do(e.delRange("a", "c"), e.put("c", "3")), 2)
		e.want("left", e.list("", "", store.RangeOpt{}), "c=3")
	}},
	{"TheSameKeyTwiceIsRefused", sameKeyTwice},
	{"BothBranchesMayWriteTheSameKey", func(e *env) {
		e.want("ok", e.txn(nil, []store.Op{e.put("a", "1")}, []store.Op{e.put("a", "2")}).OK, true)
	}},
	{"AnEmptyKeyIsRefused", func(e *env) {
		_, err := e.try(nil, []store.Op{store.Put("", nil, 0)}, nil)
		e.wantErr(err, store.ErrInvalid)
		_, err = e.try([]store.Cmp{store.Absent("")}, nil, nil)
		e.wantErr(err, store.ErrInvalid)
		_, _, err = e.s.Get(e.ctx, "")
		e.wantErr(err, store.ErrInvalid)
	}},
	{"LimitsHoldExactly", limits},
	{"ARefusedTransactionChangesNothing", func(e *env) {
		_, err := e.try(nil, []store.Op{e.put("a", "1"), store.Put(e.key("b"), nil, 1<<60)}, nil)
		e.wantErr(err, store.ErrNotFound) // no such lease
		e.want("revision", e.rev(), 0)
		e.want("a", e.get("a"), "none")
	}},
	{"KeysAndValuesAreAnyBytes", func(e *env) {
		names := []string{"\x00", "a\x00", "a\x00\x00b", "a\x00\xff", "a\x00\x01", "ÿ\xff\xfe", "a"}
		for i, name := range names {
			e.do(e.put(name, fmt.Sprintf("%d\x00\xff", i)))
		}
		for i, name := range names {
			e.want("get", e.get(name), fmt.Sprintf("%s=%d\x00\xff c%d m%d v1", name, i, i+1, i+1))
		}
	}},
	{"AnEmptyValueIsAValue", func(e *env) {
		e.do(e.put("a", ""))
		e.want("get", e.get("a"), "a= c1 m1 v1")
		e.want("compare", e.txn([]store.Cmp{store.CmpValue(e.key("a"), store.Equal, nil)}, nil, nil).OK, true)
	}},
	{"ValuesAreTheCallersOwn", func(e *env) {
		value := []byte("one")
		e.do(store.Put(e.key("a"), value, 0))
		copy(value, "new")
		kv, _, err := e.s.Get(e.ctx, e.key("a"))
		e.must(err)
		copy(kv.Value, "yyy")
		e.want("get", e.get("a"), "a=one c1 m1 v1")
	}},
}

func compareAll(e *env) {
	e.do(e.put("a", "m"))
	e.do(e.put("a", "m")) // create 1, mod 2, version 2
	key := e.key("a")
	rev := func(n int64) int64 { return int64(e.base) + n }
	for _, c := range []struct {
		target store.Target
		equal  int64
	}{{store.Create, rev(1)}, {store.Mod, rev(2)}, {store.Version, 2}} {
		for _, d := range []int64{-1, 0, 1} {
			for rel, want := range map[store.Rel]bool{store.Equal: d == 0, store.Less: d > 0, store.Greater: d < 0} {
				one := store.Cmp{Key: key, Target: c.target, Rel: rel, Num: c.equal + d}
				e.want(fmt.Sprintf("%+v", one), e.txn([]store.Cmp{one}, nil, nil).OK, want)
			}
		}
	}
	for value, d := range map[string]int{"a": -1, "m": 0, "z": 1} {
		for rel, want := range map[store.Rel]bool{store.Equal: d == 0, store.Less: d > 0, store.Greater: d < 0} {
			one := store.CmpValue(key, rel, []byte(value))
			e.want(fmt.Sprintf("%+v", one), e.txn([]store.Cmp{one}, nil, nil).OK, want)
		}
	}
}

func sameKeyTwice(e *env) {
	e.do(e.put("a", "1"))
	for _, ops := range [][]store.Op{
		{e.put("a", "2"), e.put("a", "3")},
		{e.put("a", "2"), e.del("a")},
		{e.del("a"), e.put("a", "2")},
		{e.del("a"), e.del("a")},
		{e.put("b", "2"), e.put("c", "2"), e.delRange("a", "c")},
		{e.delRange("a", ""), e.put("z", "2")},
		{e.delRange("a", "d"), e.delRange("c", "f")},
	} {
		_, err := e.try(nil, ops, nil)
		e.wantErr(err, store.ErrInvalid)
		_, err = e.try(nil, nil, ops)
		e.wantErr(err, store.ErrInvalid)
	}
	e.want("a", e.get("a"), "a=1 c1 m1 v1")
}

func limits(e *env) {
	many := func(n int) (cmps []store.Cmp, ops []store.Op) {
		for i := range n {
			cmps = append(cmps, store.Absent(e.key(fmt.Sprint("none", i))))
			ops = append(ops, e.put(fmt.Sprint(i), "v"))
		}
		return cmps, ops
	}
	cmps, ops := many(store.MaxOps)
	e.want("at the limit", e.txn(cmps, ops, ops).OK, true)
	cmps, ops = many(store.MaxOps + 1)
	_, err := e.try(cmps, nil, nil)
	e.wantErr(err, store.ErrTooLarge)
	_, err = e.try(nil, ops, nil)
	e.wantErr(err, store.ErrTooLarge)
	_, err = e.try(nil, nil, ops)
	e.wantErr(err, store.ErrTooLarge)

	value := bytes.Repeat([]byte("v"), store.MaxValueBytes)
	e.do(store.Put(e.key("value"), value, 0))
	kv, _, err := e.s.Get(e.ctx, e.key("value"))
	e.must(err)
	e.want("value of the largest size", bytes.Equal(kv.Value, value), true)
	_, err = e.try(nil, []store.Op{store.Put(e.key("value"), append(value, 'v'), 0)}, nil)
	e.wantErr(err, store.ErrTooLarge)

	key := e.key(strings.Repeat("k", store.MaxKeyBytes-len(e.prefix)))
	e.do(store.Put(key, []byte("v"), 0))
	_, err = e.try(nil, []store.Op{store.Put(key+"k", nil, 0)}, nil)
	e.wantErr(err, store.ErrTooLarge)

	var large []store.Op
	for i := range store.MaxTxnBytes/store.MaxValueBytes + 1 {
		large = append(large, store.Put(e.key(fmt.Sprint(i)), value, 0))
	}
	_, err = e.try(nil, large, nil)
	e.wantErr(err, store.ErrTooLarge)
}
