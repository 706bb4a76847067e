package rollout

import (
	"testing"
	"time"

	"muru"
	"muru/rollout/rollouttest"
)

// TestSequentialJudge gives the judge both arms' events and reads its verdict
// of one gate.
func TestSequentialJudge(t *testing.T) {
	type sent struct {
		n, status int
		took      time.Duration
	}
	const ms = time.Millisecond
	five, p95 := muru.Gate{Name: "5xx", Max: muru.PercentOf(1), Ratio: 1}, muru.Gate{Name: "p95", Max: muru.TimeOf(250 * ms), Ratio: 1}
	lax := five
	lax.Max = muru.PercentOf(40)
	ratio := five
	ratio.Ratio = 3
	for _, tt := range []struct {
		name                string
		gate                muru.Gate
		share               muru.Share
		candidate, baseline []sent
		want                muru.Result
		message             string
	}{
		{"nothing at all", five, 1000, nil, nil, muru.NoDataYet, ""},
		{"clean, one too few", five, 1000, []sent{{99, 200, ms}}, []sent{{500, 200, ms}}, muru.NoDataYet, ""},
		{"no failures of 500", five, 1000, []sent{{500, 200, ms}}, []sent{{500, 200, ms}}, muru.Pass, ""},
		{"one of three", five, 1000, []sent{{2, 200, ms}, {1, 500, ms}}, []sent{{27, 200, ms}}, muru.NoDataYet, ""},
		{"three of three", five, 1000, []sent{{3, 500, ms}}, []sent{{27, 200, ms}}, muru.Fail, "5xx rate 100.00% over the limit of 1.00% (baseline 0.00%)"},
		{"three of thirty, baseline clean", five, 1000, []sent{{27, 200, ms}, {3, 500, ms}}, []sent{{270, 200, ms}}, muru.Fail, "5xx rate 10.00% over the limit of 1.00% (baseline 0.00%)"},
		{"four of a hundred at 10%", five, 1000, []sent{{96, 200, ms}, {4, 500, ms}}, []sent{{900, 200, ms}}, muru.Fail, "5xx rate 4.00% over the limit of 1.00% (baseline 0.00%)"},
		{"four of a hundred at 50%", five, 5000, []sent{{96, 200, ms}, {4, 500, ms}}, []sent{{100, 200, ms}}, muru.Pass, ""},
		{"evidence, but not over the limit", lax, 1000, []sent{{70, 200, ms}, {30, 500, ms}}, []sent{{900, 200, ms}}, muru.Pass, ""},
		{"both 5% because the database is down", five, 1000, []sent{{95, 200, ms}, {5, 503, ms}}, []sent{{855, 200, ms}, {45, 503, ms}}, muru.Pass, ""},
		{"worse within the ratio", ratio, 1000, []sent{{90, 200, ms}, {10, 500, ms}}, []sent{{860, 200, ms}, {40, 500, ms}}, muru.Pass, ""},
		{"beyond the ratio", ratio, 1000, []sent{{60, 200, ms}, {40, 500, ms}}, []sent{{860, 200, ms}, {40, 500, ms}}, muru.Fail, "5xx rate 40.00% over the limit of 1.00% (baseline 4.44%)"},
		{"no baseline request", five, 1000, []sent{{3, 500, ms}}, nil, muru.Fail, "5xx rate 100.00% over the limit of 1.00% (baseline -)"},
		{"no baseline arm: the limit decides, with the minimum", five, 10000, []sent{{98, 200, ms}, {2, 500, ms}}, nil, muru.Fail, "5xx rate 2.00% over the limit of 1.00% (baseline -)"},
		{"no baseline arm, too few", five, 10000, []sent{{50, 500, ms}}, nil, muru.NoDataYet, ""},
		{"clients that left are no failures", five, 1000, []sent{{98, 200, ms}, {20, 499, ms}}, []sent{{500, 200, ms}}, muru.Pass, ""},
		{"slow", p95, 1000, []sent{{90, 200, ms}, {10, 200, 300 * ms}}, []sent{{900, 200, 12 * ms}}, muru.Fail, "p95 300 ms over the limit of 250 ms (baseline 12 ms)"},
		{"slow as the baseline", p95, 1000, []sent{{90, 200, ms}, {10, 200, 300 * ms}}, []sent{{810, 200, ms}, {90, 200, 300 * ms}}, muru.Pass, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newSequential(arms{rel(2), rel(1)}, []muru.Gate{tt.gate}, judging{least: 100}, func() {})
			edge := &rollouttest.Edge{}
			now := time.Now()
			split, _ := muru.NewSplit("", rel(1), muru.SplitArm{Release: rel(2), Share: tt.share})
			edge.Judge("shop", j.Thresholds(), j)
			edge.Route(muru.Routing{Route: muru.Route{App: "shop"}, Split: split})
			j.Begin(opening{At: now, Paired: tt.share < muru.Buckets, Share: tt.share})
			for id, all := range map[muru.ReleaseID][]sent{rel(1): tt.baseline, rel(2): tt.candidate} {
				for _, s := range all {
					edge.Send(id, s.n, s.status, s.took)
				}
			}
			v := j.Verdicts(now.Add(time.Second))[0]
			if v.Result != tt.want || v.Message != tt.message {
				t.Errorf("%v: %q, want %v: %q%s", v.Result, v.Message, tt.want, tt.message, textEvidence(v))
			}
		})
	}
}

func TestThirdFailureRollsBackAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(300 * time.Millisecond)
		w.edge.Send(rel(1), 120, 200, time.Millisecond)
		w.edge.Send(rel(2), 11, 200, time.Millisecond)
		w.edge.Send(rel(2), 2, 500, time.Millisecond)
		w.expect(1, muru.Running, "")
		now := time.Now()
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		message := "gate failed at 10%: 5xx rate 21.43% over the limit of 1.00% (baseline 0.00%)"
		w.expect(1, muru.RolledBack, message)
		if ended := w.rollout(1).Ended; !ended.Equal(now) {
			t.Errorf("rolled back %s later", ended.Sub(now))
		}
		w.expectEvents("rollout.*",
			"shop@r2 rollout 1 against r1: 10% for 30s, 50% for 30s; at most 2% false alarms",
			"shop@r2 step 1 at 10%: 5xx rate 21.43% over the limit of 1.00% (baseline 0.00%), "+
				"evidence 144 of 100 from 3 clients (baseline 0) in 3 of 14 requests (baseline 0 of 120)",
			"shop@r2 rollout 1: "+message+"; the candidate is kept for inspection")
	})
}

func TestDeadCandidateIsRolledBackInUnderASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		began := time.Now()
		w.canary()
		for range 100 { // 100 requests a second
			time.Sleep(10 * time.Millisecond)
			w.edge.Send(rel(1), 9, 200, time.Millisecond)
			w.edge.Send(rel(2), 1, 502, time.Millisecond)
		}
		if r := w.rollout(1); r.State != muru.RolledBack || r.Ended.Sub(began) > time.Second {
			t.Errorf("%s after %s", r.State, r.Ended.Sub(began))
		}
	})
}

func TestReturningClientIsOneWitness(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.edge.Send(rel(1), 900, 200, time.Millisecond)
		w.edge.Send(rel(2), 50, 200, time.Millisecond)
		f := w.edge.Begin(rel(2))
		for range 50 { // it retries for all it is worth
			f.Status, f.Duration, f.Minted = 500, time.Millisecond, false
			w.edge.End(f)
		}
		time.Sleep(2 * time.Second)
		w.expect(1, muru.Running, "")
		for _, v := range w.rollout(1).Verdicts {
			if v.Gate == muru.Gate5xx && (v.Clients != 1 || v.Count != 50 || v.Result != muru.Pass) {
				t.Errorf("%v: %d failures of %d clients", v, v.Count, v.Clients)
			}
		}
	})
}

func TestEvidenceOfOneStepCountsInTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: muru.Gate5xx, Max: muru.PercentOf(0.1)}}
		})
		w.good(300)
		w.edge.Send(rel(2), 2, 500, time.Millisecond) // ln E 3.07
		time.Sleep(31 * time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("step %d", k)
		}
		w.edge.Send(rel(2), 2, 500, time.Millisecond)
		w.expect(1, muru.Running, "")
		w.edge.Send(rel(2), 1, 500, time.Millisecond) // five failures, and two others at 50%
		r := w.rollout(1)
		if r.State != muru.RolledBack {
			t.Errorf("%s: %v", r.State, r.Verdicts)
		}
	})
}

func TestStepAtAllTrafficAddsNoEvidence(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: muru.Buckets, Hold: time.Minute}}
		})
		w.edge.Send(rel(2), 99, 500, time.Millisecond)
		time.Sleep(2 * time.Second)
		r := w.rollout(1)
		for _, v := range r.Verdicts {
			if v.Needed != 0 && v.Evidence != 1 {
				t.Errorf("%v with evidence %v", v, v.Evidence)
			}
		}
		w.expect(1, muru.Running, "")
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		w.expect(1, muru.RolledBack, "gate failed at 100%: 5xx rate 100.00% over the limit of 1.00% (baseline -)")
	})
}

func TestFirstFailureOfAStepIsNoRateOverTheLimit(t *testing.T) {
	// The evidence was there in the last step, where 2% were under the limit.
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Gates = []muru.Gate{{Name: muru.Gate5xx, Max: muru.PercentOf(5)}} })
		w.good(300)
		w.edge.Send(rel(2), 6, 500, time.Millisecond)
		time.Sleep(31 * time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("step %d", k)
		}
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		time.Sleep(time.Second)
		w.expect(1, muru.Running, "")
	})
}

func TestHeaderGateWeighsWhatTheAppMarks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "carts lost", Kind: muru.GateHeader, Header: "X-Cart-Lost", Max: muru.PercentOf(0.1)}}
		})
		if r, _ := w.edge.Routing("shop"); len(r.Marks) != 1 || r.Marks[0] != "X-Cart-Lost" {
			t.Errorf("the edge watches for %q", r.Marks)
		}
		w.good(20)
		for range 3 {
			f := w.edge.Begin(rel(2))
			f.Status, f.Duration, f.Marks = 200, time.Millisecond, []string{"X-Cart-Lost"}
			w.edge.End(f)
		}
		w.expect(1, muru.RolledBack, "gate failed at 10%: carts lost rate 13.04% over the limit of 0.10% (baseline 0.00%)")
	})
}

func TestShieldedFailuresCountAgainstTheCandidateAndAreSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Shield = true })
		if r, _ := w.edge.Routing("shop"); !r.Shield {
			t.Error("the edge does not shield")
		}
		w.good(10)
		for i := range 3 {
			f := w.edge.Begin(rel(2))
			f.Status, f.Duration, f.Shielded = 500, time.Millisecond, i > 0
			w.edge.End(f)
		}
		message := "gate failed at 10%: 5xx rate 23.08% over the limit of 1.00% (baseline 0.00%)"
		w.expect(1, muru.RolledBack, message)
		w.expectEvents("rollout.rolled_back",
			"shop@r2 rollout 1: "+message+"; the candidate is kept for inspection; 2 of 3 failures shielded")
		if r, _ := w.edge.Routing("shop"); r.Shield {
			t.Error("the edge shields for ever")
		}
	})
}

func TestShieldIsRefusedWhereClientsKeepTheirRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		must[muru.App](t)(w.e.App(w.ctx, AppRequest{Caller: ana, Name: "shop", Change: []RouteChange{{"sticky",
			func(r *muru.Route) { r.Sticky = time.Minute }, func(r muru.Route) string { return r.Sticky.String() }}}}))
		_, _, err := w.e.Canary(w.ctx, plan(func(q *CanaryRequest) { q.Shield = true }))
		expectError(t, err, muru.KindRefused, "shop is sticky: a client stays on its release, and the baseline cannot answer for it")
	})
}
