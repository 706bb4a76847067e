package storetest

import (
	"fmt"

	"muru/store"
)

var rangeCases = []testCase{
	{"ARangeHasItsBeginningAndNotItsEnd", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"), e.put("c", "3"))
		e.want("range", e.list("a", "c", store.RangeOpt{}), "a=1 b=2")
	}},
	{"ARangeWithoutAnEndReachesTheLastKey", func(e *env) {
		e.do(e.put("a", "1"), e.put("\xff\xff", "2"))
		page, err := e.s.Range(e.ctx, e.key("a"), "", store.RangeOpt{})
		e.must(err)
		e.want("keys", len(page.KVs) >= 2, true)
		e.want("first", e.show(page.KVs[0]), "a=1 c1 m1 v1")
	}},
	{"ARangeThatEndsBeforeItBeginsIsEmpty", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"))
		e.want("range", e.list("b", "a", store.RangeOpt{}), "")
		e.want("range", e.list("a", "a", store.RangeOpt{}), "")
		e.want("range", e.list("b", "a", store.RangeOpt{Desc: true}), "")
	}},
	{"ARangeIsInTheOrderOfBytes", func(e *env) {
		e.do(e.put("a\x00", "2"), e.put("b", "5"), e.put("a", "1"), e.put("a\x01", "3"), e.put("aa", "4"), e.put("\xff", "6"))
		e.want("range", e.list("", "", store.RangeOpt{}), "a=1 a\x00=2 a\x01=3 aa=4 b=5 \xff=6")
		e.want("descending", e.list("", "", store.RangeOpt{Desc: true}), "\xff=6 b=5 aa=4 a\x01=3 a\x00=2 a=1")
	}},
	{"ALimitSaysWhetherThereIsMore", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"), e.put("c", "3"))
		e.want("two", e.list("", "", store.RangeOpt{Limit: 2}), "a=1 b=2 …")
		e.want("three", e.list("", "", store.RangeOpt{Limit: 3}), "a=1 b=2 c=3")
		e.want("last two", e.list("", "", store.RangeOpt{Limit: 2, Desc: true}), "c=3 b=2 …")
	}},
	{"MoreDoesNotCountDeletedKeys", func(e *env) {
		e.do(e.put("a", "1"), e.put("b", "2"))
		e.do(e.del("b"))
		e.want("one", e.list("", "", store.RangeOpt{Limit: 1}), "a=1")
		e.want("one descending", e.list("", "", store.RangeOpt{Limit: 1, Desc: true}), "a=1")
	}},
	{"KeysAloneLeaveTheValuesOut", func(e *env) {
		e.do(e.put("a", "1"))
		page, err := e.page("", "", store.RangeOpt{Keys: true})
		e.must(err)
		e.want("page", e.show(page.KVs[0]), "a= c1 m1 v1")
	}},
	{"APageSaysItsRevision", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		page, err := e.page("", "", store.RangeOpt{})
		e.must(err)
		e.want("now", page.Rev-e.base, 2)
		page, err = e.page("", "", e.at(1))
		e.must(err)
		e.want("then", page.Rev-e.base, 1)
	}},
	{"ARangeAtARevisionShowsWhatWas", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"), e.put("b", "1"))
		e.do(e.del("a"))
		e.do(e.put("a", "3"))
		for rev, want := range []string{"", "a=1", "a=2 b=1", "b=1", "a=3 b=1"} {
			e.want(fmt.Sprint("at ", rev), e.list("", "", e.at(int64(rev))), want)
			opt := e.at(int64(rev))
			opt.Desc = true
			backwards := map[string]string{"a=2 b=1": "b=1 a=2", "a=3 b=1": "b=1 a=3"}[want]
			if backwards == "" {
				backwards = want
			}
			e.want(fmt.Sprint("descending at ", rev), e.list("", "", opt), backwards)
		}
	}},
	{"AnOldVersionKeepsItsNumbers", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.do(e.put("a", "3"))
		page, err := e.page("", "", e.at(2))
		e.must(err)
		e.want("page", e.show(page.KVs[0]), "a=2 c1 m2 v2")
	}},
	{"ARevisionToComeIsRefused", func(e *env) {
		_, err := e.page("", "", e.at(1))
		e.wantErr(err, store.ErrFuture)
	}},
	{"ARangeBelowTheCompactionIsCompacted", func(e *env) {
		e.do(e.put("a", "1"))
		e.do(e.put("a", "2"))
		e.do(e.put("a", "3"))
		e.compact(2)
		_, err := e.page("", "", e.at(1))
		e.wantErr(err, store.ErrCompacted)
		e.want("at it", e.list("", "", e.at(2)), "a=2")
		e.want("now", e.list("", "", store.RangeOpt{}), "a=3")
	}},
	{"ACompactionKeepsWhatIsOldButThere", func(e *env) {
		e.do(e.put("old", "1"))
		e.do(e.put("gone", "1"))
		e.do(e.del("gone"))
		e.do(e.put("a", "1"))
		e.compact(4)
		e.want("now", e.list("", "", store.RangeOpt{}), "a=1 old=1")
		e.want("numbers", e.get("old"), "old=1 c1 m1 v1")
		e.do(e.put("old", "2"))
		e.want("before", e.list("", "", e.at(4)), "a=1 old=1")
		e.compact(5)
		e.want("after", e.list("", "", store.RangeOpt{}), "a=1 old=2")
	}},
	{"ManyVersionsOfAKeyAreOneKey", func(e *env) {
		for i := range 30 {
			e.do(e.put("a", fmt.Sprint(i)), e.put("b", fmt.Sprint(i)))
		}
		e.want("up", e.list("", "", store.RangeOpt{}), "a=29 b=29")
		e.want("down", e.list("", "", store.RangeOpt{Desc: true}), "b=29 a=29")
		opt := e.at(7)
		opt.Desc, opt.Limit = true, 1
		e.want("down then", e.list("", "", opt), "b=6 …")
	}},
}
