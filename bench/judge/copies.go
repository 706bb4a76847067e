package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"muru"
	"muru/rollout"
)

// copies are the rows on shadow steps. The judge weighs the pairs that ended
// differently, as throws of an even coin, so that nine failing copies of good
// requests are what it needs (ln E = 4.95 > ln 100).
func copies() []row {
	all := []row{
		fair("copies: 5% fail on both, 1% on either by chance", either(0.05, 0.01), copied),
		fair("copies: 20% fail on either by chance", either(0, 0.2), copied),
		fair("copies: 200 clients, 15% fail on one side, always", oneSided, copied),
		fair("copies: 2% hang on either, people leave after 10 s", hanging, copied),
		fair("copies: heavy-tailed clients, p95 own", ownSpeed, func(q *rollout.CanaryRequest) {
			copied(q)
			q.Gates = []muru.Gate{{Name: muru.GateP95}}
		}),
		unmet("copies: candidate 100%, baseline 0.1%", rates(0.001, 1), 9),
		unmet("copies: candidate 22%, baseline 0%", rates(0, 0.22), 45),
		unmet("copies: candidate 5%, baseline 0.1%", rates(0.001, 0.05), 220),
	}
	shared := both("copies: both 5% errors (shared database down)", rates(0.05, 0.05), copied)
	return append(all, shared)
}

// copied has copies made of half of the requests for a minute, and then goes
// to people: a false alarm may come of either.
func copied(q *rollout.CanaryRequest) {
	q.Steps = []muru.Step{{Share: 5000, Shadow: true, Hold: time.Minute}, {Share: 1000, Hold: 30 * time.Second}}
}

// unmet is a row whose candidate must be found out by so many copies, before
// anybody is sent to it.
func unmet(name string, people func(uint64) visitors, limit int) row {
	r := soon(name, people, limit, 0, copied)
	r.must = fmt.Sprintf("<= %d copies, nobody met it", limit)
	r.holds = func(all []outcome) bool {
		requests, _ := medians(all)
		for _, o := range all {
			if o.met > 0 {
				return false
			}
		}
		return failures(all) == len(all) && requests <= limit
	}
	return r
}

// either are visitors without cookies, of whose requests a part fails whoever
// answers, and of the others a part on each release by itself.
func either(shared, own float64) func(uint64) visitors {
	return func(uint64) visitors {
		return func(r *rand.Rand) (uint64, request, request) {
			down := r.Float64() < shared
			return 0, request{took: usual(r), failed: down || r.Float64() < own},
				request{took: usual(r), failed: down || r.Float64() < own}
		}
	}
}

// hanging are visitors without cookies, of whose requests a part hangs on each
// release by itself.
func hanging(uint64) visitors {
	return func(r *rand.Rand) (uint64, request, request) {
		return 0, request{took: usual(r), hangs: r.Float64() < 0.02}, request{took: usual(r), hangs: r.Float64() < 0.02}
	}
}

// oneSided are 200 clients that come back. Thirty of them have data that one of
// the releases, whichever, cannot read: had each of their pairs a say, a few
// people would decide.
func oneSided(seed uint64) visitors {
	luck := rand.New(rand.NewPCG(seed, 2))
	var side [200]int
	for i := range 30 {
		side[i] = 1 + luck.IntN(2)
	}
	return func(r *rand.Rand) (uint64, request, request) {
		i := r.IntN(len(side))
		return uint64(1 + i), request{took: usual(r), failed: side[i] == 1}, request{took: usual(r), failed: side[i] == 2}
	}
}

// ownSpeed are heavy-tailed clients whose requests take the two releases
// different times, by chance.
func ownSpeed(seed uint64) visitors {
	people := heavyTailed(seed)
	return func(r *rand.Rand) (uint64, request, request) {
		client, _, _ := people(r)
		return client, request{took: usual(r)}, request{took: usual(r)}
	}
}
