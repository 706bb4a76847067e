package rollout

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru"
)

func TestGateClocksStartWhenTheCandidateIsInTheTable(t *testing.T) {
	inWorld(t, func(w *world) {
		ready := time.Now().Add(20 * time.Second)
		w.host.ReadyFunc = func(id muru.ReleaseID) bool { return id != rel(2) || !time.Now().Before(ready) }
		w.baseAndCandidate()
		asked := time.Time{}
		w.canary(func(q *CanaryRequest) {
			q.MinRequests = 1
			q.Gates = []muru.Gate{{Name: "orders", Kind: muru.GateCheck, Check: func(context.Context, muru.Window) (bool, string, error) {
				if asked.IsZero() {
					asked = time.Now()
				}
				return true, "", nil
			}}}
		})
		for range 60 { // the baseline is busy all the time
			w.edge.Send(rel(1), 10, 500, time.Millisecond)
			if routing, _ := w.edge.Routing("shop"); routing.Split.Divided() {
				w.edge.Send(rel(2), 10, 200, time.Millisecond)
			}
			time.Sleep(700 * time.Millisecond)
		}
		if r := w.rollout(1); r.State != muru.Running || r.Step.Number != 1 || r.Step.Elapsed > 23*time.Second {
			t.Errorf("%s in %v after %s of the hold", r.State, r.Step, r.Step.Elapsed)
		}
		if asked.Before(ready) {
			t.Errorf("a gate was asked %s before the candidate was there", ready.Sub(asked))
		}
	})
}

func TestGateThatErrsEveryTimeNeverPasses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.e.query = func(context.Context, string, string) (float64, bool, error) {
			return 0, false, errors.New("429 Too Many Requests")
		}
		w.baseAndCandidate()
		w.canary(asksStore)
		for range 60 {
			w.good(10)
			time.Sleep(900 * time.Millisecond)
		}
		r := w.rollout(1)
		if v := r.Verdicts[len(r.Verdicts)-1]; r.State != muru.Running || r.Step.Number != 1 || r.Share != 1000 || v.Result != muru.GateError {
			t.Errorf("%s at %s: %v", r.State, r.Share, v)
		}
	})
}

// TestFailureThatASlowFunctionSaysIsHeardBeforeItIsAskedAgain: it is due again
// when it answers, and its next answer may be there at once.
func TestFailureThatASlowFunctionSaysIsHeardBeforeItIsAskedAgain(t *testing.T) {
	slowOnce := func() muru.GateCheckFunc {
		var asked atomic.Int32
		return func(ctx context.Context, _ muru.Window) (bool, string, error) {
			if asked.Add(1) > 1 {
				return true, "", nil
			}
			return false, "orders are lost", Sleep(ctx, RealClock{}, 1500*time.Millisecond)
		}
	}
	for range 100 { // it is a matter of who is quicker
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.canary(func(q *CanaryRequest) {
				q.Gates = []muru.Gate{{Name: "orders", Kind: muru.GateCheck, Check: slowOnce()}}
			})
			w.good(100)
			time.Sleep(3 * time.Second)
			w.expect(1, muru.RolledBack, "gate failed at 10%: orders: orders are lost")
		})
		inWorld(t, func(w *world) {
			w.deploy(false)
			time.AfterFunc(time.Millisecond, func() { w.edge.Send(rel(1), 100, 200, time.Millisecond) })
			_, err := w.e.Observe(w.ctx, ObserveRequest{
				Caller: ana, Release: rel(1), Hold: 10 * time.Second, MinRequests: 100,
				Gates: []muru.Gate{{Name: "orders", Kind: muru.GateCheck, Check: slowOnce()}},
			}, nil)
			if muru.KindOf(err) != muru.KindGateFailed {
				t.Errorf("observe: %v", err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestFailureAtAnyInstantTakesTheCandidateOut has a worker die, or failures
// come, at any moment of a rollout, that of a step's change included.
func TestFailureAtAnyInstantTakesTheCandidateOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		after := time.Duration(rapid.IntRange(0, 62_000).Draw(rt, "millis")) * time.Millisecond
		near := rapid.SampledFrom([]time.Duration{0, 30 * time.Second, 60 * time.Second}).Draw(rt, "near")
		if near > 0 {
			after = near + time.Duration(rapid.IntRange(-3, 3).Draw(rt, "off"))*time.Millisecond
		}
		crash := rapid.Bool().Draw(rt, "crash")
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.canary()
			w.good(200)
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for {
					select {
					case <-time.After(250 * time.Millisecond):
						w.good(20)
					case <-stop:
						return
					}
				}
			}()
			time.Sleep(after)
			if !w.rollout(1).Live() {
				return
			}
			if crash {
				w.e.Harm(rel(2), muru.HarmCrash)
			} else {
				w.edge.Send(rel(2), 300, 500, time.Millisecond)
			}
			time.Sleep(time.Second)
			r := w.rollout(1)
			routing, _ := w.edge.Routing("shop")
			if share, _ := routing.Split.Share(rel(2)); r.State != muru.RolledBack || share != 0 {
				rt.Errorf("%s at %s a second later: %s", r.State, share, r.Message)
			}
		})
	})
}

func TestApprovalOfOneOfTwoEqualStepsIsNotThatOfTheOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Approve, q.MinRequests = muru.ApproveEachStep, 1
			q.Steps = []muru.Step{{Share: 1000, Hold: time.Second}, {Share: 1001, Hold: time.Second}, {Share: 1002, Hold: time.Second}}
		})
		step := func() {
			w.good(20)
			time.Sleep(2 * time.Second)
		}
		step()
		w.expect(1, muru.AwaitingApproval, "step 2 of 3: 10.01% for 1s awaits approval: muru rollout resume shop")
		_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 3})
		expectError(t, err, muru.KindRefused, "rollout 1 waits for step 2 of 3: 10.01% for 1s, not for step 3")
		must[muru.Rollout](t)(w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2}))
		step()
		w.expect(1, muru.AwaitingApproval, "step 3 of 3: 10.02% for 1s awaits approval: muru rollout resume shop")
		_, _, err = w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 2})
		expectError(t, err, muru.KindRefused, "rollout 1 waits for step 3 of 3: 10.02% for 1s, not for step 2")
		must[muru.Rollout](t)(w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Step: 3}))
		step()
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

// TestStepIsOverWhenTheSlowestOfItsGatesHasJudgedIt, however short its hold:
// what the others say, or what the slow one said of the step before, is not
// enough.
func TestStepIsOverWhenTheSlowestOfItsGatesHasJudgedIt(t *testing.T) {
	const asks, probes = 4 * time.Second, 5 * time.Second
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.MinRequests = 1
			q.Steps = []muru.Step{{Share: 1000, Hold: time.Second}, {Share: 5000, Hold: time.Second}}
			q.Gates = []muru.Gate{
				{Name: "p95", Max: muru.TimeOf(time.Second), Ratio: 1},
				{Name: "probe", Paths: []string{"/"}, Every: probes},
				{Name: "orders", Kind: muru.GateCheck, Check: func(ctx context.Context, _ muru.Window) (bool, string, error) {
					return true, "", Sleep(ctx, RealClock{}, asks)
				}},
			}
		})
		for k := 1; k <= 2; k++ {
			w.good(100)
			time.Sleep(asks - time.Second) // three holds
			if r := w.rollout(1); r.State != muru.Running || r.Step.Number != k {
				t.Fatalf("%s in %v before a gate has said anything of step %d: %v", r.State, r.Step, k, r.Verdicts)
			}
			for r := w.rollout(1); r.Live() && r.Step.Number == k; r = w.rollout(1) {
				time.Sleep(100 * time.Millisecond)
			}
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

func TestNoFailureIsARateOfZeroAndNoRequestIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		of5xx := func() muru.Verdict {
			time.Sleep(time.Second)
			for _, v := range w.rollout(1).Verdicts {
				if v.Gate == muru.Gate5xx {
					return v
				}
			}
			return muru.Verdict{}
		}
		if v := of5xx(); v.Result != muru.NoDataYet || v.Candidate.IsSet() || v.Baseline.IsSet() {
			t.Errorf("of nothing it is %s: %s and %s", v.Result, v.Candidate, v.Baseline)
		}
		w.good(500)
		if v := of5xx(); v.Result != muru.Pass || v.Candidate != muru.PercentOf(0) || v.Baseline != muru.PercentOf(0) || v.Requests != 500 {
			t.Errorf("of 500 requests without a failure it is %s: %s and %s", v.Result, v.Candidate, v.Baseline)
		}
	})
}
