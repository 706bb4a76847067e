// Command judge simulates rollouts through the real engine and its judges, on
// a virtual clock, and prints how often and how soon each judge is right:
//
//	go run ./bench/judge         1,000 rollouts a row, some minutes
//	go run ./bench/judge -quick  100 rollouts a row, under a minute
//
// It ends with status 1 when the sequential judge misses a figure; the plain
// one stands beside it for contrast.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muru"
	"muru/rollout"
)

// A row is one case of the table.
type row struct {
	name   string
	must   string
	plan   func(*rollout.CanaryRequest) // nil: the defaults
	people func(seed uint64) visitors
	run    func(seed uint64, change func(*rollout.CanaryRequest)) outcome // instead of people
	alone  bool                                                           // the plain judge cannot play it
	show   func(all []outcome) string
	holds  func(all []outcome) bool
}

func main() {
	quick := flag.Bool("quick", false, "100 rollouts a row instead of 1,000")
	flag.Parse()
	n := 1000
	if *quick {
		n = 100
	}
	began := time.Now()
	fmt.Printf("%-52s %-34s %-26s %-26s\n", "CASE", "MUST SHOW", "SEQUENTIAL", "THRESHOLD")
	missed := 0
	for _, r := range table() {
		sequential, plain := simulate(r, n, "sequential"), "-"
		if !r.alone {
			plain = r.show(simulate(r, n, "threshold"))
		}
		verdict := "ok"
		if !r.holds(sequential) {
			verdict = "MISSED"
			missed++
		}
		fmt.Printf("%-52s %-34s %-26s %-26s %s\n", r.name, r.must, r.show(sequential), plain, verdict)
	}
	fmt.Printf("%d rollouts a row and judge, in %s\n", n, time.Since(began).Round(time.Second))
	if missed > 0 {
		fmt.Printf("judge: %d rows missed their figure\n", missed)
		os.Exit(1)
	}
}

// simulate plays n rollouts of a row, as many at the same time as there are
// processors.
func simulate(r row, n int, judge string) []outcome {
	all := make([]outcome, n)
	var next atomic.Int64
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				seed := uint64(i + 1)
				change := func(q *rollout.CanaryRequest) {
					q.Judge = judge
					if r.plan != nil {
						r.plan(q)
					}
				}
				if r.run != nil {
					all[i] = r.run(seed, change)
				} else {
					all[i] = play(seed, change, r.people(seed))
				}
			}
		})
	}
	work.Wait()
	return all
}

// table is what must be shown.
func table() []row {
	var rows []row
	for _, rate := range []float64{0, 0.5, 0.9, 1, 2, 20} {
		rows = append(rows, fair(fmt.Sprintf("identical, %g%% errors", rate), rates(rate/100, rate/100), nil))
	}
	p95 := func(q *rollout.CanaryRequest) {
		q.Gates = []muru.Gate{{Name: muru.GateP95}} // the baseline's own
	}
	rows = append(rows,
		fair("identical, 200 returning clients, 3 always failing", returning, nil),
		fair("identical, heavy-tailed clients, 2% of them fail", heavyTailed, nil),
		fair("identical, heavy-tailed clients, 5% slow, p95 own", heavyTailed, p95),
		fair("identical, retry storm", storm, nil),
		fair("identical, p95 own", rates(0, 0), p95),
		soon("candidate 22%, baseline 0%", rates(0, 0.22), 20, 5, nil),
		soon("candidate 100%, baseline 0.1%", rates(0.001, 1), 4, math.MaxInt, nil),
		soon("candidate 5%, baseline 0.1%", rates(0.001, 0.05), 80, math.MaxInt, nil),
		soon("candidate 1%, baseline 0.1%, limit 0.5%", rates(0.001, 0.01), 600, math.MaxInt, func(q *rollout.CanaryRequest) {
			q.Gates = []muru.Gate{{Name: muru.Gate5xx, Max: muru.PercentOf(0.5)}}
			q.Steps = []muru.Step{{Share: 1000, Hold: 10 * time.Minute}}
		}),
		row{
			name: "30% of requests 10x slower, p95 max 50 ms", must: "fails", people: slower,
			plan: func(q *rollout.CanaryRequest) {
				q.Gates = []muru.Gate{{Name: muru.GateP95, Max: muru.TimeOf(50 * time.Millisecond)}}
			},
			show: showSpeed, holds: func(all []outcome) bool { return failures(all) == len(all) },
		},
		row{
			name: "one error of three candidate requests", must: "no failure", run: first(1),
			show: showFailures, holds: func(all []outcome) bool { return failures(all) == 0 },
		},
		row{
			name: "three errors of three candidate requests", must: "failure", run: first(3),
			show: showFailures, holds: func(all []outcome) bool { return failures(all) == len(all) },
		},
	)
	rows = append(rows, both("both 5% errors (shared database down)", rates(0.05, 0.05), nil))
	return slices.Concat(rows, copies(), proofs())
}

// both is a row whose releases both are over their limit.
func both(name string, people func(uint64) visitors, plan func(*rollout.CanaryRequest)) row {
	r := fair(name, people, plan)
	r.must = "no failure; the event says both"
	r.show = func(all []outcome) string { return fmt.Sprintf("%s, said %d", showFailures(all), said(all)) }
	fails := r.holds
	// A rollout that was failed by chance was failed before it could be said.
	r.holds = func(all []outcome) bool { return fails(all) && said(all) >= len(all)-failures(all) }
	return r
}

// fair is a row whose releases are alike: a gate may fail 1% of the rollouts,
// within three standard errors of so many.
func fair(name string, people func(uint64) visitors, plan func(*rollout.CanaryRequest)) row {
	return row{
		name: name, must: "failed <= 1%", people: people, plan: plan, show: showFailures,
		holds: func(all []outcome) bool { return rare(failures(all), len(all)) },
	}
}

// rare reports whether k of n are 1%, within three standard errors of so many.
func rare(k, n int) bool {
	all := float64(n)
	return float64(k) <= all*0.01+3*math.Sqrt(all*0.01*0.99)
}

// soon is a row whose candidate must be found out by so many of its requests
// and failures.
func soon(name string, people func(uint64) visitors, requests, fails int, plan func(*rollout.CanaryRequest)) row {
	must := fmt.Sprintf("<= %d requests", requests)
	if fails < math.MaxInt {
		must += fmt.Sprintf(", <= %d failures", fails)
	}
	return row{
		name: name, must: must, people: people, plan: plan, show: showSpeed,
		holds: func(all []outcome) bool {
			r, f := medians(all)
			return 2*failures(all) > len(all) && r <= requests && f <= fails
		},
	}
}

func failures(all []outcome) (n int) {
	for _, o := range all {
		if o.failed {
			n++
		}
	}
	return n
}

func said(all []outcome) (n int) {
	for _, o := range all {
		if o.bothBad {
			n++
		}
	}
	return n
}

// medians are of the candidate's requests and failures until the decision.
// Rollouts that were not failed count as the longest.
func medians(all []outcome) (requests, fails int) {
	until := func(of func(outcome) int) int {
		return median(all, func(o outcome) int {
			if !o.failed {
				return math.MaxInt
			}
			return of(o)
		})
	}
	return until(func(o outcome) int { return o.requests }), until(func(o outcome) int { return o.failures })
}

func median(all []outcome, of func(outcome) int) int {
	values := make([]int, len(all))
	for i, o := range all {
		values[i] = of(o)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func showFailures(all []outcome) string {
	return fmt.Sprintf("failed %.1f%% (%d)", 100*float64(failures(all))/float64(len(all)), failures(all))
}

func showSpeed(all []outcome) string {
	r, f := medians(all)
	if r == math.MaxInt {
		return showFailures(all)
	}
	return fmt.Sprintf("%d requests, %d failures", r, f)
}
