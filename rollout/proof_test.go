package rollout

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

// confident has steps end by proof.
func confident(q *CanaryRequest) { q.Until = UntilConfident }

func TestStepEndsAsSoonAsTheCandidateIsProvenNoWorse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(confident, func(q *CanaryRequest) { q.MinRequests = 100_000 })
		w.good(300)
		time.Sleep(31 * time.Second)
		if k := w.rollout(1).Step.Number; k != 1 {
			t.Fatalf("300 clean clients prove that less than 1%% of requests fail: step %d", k)
		}
		w.good(160) // 459 are what it takes
		time.Sleep(time.Second)
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("460 clean clients do not: step %d", k)
		}
	})
}

func TestProofByEventsOfTheBaseline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(confident, func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 5000, Hold: 10 * time.Second}}
		})
		w.edge.Send(rel(1), 400, 200, time.Millisecond)
		w.edge.Send(rel(2), 480, 200, time.Millisecond)
		w.edge.Send(rel(2), 1, 500, time.Millisecond) // so no clean run
		time.Sleep(11 * time.Second)
		w.expect(1, muru.Running, "")
		w.edge.Send(rel(1), 60, 500, time.Millisecond)
		time.Sleep(time.Second)
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

func TestProofLooksAtNothingButFirstRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(confident, func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 5000, Hold: 10 * time.Second}}
		})
		w.edge.Send(rel(2), 480, 200, time.Millisecond)
		w.edge.Send(rel(2), 1, 500, time.Millisecond)
		w.edge.Send(rel(1), 1000, 200, time.Millisecond)
		for range 100 { // clients that come back and meet a failure then
			f := w.edge.Begin(rel(1))
			f.Status, f.Duration = 200, time.Millisecond
			w.edge.End(f)
			f.Status, f.Arrived = 500, f.Arrived.Add(time.Millisecond)
			w.edge.End(f)
		}
		time.Sleep(11 * time.Second)
		w.expect(1, muru.Running, "")
		w.edge.Send(rel(1), 60, 500, time.Millisecond)
		time.Sleep(time.Second)
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

func TestEachStepIsProvenByItself(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(confident, func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 2500, Hold: time.Second}, {Share: 5000, Hold: time.Second}}
		})
		events := func() {
			w.edge.Send(rel(1), 2000, 200, time.Millisecond)
			w.edge.Send(rel(2), 500, 200, time.Millisecond)
			w.edge.Send(rel(2), 1, 500, time.Millisecond)
			w.edge.Send(rel(1), 60, 500, time.Millisecond)
			time.Sleep(2 * time.Second)
		}
		events()
		if k := w.rollout(1).Step.Number; k != 2 {
			t.Fatalf("step %d", k)
		}
		w.edge.Send(rel(2), 500, 200, time.Millisecond)
		w.edge.Send(rel(1), 500, 200, time.Millisecond)
		time.Sleep(time.Minute)
		w.expect(1, muru.Running, "")
		events()
		w.expect(1, muru.Promoted, "every step passed its gates")
	})
}

func TestFirstRequestOfAClientIsTheOneThatArrivedFirst(t *testing.T) {
	a := newArm(rel(2), 0, nil)
	at := func(ms int) muru.Fact {
		return muru.Fact{Client: 7, Arrived: time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond), Status: 200}
	}
	for _, tt := range []struct {
		arrived int
		opens   bool
	}{{5, true}, {9, false}, {2, true}, {5, false}} { // in the order they end
		f := at(tt.arrived)
		a.done(f, f.Arrived)
		if a.opens(f) != tt.opens {
			t.Errorf("the request of %d ms is taken for a first one: %v", tt.arrived, !tt.opens)
		}
	}
}

func TestNotFailingIsNoProof(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(confident, func(q *CanaryRequest) { q.Deadline, q.OnNoData = time.Minute, muru.NoDataRollback })
		w.good(200)
		time.Sleep(time.Minute)
		w.expect(1, muru.RolledBack, "no data at 10%: no proof that the candidate is no worse after 1 min")
	})
}

func TestProofNeedsAJudgeThatWeighs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		_, _, err := w.e.Canary(w.ctx, plan(confident, byThreshold))
		expectError(t, err, muru.KindUsage, `until: comparing rates proves nothing: "confident" needs the judge "sequential"`)
	})
}

func TestStartSaysHowLongAStepNeedsAtThePresentTraffic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		for range 30 { // 60 requests a minute
			time.Sleep(2 * time.Second)
			w.edge.Send(rel(1), 2, 200, time.Millisecond)
		}
		w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 500, Hold: 30 * time.Second}} })
		w.expectEvents("rollout.slow",
			"shop@r2 at 3.1 requests/min a 5% step needs about 32 min for 100 requests: use probes, a higher step or traffic()")
		if e := w.e.Events(EventQuery{Kind: muru.RolloutSlow}); e[0].Level != muru.LevelWarning {
			t.Errorf("past its deadline it is a %s", e[0].Level)
		}
		time.Sleep(90 * time.Second)
		if n := len(w.events("rollout.slow")); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}

func TestAppThatGetsItsFirstVisitorsIsNotCalledSlow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		time.Sleep(5 * time.Minute)
		w.edge.Send(rel(1), 200, 200, time.Millisecond)
		time.Sleep(time.Second)
		w.canary()
		w.expectEvents("rollout.slow")
	})
}

func TestBusyAppIsNotCalledSlow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		for range 30 {
			time.Sleep(2 * time.Second)
			w.edge.Send(rel(1), 200, 200, time.Millisecond)
		}
		w.canary()
		w.expectEvents("rollout.slow")
	})
}

func TestSplitThatIsOffKeepsAStepFromFinishing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Deadline = time.Minute })
		mint := func(n, release int) {
			for range n {
				f := w.edge.Begin(rel(release))
				f.Minted, f.Status, f.Duration = true, 200, time.Millisecond
				w.edge.End(f)
			}
		}
		mint(700, 1)
		mint(300, 2) // 30% at 10%
		time.Sleep(31 * time.Second)
		w.expect(1, muru.Running, "")
		if got := w.events("rollout.unbalanced"); len(got) != 1 ||
			!strings.HasPrefix(got[0], "shop@r2 300 of 1000 clients, 10% expected (p ") ||
			!strings.HasSuffix(got[0], "): the split is off, its gates prove nothing") {
			t.Errorf("%q", got)
		}
		time.Sleep(30 * time.Second)
		w.expect(1, muru.AwaitingApproval, "no data at 10%: the split is off after 1 min: muru rollout resume shop")
		why, err := w.e.Why(w.ctx, 1)
		if err != nil || !strings.Contains(why.Foot(), "split: 300 of 1000 clients, 10% expected: off (p ") {
			t.Errorf("%s, %v", why.Foot(), err)
		}
	})
}

func TestBalanceOfASplit(t *testing.T) {
	for _, tt := range []struct {
		candidate, all int
		share          muru.Share
		balanced       bool
	}{
		{0, 0, 1000, true}, {3, 3, 1000, true}, {82, 842, 1000, true}, {100, 1000, 1000, true}, {140, 1000, 1000, false},
		{0, 200, 1000, false}, {500, 1000, 5000, true}, {430, 1000, 5000, false}, {1000, 1000, 10000, true},
	} {
		if p := balanceOf(tt.candidate, tt.all, tt.share); p >= unbalancedBelow != tt.balanced {
			t.Errorf("%d of %d at %s: p %v", tt.candidate, tt.all, tt.share, p)
		}
	}
	if p := balanceOf(82, 842, 1000); formatP(p) != "0.80" {
		t.Errorf("p %s", formatP(p))
	}
}

// asksStore has a rollout ask a store.
func asksStore(q *CanaryRequest) {
	q.Gates = []muru.Gate{{
		Name: "load", Kind: muru.GateQuery, URL: "http://store:9090", Max: muru.NumberOf(0.5),
		Query: `sum(load{release="{{candidate}}"}) / sum(load{release="{{baseline}}"})`,
	}}
}

func TestQueryGate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		value  float64
		ok     bool
		err    error
		state  muru.RolloutState
		result muru.Result
	}{
		{"under its limit", 0.25, true, nil, muru.Promoted, muru.Pass},
		{"over its limit", 0.75, true, nil, muru.RolledBack, muru.Fail},
		{"no result", 0, false, nil, muru.Running, muru.NoDataYet},
		{"an error", 0, false, errors.New("the store answered 429 Too Many Requests: slow down"), muru.Running, muru.GateError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var asked atomic.Value
				w.e.query = func(_ context.Context, store, expression string) (float64, bool, error) {
					asked.Store(store + " " + expression)
					return tt.value, tt.ok, tt.err
				}
				w.baseAndCandidate()
				w.canary(asksStore, func(q *CanaryRequest) {
					q.Steps = []muru.Step{{Share: 1000, Hold: 30 * time.Second}}
				})
				w.good(200)
				time.Sleep(40 * time.Second)
				r := w.rollout(1)
				v := r.Verdicts[len(r.Verdicts)-1]
				if r.State != tt.state || v.Result != tt.result {
					t.Errorf("%s: %s, %v", r.State, r.Message, v)
				}
				if want := `http://store:9090 sum(load{release="r2"}) / sum(load{release="r1"})`; asked.Load() != want {
					t.Errorf("asked %v", asked.Load())
				}
				if tt.state == muru.RolledBack && r.Message != "gate failed at 10%: load 0.75 over the limit of 0.5" {
					t.Errorf("%s", r.Message)
				}
				if tt.err != nil {
					w.expectEvents("rollout.gate_error", "shop@r2 step 1 at 10%: load: "+tt.err.Error()+"; asked again every second")
				}
			})
		})
	}
}

func TestQueryGateActsBeforeAnybodyIsSentToTheCandidate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.e.query = func(context.Context, string, string) (float64, bool, error) { return 9, true, nil }
		w.baseAndCandidate()
		w.canary(asksStore, func(q *CanaryRequest) {
			q.Steps = []muru.Step{{Share: 0, Hold: time.Hour}, {Share: 1000, Hold: time.Minute}}
		})
		time.Sleep(2 * time.Second)
		w.expect(1, muru.RolledBack, "gate failed at 0%: load 9 over the limit of 0.5")
	})
}

func TestDeadlineNamesTheGateThatCouldNotJudge(t *testing.T) {
	inWorld(t, func(w *world) {
		w.e.query = func(context.Context, string, string) (float64, bool, error) {
			return 0, false, errors.New("connection refused")
		}
		w.baseAndCandidate()
		w.canary(asksStore, func(q *CanaryRequest) { q.MinRequests, q.Deadline = 10, time.Minute })
		w.good(122)
		time.Sleep(time.Minute)
		w.expect(1, muru.AwaitingApproval,
			"no data at 10%: gate load cannot judge after 1 min: connection refused: muru rollout resume shop")
	})
}

func TestStoresAnswerIsReadStrictly(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		value      float64
		ok         bool
		err        string
	}{
		{"a vector of one", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.5"]}]}}`, 200, 0.5, true, ""},
		{"a scalar", `{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}`, 200, 3, true, ""},
		{"nothing", `{"status":"success","data":{"resultType":"vector","result":[]}}`, 200, 0, false, ""},
		{"no number", `{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}`, 200, 0, false, ""},
		{"many", `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"1"]},{"value":[1,"2"]}]}}`, 200, 0, false, "the query has 2 results: aggregate it to one, as by sum()"},
		{"a range", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, 200, 0, false, "the query's result is a matrix, not a number"},
		{"a text", `{"status":"success","data":{"resultType":"string","result":[1,"up"]}}`, 200, 0, false, "the query's result is a string, not a number"},
		{"an error", `{"status":"error","error":"parse error"}`, 400, 0, false, "the store answered 400 Bad Request: parse error"},
		{"a page", `<html>`, 502, 0, false, "the store answered 502 Bad Gateway, and not as Prometheus does"},
		{"an odd value", `{"status":"success","data":{"resultType":"scalar","result":[1,2]}}`, 200, 0, false, "the query's result is not a number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/prefix/api/v1/query" || r.FormValue("query") != `up{a="b"}` {
					t.Errorf("asked %s", r.URL)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer store.Close()
			defer http.DefaultClient.CloseIdleConnections()
			value, ok, err := queryStore(t.Context(), store.URL+"/prefix/", `up{a="b"}`)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if ok && value != tt.value || ok != tt.ok || text != tt.err {
				t.Errorf("%v, %v, %q", value, ok, text)
			}
		})
	}
}

func TestErrorOfAStoreDoesNotTellItsAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, _, err := queryStore(ctx, "http://ana:hush@127.0.0.1:1", "up")
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
