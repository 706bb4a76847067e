package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"muru"
	"muru/rollout"
)

// proofs are the rows on until = "confident": a step that ends by proof. What
// is proven is false for at most alpha of the candidates that it is false of.
func proofs() []row {
	return []row{
		proven("until confident: no errors", rates(0, 0), 500),
		proven("until confident: identical, 1% errors", either(0, 0.01), 2500),
		proven("until confident: candidate 0.5%, baseline 1%", rates(0.01, 0.005), 1000),
		unproven("until confident: candidate 2%, baseline 1%, ratio 2", rates(0.01, 0.02), 2),
		unproven("until confident: candidate 4%, baseline 2%, ratio 2", rates(0.02, 0.04), 2),
		unproven("until confident: candidate 1%, baseline 0%", rates(0, 0.01), 1),
		unproven("until confident: 5,000 clients, 4% and 2%, ratio 2", comingBack(5000, 0.02, 0.04), 2),
	}
}

// confident has one step end as soon as there is a proof. Without one in five
// minutes the candidate is taken out.
func confident(q *rollout.CanaryRequest) {
	q.Until, q.OnNoData = rollout.UntilConfident, muru.NoDataRollback
	q.Steps = []muru.Step{{Share: 1000, Hold: time.Second}}
	q.Deadline = 5 * time.Minute
}

// proven is a row whose candidate must be proven good by so many of its
// requests.
func proven(name string, people func(uint64) visitors, limit int) row {
	return row{
		name: name, must: fmt.Sprintf("promoted by <= %d requests", limit), people: people, plan: confident, alone: true,
		show: func(all []outcome) string {
			requests := median(all, func(o outcome) int { return o.requests })
			return fmt.Sprintf("%d requests, promoted %.1f%%", requests, 100*float64(promotions(all))/float64(len(all)))
		},
		holds: func(all []outcome) bool {
			return rare(len(all)-promotions(all), len(all)) && median(all, func(o outcome) int { return o.requests }) <= limit
		},
	}
}

// unproven is a row whose candidate is as bad as the proof says it is not: it
// may be promoted in 1% of the rollouts.
func unproven(name string, people func(uint64) visitors, ratio float64) row {
	return row{
		name: name, must: "promoted <= 1%", people: people, alone: true,
		plan: func(q *rollout.CanaryRequest) {
			confident(q)
			q.Gates = []muru.Gate{{Name: muru.Gate5xx, Max: muru.PercentOf(1), Ratio: ratio}}
		},
		show: func(all []outcome) string {
			return fmt.Sprintf("promoted %.1f%% (%d)", 100*float64(promotions(all))/float64(len(all)), promotions(all))
		},
		holds: func(all []outcome) bool { return rare(promotions(all), len(all)) },
	}
}

func promotions(all []outcome) (n int) {
	for _, o := range all {
		if o.promoted {
			n++
		}
	}
	return n
}

// comingBack are clients that come back, of whose requests a part fails. In
// the end nearly all have met a failure, whichever release they are given.
func comingBack(clients int, onBaseline, onCandidate float64) func(uint64) visitors {
	return func(uint64) visitors {
		return func(r *rand.Rand) (uint64, request, request) {
			took, luck := usual(r), r.Float64()
			return uint64(1 + r.IntN(clients)), request{took: took, failed: luck < onBaseline}, request{took: took, failed: luck < onCandidate}
		}
	}
}
