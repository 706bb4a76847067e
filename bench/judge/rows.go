package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"muru"
	"muru/rollout"
)

// perSecond is how many requests the simulated visitors send.
const perSecond = 300

// longest is how long a rollout is watched: one that has not ended then is
// neither failed nor promoted.
const longest = 40 * time.Minute

// An outcome is how one rollout ended.
type outcome struct {
	failed, promoted   bool
	requests, failures int // of the candidate until then, copies included
	met                int // of the failures: those that were no copies
	took               time.Duration
	bothBad            bool
}

// visitors make the requests of one rollout: next returns a client and what
// the two releases would do with its request.
type visitors func(r *rand.Rand) (client uint64, onBaseline, onCandidate request)

// play runs one rollout to its end.
func play(seed uint64, change func(*rollout.CanaryRequest), people visitors) outcome {
	w := newWorld(seed, change)
	defer w.close()
	began := w.clock.Now()
	for n := 0; w.live; n++ {
		after := time.Duration(n) * time.Second / perSecond
		if after > longest {
			break
		}
		at := began.Add(after)
		if n%(perSecond/10) == 0 {
			w.clock.set(at)
			w.look()
			if !w.live {
				break
			}
		}
		client, plain, tried := people(w.rand)
		w.visit(client, seed, plain, tried, at)
	}
	return w.outcome(began)
}

func (w *world) outcome(began time.Time) outcome {
	r, err := w.engine.Rollout(w.number)
	if err != nil {
		panic("BUG: rollout: " + err.Error())
	}
	o := outcome{requests: w.requests, failures: w.failures, met: w.met, took: w.clock.Now().Sub(began)}
	o.failed = r.State == muru.RolledBack && strings.HasPrefix(r.Message, "gate failed")
	o.promoted = r.State == muru.Promoted
	o.bothBad = len(w.engine.Events(rollout.EventQuery{Kind: muru.RolloutBothBad})) > 0
	return o
}

// usual is how long a request takes: about 12 ms, rarely longer.
func usual(r *rand.Rand) time.Duration {
	return time.Duration(12e6 * math.Exp(0.5*r.NormFloat64()))
}

// rates are visitors without cookies, of whose requests a part fails.
func rates(onBaseline, onCandidate float64) func(seed uint64) visitors {
	return func(uint64) visitors {
		return func(r *rand.Rand) (uint64, request, request) {
			took, luck := usual(r), r.Float64()
			return 0, request{took: took, failed: luck < onBaseline}, request{took: took, failed: luck < onCandidate}
		}
	}
}

// same are visitors to whom both releases do the same.
func same(next func(r *rand.Rand) (uint64, request)) visitors {
	return func(r *rand.Rand) (uint64, request, request) {
		client, what := next(r)
		return client, what, what
	}
}

// returning are 200 clients that come back, the first three of which always
// fail.
func returning(uint64) visitors {
	return same(func(r *rand.Rand) (uint64, request) {
		client := 1 + r.Uint64N(200)
		return client, request{took: usual(r), failed: client <= 3}
	})
}

// heavyTailed are 2,000 clients of which few send most requests. One in fifty
// always fails, one in twenty is always slow.
func heavyTailed(seed uint64) visitors {
	r := rand.New(rand.NewPCG(seed, 1))
	const n = 2000
	upTo := make([]float64, n)
	sum := 0.0
	for i := range upTo {
		sum += math.Pow(1-r.Float64(), -1/1.1) // Pareto
		upTo[i] = sum
	}
	fails, slow := make([]bool, n), make([]bool, n)
	for i := range n {
		fails[i], slow[i] = r.Float64() < 0.02, r.Float64() < 0.05
	}
	return same(func(r *rand.Rand) (uint64, request) {
		at, lo, hi := r.Float64()*sum, 0, n-1
		for lo < hi {
			if mid := (lo + hi) / 2; upTo[mid] < at {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		took := usual(r)
		if slow[lo] {
			took *= 50
		}
		return uint64(lo + 1), request{took: took, failed: fails[lo]}
	})
}

// storm are 5,000 clients; one that fails tries again at once, mostly in vain.
func storm(uint64) visitors {
	var again uint64
	return same(func(r *rand.Rand) (uint64, request) {
		client, odds := again, 0.95
		if again == 0 {
			client, odds = 1+r.Uint64N(5000), 0.01
		}
		failed := r.Float64() < odds
		if again = 0; failed {
			again = client
		}
		return client, request{took: usual(r), failed: failed}
	})
}

// slower are visitors of whose requests to the candidate 30% take ten times as
// long, while the median is the same.
func slower(uint64) visitors {
	return func(r *rand.Rand) (uint64, request, request) {
		took := usual(r)
		longer := took
		if r.Float64() < 0.3 {
			longer *= 10
		}
		return 0, request{took: took}, request{took: longer}
	}
}

// first are exactly three requests to the candidate, so many of which fail,
// beside 27 good ones of the baseline.
func first(failing int) func(seed uint64, change func(*rollout.CanaryRequest)) outcome {
	return func(seed uint64, change func(*rollout.CanaryRequest)) outcome {
		w := newWorld(seed, change)
		defer w.close()
		began := w.clock.Now()
		for n := range 30 {
			f := w.arrive(0, began.Add(time.Duration(n)*time.Second/perSecond))
			r := request{took: usual(w.rand)}
			if n%10 == 9 {
				f.Release, r.failed = candidate, n/10 < failing
			}
			w.send(f, r)
		}
		w.clock.set(began.Add(time.Second))
		w.look()
		return w.outcome(began)
	}
}
