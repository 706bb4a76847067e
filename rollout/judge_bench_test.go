package rollout

import (
	"testing"
	"time"

	"muru"
)

// BenchmarkJudging is what a request costs in the default judge with the
// default gates, on the request's own path.
func BenchmarkJudging(b *testing.B) {
	gates, err := planGates([]muru.Gate{{Name: muru.GateP95, Max: muru.TimeOf(250 * time.Millisecond)}})
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name   string
		failed int // every so manyth
		minted bool
	}{{"clean", 0, false}, {"one in a hundred fails", 100, false}, {"all fail", 1, false}, {"new clients", 100, true}} {
		b.Run(bb.name, func(b *testing.B) {
			f := newFeed()
			j := newSequential(arms{rel(2), rel(1)}, gates, judging{least: 100}, func() {})
			f.attach(j)
			f.recent.follow(rel(1))
			j.Begin(opening{At: time.Now(), Paired: true, Share: 1000})
			now := time.Now()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				fact := muru.Fact{
					App: "shop", Release: rel(1), Share: 1000, Client: uint64(i % 5000), Minted: bb.minted,
					Arrived: now.Add(time.Duration(i) * time.Millisecond), Duration: 12 * time.Millisecond, Status: 200,
				}
				if bb.minted {
					fact.Client = uint64(i)
				}
				if i%10 == 0 {
					fact.Release = rel(2)
				}
				if bb.failed > 0 && i%bb.failed == 0 {
					fact.Status = 500
				}
				f.Done(fact)
			}
		})
	}
}
