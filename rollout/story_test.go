package rollout

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

func TestBadReleaseIsRolledBackAsSoonAsItHasItsMinimum(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		r, report, err := w.e.Canary(w.ctx, plan(byThreshold))
		if err != nil {
			t.Fatal(err)
		}
		if want := Report("rollout 1 of shop@r2 started against r1: step 1 of 2: 10% for 30s"); report != want {
			t.Errorf("report %q, want %q", report, want)
		}
		if routing, _ := w.edge.Routing("shop"); routing.Rollout != 1 || routing.Split.Salt != "rollout 1" {
			t.Errorf("routing has rollout %d, salt %q", routing.Rollout, routing.Split.Salt)
		}
		time.Sleep(time.Second)
		w.edge.Send(rel(1), 900, 200, time.Millisecond)
		w.edge.Send(rel(2), 22, 500, time.Millisecond)
		w.edge.Send(rel(2), 77, 200, time.Millisecond)
		if got := w.rollout(1).State; got != muru.Running {
			t.Fatalf("%s with 99 requests", got)
		}
		w.edge.Send(rel(2), 1, 200, time.Millisecond) // at this one, not a second later
		message := "gate failed at 10%: 5xx rate 22.00% over the limit of 1.00% (baseline 0.00%)"
		w.expect(1, muru.RolledBack, message)
		w.expectEvents("rollout.*",
			"shop@r2 rollout 1 against r1: 10% for 30s, 50% for 30s",
			"shop@r2 step 1 at 10%: 5xx rate 22.00% over the limit of 1.00% (baseline 0.00%)",
			"shop@r2 rollout 1: "+message+"; the candidate is kept for inspection")
		if got := w.state(2); got != muru.Held {
			t.Errorf("the candidate is %s", got)
		}
		routing, _ := w.edge.Routing("shop")
		if routing.Split.String() != "r1 100%" || routing.Rollout != 0 || routing.Backends[rel(2)] == nil {
			t.Errorf("routing after the rollback: %v", routing)
		}
		_, err = w.e.WaitRollout(w.ctx, r.Number, nil)
		expectError(t, err, muru.KindRolledBack, "rollout 1 of shop@r2 rolled_back: "+message)
		if e, _ := errors.AsType[*muru.Error](err); e.Rollout != 1 {
			t.Errorf("the error is about rollout %d", e.Rollout)
		}
	})
}

func TestGoodReleaseIsPromotedAndTheOldOneKeptWarm(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.DrainFunc = drainTakes(3 * time.Second)
		w.baseAndCandidate()
		began := time.Now()
		w.canary()
		for range 80 {
			time.Sleep(900 * time.Millisecond)
			w.good(10)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
		// The holds run from the first requests, at 0.9 s and 31.5 s.
		if took := w.rollout(1).Ended.Sub(began); took != 61500*time.Millisecond {
			t.Errorf("promoted after %s", took)
		}
		if r1, r2 := w.state(1), w.state(2); r1 != muru.Warm || r2 != muru.Serving {
			t.Errorf("r1 is %s, r2 %s", r1, r2)
		}
		w.expectEvents("rollout.step", "shop@r2 step 2 of 2: 50% for 30s")
		w.expectEvents("rollout.promoted", "shop@r2 rollout 1: every step passed its gates")
		w.expectEvents("release.draining", "shop@r1 0 requests, 0 streams, 0 websockets open")
		w.expectEvents("release.warm", "shop@r1 drained in 3 s, cut 0 requests, 0 streams, 0 websockets")
		if _, err := w.e.WaitRollout(w.ctx, 1, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestStuckWorkersRollBackInTheSameInstant(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(1300 * time.Millisecond)
		now := time.Now()
		w.e.Harm(rel(2), muru.HarmTimeout)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
		if ended := w.rollout(1).Ended; !ended.Equal(now) {
			t.Errorf("rolled back %s later", ended.Sub(now))
		}
	})
}

func TestHoldBeginsAtTheCandidatesFirstRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		time.Sleep(7 * time.Second)
		first := w.edge.Begin(rel(2)) // arrives at 7 s, ends at 8.5 s
		time.Sleep(1500 * time.Millisecond)
		first.Status, first.Duration = 200, 1500*time.Millisecond
		w.edge.End(first)
		w.good(200)
		time.Sleep(28400 * time.Millisecond) // 36.9 s
		if step := w.rollout(1).Step; step.Number != 1 || step.Requests != 201 {
			t.Fatalf("after 36.9 s: %v with %d requests", step, step.Requests)
		}
		time.Sleep(100 * time.Millisecond) // 37 s: the hold is over
		if step := w.rollout(1).Step; step.Number != 2 || step.Requests != 0 {
			t.Fatalf("after 37 s: %v with %d requests", step, step.Requests)
		}
	})
}

func TestLateFactsOfAnEarlierStepDoNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		late := w.edge.Begin(rel(2))
		w.good(200)
		time.Sleep(31 * time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("in step %d", k)
		}
		late.Status, late.Duration = 500, 31*time.Second
		for range 150 {
			w.edge.End(late)
		}
		time.Sleep(2 * time.Second)
		if r := w.rollout(1); r.State != muru.Running || r.Step.Requests != 0 {
			t.Errorf("%s with %d requests", r.State, r.Step.Requests)
		}
	})
}

func TestBothBadIsNotTheCandidatesFault(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		for range 80 {
			time.Sleep(900 * time.Millisecond)            // never at the moment of a swap
			w.edge.Send(rel(1), 2, 503, time.Millisecond) // the baseline is the worse one at any moment
			w.edge.Send(rel(1), 18, 200, time.Millisecond)
			w.edge.Send(rel(2), 9, 200, time.Millisecond)
			w.edge.Send(rel(2), 1, 503, time.Millisecond)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
		w.expectEvents("rollout.both_bad",
			"shop@r2 step 1 at 10%: 5xx rate 10.00% and baseline 10.00% are both over the limit of 1.00%: not the candidate's fault, not rolled back",
			"shop@r2 step 2 at 50%: 5xx rate 10.00% and baseline 10.00% are both over the limit of 1.00%: not the candidate's fault, not rolled back")
	})
}

func TestRequestsThatNeverEndRollBackByP99(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		var open []muru.Fact
		for range 100 {
			open = append(open, w.edge.Begin(rel(2)))
		}
		w.edge.Send(rel(1), 900, 200, 12*time.Millisecond)
		time.Sleep(30 * time.Second)
		if r := w.rollout(1); r.State != muru.Running {
			t.Fatalf("%s before a threshold passed", r.State)
		}
		sink := w.edge.Sink("shop")
		for _, f := range open {
			sink.Overdue(f, muru.Threshold{Of: muru.OfDuration, After: 30 * time.Second})
		}
		w.expect(1, muru.RolledBack, "gate failed at 10%: p99 30 s over the limit of 30 s (baseline 12 ms)")
	})
}

func TestAbandonedRequestIsCountedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		th := muru.Threshold{Of: muru.OfDuration, After: 30 * time.Second}
		sink := w.edge.Sink("shop")
		gone := w.edge.Begin(rel(2)) // its client leaves after 5 s, no answer ever comes
		gone.Status, gone.Reason, gone.Duration = 499, muru.ReasonClientGone, 5*time.Second
		slow := w.edge.Begin(rel(2)) // answered after 40 s
		time.Sleep(40 * time.Second)
		sink.Done(gone)
		sink.Overdue(gone, th)
		sink.Overdue(slow, th)
		slow.Status, slow.Duration = 200, 40*time.Second
		sink.Done(slow)
		time.Sleep(time.Second)
		r := w.rollout(1)
		if r.Step.Requests != 2 {
			t.Errorf("%d requests", r.Step.Requests)
		}
		for _, v := range r.Verdicts {
			if v.Gate == muru.GateP99 && v.Count != 2 {
				t.Errorf("p99 counts %d slow requests", v.Count)
			}
			if v.Gate == muru.Gate5xx && v.Count != 0 {
				t.Errorf("a client that left is a 5xx")
			}
		}
	})
}

func TestFreshFaultIsSeenAfterHoursOfCleanTraffic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 1000, Hold: 6 * time.Hour}} })
		for range 60 {
			time.Sleep(time.Minute)
			w.good(1000)
		}
		time.Sleep(5*time.Minute + 500*time.Millisecond)
		w.edge.Send(rel(1), 100, 200, time.Millisecond)
		w.edge.Send(rel(2), 80, 200, time.Millisecond)
		w.edge.Send(rel(2), 40, 500, time.Millisecond) // 33% of the last minutes, 0.07% of the step
		time.Sleep(time.Second)
		if r := w.rollout(1); r.State != muru.RolledBack || !strings.HasPrefix(r.Message, "gate failed at 10%: 5xx rate ") {
			t.Errorf("%s: %s", r.State, r.Message)
		}
	})
}

func TestGoodReleaseIsPromotedOverADeadBaseline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		for range 80 {
			time.Sleep(900 * time.Millisecond)
			w.e.Harm(rel(1), muru.HarmCrash)
			w.edge.Send(rel(1), 20, 502, time.Millisecond)
			w.edge.Send(rel(2), 10, 200, time.Millisecond)
		}
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

func TestHoldShorterThanALimitDoesNotPassRequestsThatHang(t *testing.T) {
	for _, leave := range []bool{false, true} {
		inWorld(t, func(w *world) {
			var hanging atomic.Int64
			w.host.InFlightFunc = func(id muru.ReleaseID) (int, int, int) {
				if id == rel(2) {
					return int(hanging.Load()), 0, 0
				}
				return 1, 0, 0
			}
			w.baseAndCandidate()
			w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 1000, Hold: 5 * time.Second}} })
			var open []muru.Fact
			for range 10 {
				open = append(open, w.edge.Begin(rel(2)))
				hanging.Add(1)
			}
			w.good(200)
			time.Sleep(4 * time.Second)
			if leave { // the clients give up, and what they asked for is cut
				for _, f := range open {
					f.Status, f.Reason, f.Duration = 499, muru.ReasonClientGone, 4*time.Second
					w.edge.End(f)
					hanging.Add(-1)
				}
			}
			time.Sleep(25 * time.Second)
			w.expect(1, muru.Running, "")
			time.Sleep(time.Second)
			for _, f := range open {
				w.edge.Sink("shop").Overdue(f, muru.Threshold{Of: muru.OfDuration, After: 30 * time.Second})
			}
			time.Sleep(time.Second)
			r := w.rollout(1)
			if r.State != muru.RolledBack || !strings.HasPrefix(r.Message, "gate failed at 10%: p99 3") {
				t.Errorf("%s: %s", r.State, r.Message)
			}
		})
	}
}

func TestRoutingChangesBeforeAnybodyHearsOfIt(t *testing.T) {
	inWorld(t, func(w *world) {
		var heard []string // by the time the table had nothing for the candidate
		armed := false
		w.edge.RouteFunc = func(r muru.Routing) {
			if share, _ := r.Split.Share(rel(2)); armed && share == 0 {
				armed = false
				heard = append(w.events("rollout.gate_failed"), w.events("rollout.rolled_back")...)
				if got, _ := w.e.Rollout(1); !got.Live() {
					heard = append(heard, got.Message)
				}
			}
		}
		w.baseAndCandidate()
		w.canary()
		armed = true
		w.e.Harm(rel(2), muru.HarmCrash)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
		if armed || len(heard) > 0 {
			t.Errorf("heard before the table changed: %q", heard)
		}
	})
}
