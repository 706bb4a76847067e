package rollout

import (
	"strings"
	"testing"
	"time"

	"muru"
)

// shadowed has copies made first.
func shadowed(q *CanaryRequest) {
	q.Steps = []muru.Step{
		{Share: 2500, Shadow: true, Hold: 30 * time.Second},
		{Share: 1000, Hold: 30 * time.Second},
	}
}

// pairs plays n requests of new clients that the baseline answered with one
// status and the candidate, asked for a copy, with another.
func (w *world) pairs(n, baseline, candidate int) {
	w.t.Helper()
	for range n {
		user := w.edge.Begin(rel(1))
		user.Status, user.Duration = baseline, time.Millisecond
		shadow := user
		shadow.Release, shadow.Status = rel(2), candidate
		w.edge.Sink("shop").Pair(user, shadow)
	}
}

func TestShadowStepSendsNobodyToTheCandidate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		r, report, err := w.e.Canary(w.ctx, plan(shadowed))
		if err != nil || report != "rollout 1 of shop@r2 started against r1: step 1 of 2: 25% shadow for 30s" || r.Share != 0 {
			t.Fatal(report, err)
		}
		routing, _ := w.edge.Routing("shop")
		if routing.Split.Divided() || routing.Shadow == nil || *routing.Shadow != (muru.Shadow{Release: rel(2), Share: 2500}) {
			t.Errorf("the edge has %s and %+v", routing.Split, routing.Shadow)
		}
		w.edge.Send(rel(1), 300, 200, time.Millisecond) // those that were not copied
		w.pairs(100, 200, 200)
		time.Sleep(31 * time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("step %d: %v", k, w.rollout(1).Verdicts)
		}
		if routing, _ := w.edge.Routing("shop"); routing.Shadow != nil || routing.Split.String() != "r1 90%, r2 10%" {
			t.Errorf("the edge has %s and %+v", routing.Split, routing.Shadow)
		}
	})
}

func TestFailuresOfCopiesRollBackBeforeAnybodySeesOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(shadowed)
		w.pairs(12, 200, 200)
		w.pairs(7, 200, 500) // at an even coin, eight are nearly enough
		w.expect(1, muru.Running, "")
		w.pairs(2, 200, 500)
		w.expect(1, muru.RolledBack, "gate failed at 25% shadow: 5xx rate 42.86% over the limit of 1.00% (baseline 0.00%)")
		if routing, _ := w.edge.Routing("shop"); routing.Shadow != nil {
			t.Error("copies are made for ever")
		}
	})
}

func TestCopiesThatFailAsTheirOriginalsSayNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(shadowed)
		w.pairs(50, 500, 500)
		w.pairs(100, 200, 200)
		time.Sleep(31 * time.Second)
		r := w.rollout(1)
		if r.Step == nil || r.Step.Number != 2 {
			t.Errorf("%s: %v", r.State, r.Verdicts)
		}
		if said := w.events("rollout.both_bad"); len(said) != 1 || !strings.HasPrefix(said[0], "shop@r2 step 1 at 25% shadow: 5xx rate ") {
			t.Errorf("%q", said)
		}
	})
}

func TestRequestsThatHangOnEitherReleaseAreNotTheCopysFault(t *testing.T) {
	for _, tt := range []struct {
		what  string
		hangs int // of the baseline's requests, whose clients leave after 10s
		state muru.RolloutState
	}{{"on both", 20, muru.Running}, {"on the candidate", 0, muru.RolledBack}} {
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.canary(shadowed)
			pair := func(user, shadow time.Duration) {
				f := w.edge.Begin(rel(1))
				copied := f
				copied.Release = rel(2)
				if f.Status, f.Duration = 200, user; user >= 10*time.Second {
					f.Status, f.Reason, f.Duration = 499, muru.ReasonClientGone, 10*time.Second
				}
				if copied.Status, copied.Duration = 200, shadow; shadow >= 30*time.Second {
					copied.Status, copied.Reason = 504, muru.ReasonHardTimeout
				}
				if sink := w.edge.Sink("shop"); sink != nil {
					sink.Pair(f, copied)
				}
			}
			for n := range 20 {
				pair(time.Millisecond, time.Millisecond)
				pair(time.Millisecond, 30*time.Second)
				if n < tt.hangs {
					pair(30*time.Second, time.Millisecond)
				}
				pair(30*time.Second, 30*time.Second) // nobody knows
			}
			if r := w.rollout(1); r.State != tt.state {
				t.Errorf("%s: %s: %v", tt.what, r.State, r.Verdicts)
			}
		})
	}
}

func TestWhyDoesNotCallASplitOffWhereThereAreCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(shadowed)
		for range 200 {
			user := w.edge.Begin(rel(1))
			user.Minted, user.Status, user.Duration = true, 200, time.Millisecond
			copied := user
			copied.Release = rel(2)
			w.edge.Sink("shop").Pair(user, copied)
		}
		time.Sleep(2 * time.Second)
		why, err := w.e.Why(w.ctx, 1)
		if want := "split: none, the candidate has copies\nrecord: recomputed, the same verdicts"; err != nil || why.Foot() != want || why.BalanceP != 1 {
			t.Errorf("%q, p %v, %v", why.Foot(), why.BalanceP, err)
		}
	})
}

func TestSlowCopiesFailATimeGate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(shadowed, func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: muru.GateP95, Max: muru.TimeOf(100 * time.Millisecond)}}
		})
		for range 20 {
			user := w.edge.Begin(rel(1))
			user.Status, user.Duration = 200, time.Millisecond
			shadow := user
			shadow.Release, shadow.Duration = rel(2), time.Second
			if sink := w.edge.Sink("shop"); sink != nil {
				sink.Pair(user, shadow)
			}
		}
		r := w.rollout(1)
		if r.State != muru.RolledBack || r.Verdicts[len(r.Verdicts)-1].Result != muru.Fail {
			t.Errorf("%s: %v", r.State, r.Verdicts)
		}
	})
}

func TestShadowStepGoesOnAfterARestart(t *testing.T) {
	inDurableWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(shadowed)
		w.pairs(20, 200, 200)
		w.pairs(6, 200, 500)
		time.Sleep(1100 * time.Millisecond)
		w.restart()
		w.expect(1, muru.Running, "")
		if routing, _ := w.edge.Routing("shop"); routing.Shadow == nil || routing.Shadow.Share != 2500 {
			t.Fatalf("the edge has %+v", routing.Shadow)
		}
		w.pairs(3, 200, 500)
		if r := w.rollout(1); r.State != muru.RolledBack {
			t.Errorf("%s: %v", r.State, r.Verdicts)
		}
	})
}

func TestOrderOfShadowSteps(t *testing.T) {
	step := func(share muru.Share, shadow bool) muru.Step {
		return muru.Step{Share: share, Shadow: shadow, Hold: time.Second}
	}
	for _, tt := range []struct {
		steps []muru.Step
		want  string
	}{
		{[]muru.Step{step(0, false), step(2500, true), step(1000, false), step(5000, false)}, ""},
		{[]muru.Step{step(1000, true), step(10000, true), step(1000, false)}, ""},
		{[]muru.Step{step(0, true)}, "steps[0]: copies of 0% are none"},
		{[]muru.Step{step(1000, false), step(2500, true)}, "steps[1]: 25% shadow comes after 10%: copies come first"},
		{[]muru.Step{step(2500, true), step(1000, true)}, "steps[1]: 10% shadow is not above 25% shadow"},
		{[]muru.Step{step(2500, true), step(0, false)}, "steps[1]: 0% comes after 25% shadow: it comes first"},
	} {
		got := ""
		if err := checkSteps(CanaryRequest{Steps: tt.steps}); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
