package rollout

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

func TestObserveJudgesAndMovesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		w.deploy(false) // r2 serves everything
		go func() {
			for range 100 {
				time.Sleep(time.Second)
				w.edge.Send(rel(2), 10, 200, time.Millisecond)
			}
		}()
		windows := 0
		win, err := w.e.Observe(w.ctx, ObserveRequest{Caller: ana, Release: rel(2), Hold: time.Minute, MinRequests: 100}, func(muru.Window) { windows++ })
		if err != nil || win.Baseline != nil || win.Elapsed != 61*time.Second || win.Candidate.Requests < 600 {
			t.Errorf("%+v, %v", win, err)
		}
		if windows < 60 {
			t.Errorf("%d windows seen", windows)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if th := w.edge.Thresholds("shop"); th != nil {
			t.Errorf("the edge still watches %v", th)
		}
	})
}

func TestObserveRaisesAsSoonAsAGateFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Gates = []muru.Gate{{Name: "5xx", Max: muru.PercentOf(50)}} })
		time.AfterFunc(3*time.Second, func() {
			w.edge.Send(rel(1), 900, 200, time.Millisecond)
			w.edge.Send(rel(2), 90, 200, time.Millisecond)
			w.edge.Send(rel(2), 10, 500, time.Millisecond)
		})
		_, err := w.e.Observe(w.ctx, ObserveRequest{Caller: ana, Release: rel(2), Hold: time.Minute, MinRequests: 100}, nil)
		// It may be said before all ten have failed: evidence is weighed at each.
		said := regexp.MustCompile(`^gate failed on shop@r2: 5xx rate (10\.00|[1-9]\.[0-9]{2})% over the limit of 1\.00% \(baseline 0\.00%\)$`)
		if muru.KindOf(err) != muru.KindGateFailed || !said.MatchString(err.Error()) {
			t.Error(err)
		}
		synctest.Wait()
		w.expect(1, muru.Running, "")
		if n := w.rollout(1).Step.Requests; n != 100 {
			t.Errorf("the rollout beside it saw %d requests", n)
		}
	})
}

func TestObserveWithoutDataSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(false)
		_, err := w.e.Observe(w.ctx, ObserveRequest{Caller: ana, Release: rel(1), Hold: time.Minute, MinRequests: 100}, nil)
		expectError(t, err, muru.KindNoData, "no data on shop@r1: 0 of 100 requests after 11 min")
	})
}
