package rollout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
)

// TestThresholdJudge gives the plain judge both arms' counts and reads its
// verdict of one gate.
func TestThresholdJudge(t *testing.T) {
	type sent struct {
		n, status int
		took      time.Duration
	}
	const ms = time.Millisecond
	five, p95 := muru.Gate{Name: "5xx", Max: muru.PercentOf(1), Ratio: 1}, muru.Gate{Name: "p95", Max: muru.TimeOf(250 * ms), Ratio: 1}
	ratio := five
	ratio.Ratio = 3
	for _, tt := range []struct {
		name                string
		gate                muru.Gate
		candidate, baseline []sent
		alone               bool
		want                muru.Result
		message             string
	}{
		{"nothing at all", five, nil, nil, false, muru.NoDataYet, ""},
		{"one too few", five, []sent{{99, 500, ms}}, []sent{{500, 200, ms}}, false, muru.NoDataYet, ""},
		{"no failures of 500", five, []sent{{500, 200, ms}}, []sent{{500, 200, ms}}, false, muru.Pass, ""},
		{"over the limit and worse", five, []sent{{98, 200, ms}, {2, 500, ms}}, []sent{{500, 200, ms}}, false, muru.Fail, "5xx rate 2.00% over the limit of 1.00% (baseline 0.00%)"},
		{"at the limit", five, []sent{{99, 200, ms}, {1, 500, ms}}, []sent{{500, 200, ms}}, false, muru.Pass, ""},
		{"over, no worse", five, []sent{{95, 200, ms}, {5, 503, ms}}, []sent{{95, 200, ms}, {5, 502, ms}}, false, muru.Pass, ""},
		{"worse, not over", five, []sent{{199, 200, ms}, {1, 500, ms}}, []sent{{500, 200, ms}}, false, muru.Pass, ""},
		{"worse within the ratio", ratio, []sent{{98, 200, ms}, {2, 500, ms}}, []sent{{99, 200, ms}, {1, 500, ms}}, false, muru.Pass, ""},
		{"beyond the ratio", ratio, []sent{{96, 200, ms}, {4, 500, ms}}, []sent{{99, 200, ms}, {1, 500, ms}}, false, muru.Fail, "5xx rate 4.00% over the limit of 1.00% (baseline 1.00%)"},
		{"no baseline request", five, []sent{{98, 200, ms}, {2, 500, ms}}, nil, false, muru.Fail, "5xx rate 2.00% over the limit of 1.00% (baseline -)"},
		{"no baseline arm", five, []sent{{98, 200, ms}, {2, 500, ms}}, []sent{{100, 500, ms}}, true, muru.Fail, "5xx rate 2.00% over the limit of 1.00% (baseline -)"},
		{"clients that left are no failures", five, []sent{{98, 200, ms}, {20, 499, ms}}, []sent{{500, 200, ms}}, false, muru.Pass, ""},
		{"slow", p95, []sent{{90, 200, ms}, {10, 200, 300 * ms}}, []sent{{500, 200, 12 * ms}}, false, muru.Fail, "p95 300 ms over the limit of 250 ms (baseline 12 ms)"},
		{"slow as the baseline", p95, []sent{{90, 200, ms}, {10, 200, 300 * ms}}, []sent{{90, 200, ms}, {10, 200, 300 * ms}}, false, muru.Pass, ""},
		{"a few slow ones", p95, []sent{{96, 200, ms}, {4, 200, 300 * ms}}, []sent{{500, 200, ms}}, false, muru.Pass, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newThreshold(arms{rel(2), rel(1)}, []muru.Gate{tt.gate}, 100, func() {})
			edge := &rollouttest.Edge{}
			edge.Judge("shop", j.Thresholds(), j)
			now := time.Now()
			j.Begin(opening{At: now, Paired: !tt.alone})
			for _, s := range tt.candidate {
				edge.Send(rel(2), s.n, s.status, s.took)
			}
			for _, s := range tt.baseline {
				edge.Send(rel(1), s.n, s.status, s.took)
			}
			v := j.Verdicts(now.Add(time.Second))[0]
			if v.Result != tt.want || v.Message != tt.message {
				t.Errorf("%v: %q, want %v: %q", v.Result, v.Message, tt.want, tt.message)
			}
			if over := v.Candidate.Value > v.Limit.Value; tt.gate.Name == "p95" && v.Result == muru.Fail && !over {
				t.Errorf("a failing p95 of %s is shown under its limit of %s", v.Candidate, v.Limit)
			}
		})
	}
}

func TestQuantileShownNeverContradictsTheVerdict(t *testing.T) {
	// The true p95 lies just under the limit; the histogram's bucket ends above.
	g := muru.Gate{Name: "p95", Max: muru.TimeOf(250 * time.Millisecond), Ratio: 1}
	j := newThreshold(arms{rel(2), rel(1)}, []muru.Gate{g}, 100, func() {})
	edge := &rollouttest.Edge{}
	edge.Judge("shop", j.Thresholds(), j)
	j.Begin(opening{At: time.Now(), Paired: true})
	edge.Send(rel(2), 95, 200, 249*time.Millisecond)
	edge.Send(rel(2), 5, 200, time.Second)
	if v := j.Verdicts(time.Now())[0]; v.Result != muru.Pass || v.Candidate.Value > v.Limit.Value {
		t.Errorf("%v with %s shown against %s", v.Result, v.Candidate, v.Limit)
	}
}

func TestTimeGateWithoutMaxTakesTheBaselinesOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.edge.Send(rel(1), 1000, 200, 100*time.Millisecond)
		time.Sleep(10 * time.Second)
		w.canary(func(q *CanaryRequest) { q.Gates = []muru.Gate{{Name: "p95"}} })
		var limit time.Duration
		for _, th := range w.edge.Thresholds("shop") {
			if th.After != 30*time.Second {
				limit = th.After
			}
		}
		if limit < 100*time.Millisecond || limit > 107*time.Millisecond {
			t.Fatalf("the limit is %s", limit)
		}
		w.edge.Send(rel(1), 900, 200, 90*time.Millisecond)
		w.edge.Send(rel(2), 100, 200, 300*time.Millisecond)
		time.Sleep(time.Second)
		if r := w.rollout(1); r.State != muru.RolledBack {
			t.Errorf("%s: %v", r.State, r.Verdicts)
		}
	})
}

func TestTimeGateWithoutMaxAndWithoutAPastWaitsForTheBaseline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) { q.Gates = []muru.Gate{{Name: "p95"}} })
		w.edge.Send(rel(2), 100, 200, time.Millisecond)
		time.Sleep(40 * time.Second)
		w.expect(1, muru.Running, "") // no limit, no pass
		w.edge.Send(rel(1), 100, 200, 100*time.Millisecond)
		time.Sleep(2 * time.Second)
		if r := w.rollout(1); r.Step.Number != 2 {
			t.Errorf("step %d: %v", r.Step.Number, r.Verdicts)
		}
	})
}

func TestQueueWaitGate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary(func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "queue_wait", Max: muru.TimeOf(time.Second)}}
		})
		w.good(100)
		for range 20 {
			f := w.edge.Begin(rel(2))
			f.Status, f.Duration, f.QueueWait = 200, 3*time.Second, 2*time.Second
			w.edge.End(f)
		}
		time.Sleep(time.Second)
		w.expect(1, muru.RolledBack, "gate failed at 10%: queue wait p95 2 s over the limit of 1 s (baseline 0 ms)")
	})
}

func TestCrashesOfTheBaselineExcuseAsMany(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		w.e.Harm(rel(1), muru.HarmCrash)
		w.e.Harm(rel(2), muru.HarmCrash)
		time.Sleep(time.Second)
		w.expect(1, muru.Running, "")
		w.e.Harm(rel(2), muru.HarmStuck)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 2 worker crashes and timeout kills, over the limit of 0 (baseline 1)")
	})
}

func TestFunctionGate(t *testing.T) {
	check := func(fn muru.GateCheckFunc) func(*CanaryRequest) {
		return func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "orders", Kind: muru.GateCheck, Check: fn}}
		}
	}
	t.Run("is asked once the candidate has its minimum and sees both arms", func(t *testing.T) {
		inWorld(t, func(w *world) {
			var windows []muru.Window
			w.baseAndCandidate()
			w.canary(check(func(_ context.Context, win muru.Window) (bool, string, error) {
				windows = append(windows, win)
				return true, "", nil
			}))
			time.Sleep(10 * time.Second)
			w.good(99)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if len(windows) > 0 {
				t.Fatal("asked without the minimum")
			}
			w.good(1)
			time.Sleep(3500 * time.Millisecond)
			synctest.Wait()
			if len(windows) < 4 || windows[0].Candidate.Requests < 99 || windows[0].Baseline.Requests < 891 || windows[0].Verdicts != nil {
				t.Errorf("%d calls, the first with %v", len(windows), windows)
			}
		})
	})
	t.Run("that is slow is waited for", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.canary(check(func(ctx context.Context, _ muru.Window) (bool, string, error) {
				err := Sleep(ctx, RealClock{}, 4*time.Second)
				return true, "", err
			}))
			time.Sleep(29 * time.Second)
			w.good(100) // the hold runs from here
			time.Sleep(30*time.Second + time.Millisecond)
			if k := w.rollout(1).Step.Number; k != 2 {
				t.Fatalf("step %d", k)
			}
			w.good(100)
			time.Sleep(3 * time.Second)
			for _, v := range w.rollout(1).Verdicts {
				if v.Gate == "orders" && v.Result != muru.NoDataYet {
					t.Errorf("the verdict of the last step is used in this one")
				}
			}
		})
	})
	t.Run("that cannot answer never passes and never fails", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.baseAndCandidate()
			w.canary(check(func(context.Context, muru.Window) (bool, string, error) {
				return true, "", errors.New("canary.star:9:5: division by zero")
			}), func(q *CanaryRequest) { q.OnNoData = muru.NoDataRollback; q.Deadline = time.Minute })
			w.good(100)
			time.Sleep(59 * time.Second)
			w.expect(1, muru.Running, "")
			w.expectEvents("rollout.gate_error", "shop@r2 step 1 at 10%: orders: canary.star:9:5: division by zero; asked again every second")
			time.Sleep(time.Second)
			w.expect(1, muru.RolledBack, "no data at 10%: gate orders cannot judge after 1 min: canary.star:9:5: division by zero")
		})
	})
	t.Run("that does not come back does not go on passing", func(t *testing.T) {
		inWorld(t, func(w *world) {
			n, back := 0, make(chan struct{})
			w.baseAndCandidate()
			w.canary(check(func(context.Context, muru.Window) (bool, string, error) {
				if n++; n > 1 {
					<-back // whatever its context says
				}
				return true, "", nil
			}))
			w.good(100)
			time.Sleep(5 * time.Minute) // far past the holds
			w.expect(1, muru.Running, "")
			w.expectEvents("rollout.gate_error", "shop@r2 step 1 at 10%: orders: no answer in 5 s; asked again every second")
			close(back)
		})
	})
	t.Run("that hangs or panics is in error", func(t *testing.T) {
		inWorld(t, func(w *world) {
			n := 0
			w.baseAndCandidate()
			w.canary(check(func(ctx context.Context, _ muru.Window) (bool, string, error) {
				if n++; n == 1 {
					<-ctx.Done()
					return true, "", nil
				}
				panic("oh")
			}))
			w.good(100)
			time.Sleep(20 * time.Second)
			w.expectEvents("rollout.gate_error", "shop@r2 step 1 at 10%: orders: no answer in 5 s; asked again every second")
			w.expect(1, muru.Running, "")
		})
	})
}

func TestProbeGate(t *testing.T) {
	bodies := map[muru.ReleaseID]rollouttest.Backend{}
	probe := func(paths ...string) func(*CanaryRequest) {
		return func(q *CanaryRequest) {
			q.Gates = []muru.Gate{{Name: "probe", Paths: paths, Body: "^ok"}}
		}
	}
	prepare := func(w *world) {
		w.host.StartFunc = func(_ context.Context, r muru.Release) (muru.Backend, error) {
			return rollouttest.Backend(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
				return bodies[r.ID](ctx, x)
			}), nil
		}
		bodies[rel(1)], bodies[rel(2)] = rollouttest.Answering(200, "ok"), rollouttest.Answering(200, "ok")
		w.baseAndCandidate()
	}
	silent := rollouttest.Backend(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		<-ctx.Done()
		return muru.Outcome{Err: muru.ErrClientGone}
	})
	for _, tt := range []struct {
		name                string
		candidate, baseline rollouttest.Backend
		message             string
	}{
		{"a failing status", rollouttest.Answering(500, "ok"), bodies[rel(1)], "probe /healthz failed 2 times in a row: 500 Internal Server Error (baseline 200 OK)"},
		{"another body", rollouttest.Answering(200, "no"), bodies[rel(1)], "probe /healthz failed 2 times in a row: body does not match (baseline 200 OK)"},
		{"no answer", silent, bodies[rel(1)], "probe /healthz failed 2 times in a row: no answer in 5 s (baseline 200 OK)"},
		{"both", rollouttest.Answering(500, "ok"), rollouttest.Answering(500, "ok"), ""},
		{"neither", nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				prepare(w)
				if tt.candidate != nil {
					bodies[rel(2)] = tt.candidate
				}
				if tt.baseline != nil {
					bodies[rel(1)] = tt.baseline
				}
				w.canary(probe("/", "/healthz"), func(q *CanaryRequest) {
					q.Gates[0].Paths = []string{"/healthz"}
				})
				w.good(100)
				time.Sleep(20 * time.Second)
				if tt.message == "" {
					w.expect(1, muru.Running, "")
					time.Sleep(11 * time.Second)
					if k := w.rollout(1).Step.Number; k != 2 {
						t.Errorf("step %d: %v", k, w.rollout(1).Verdicts)
					}
					return
				}
				w.expect(1, muru.RolledBack, "gate failed at 10%: "+tt.message)
			})
		})
	}
}

func TestProbeSeesWhatTheReleaseAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		var seen *muru.Exchange
		w.host.StartFunc = func(context.Context, muru.Release) (muru.Backend, error) {
			return rollouttest.Backend(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
				seen = x
				switch x.Path {
				case "/raises":
					return muru.Outcome{Err: muru.ErrApp}
				case "/hangs":
					<-ctx.Done()
					return muru.Outcome{Err: muru.ErrClientGone}
				}
				return rollouttest.Answering(200, "hello")(ctx, x)
			}), nil
		}
		w.baseAndCandidate()
		r, err := w.e.Probe(w.ctx, ProbeRequest{Release: rel(2), Path: "/orders/1?full=yes", Method: "POST", Body: []byte("{}")})
		if err != nil || r.Status != 200 || string(r.Body) != "hello" || r.RequestID == "" {
			t.Errorf("%+v, %v", r, err)
		}
		if seen.Query != "full=yes" || seen.Length != 2 || seen.Method != "POST" {
			t.Errorf("the release saw %+v", seen)
		}
		r, err = w.e.Probe(w.ctx, ProbeRequest{Release: rel(2), Path: "/raises"})
		if want := "500 Internal Server Error\nreason: app_error\nrequest id: " + r.RequestID + "\nThe application raised an exception.\n"; err != nil || string(r.Body) != want {
			t.Errorf("%d %s, %v", r.Status, r.Body, err)
		}
		r, err = w.e.Probe(w.ctx, ProbeRequest{Release: rel(2), Path: "/hangs", Within: 2 * time.Second})
		if err != nil || r.Status != 504 || r.Took != 2*time.Second {
			t.Errorf("%d in %s, %v", r.Status, r.Took, err)
		}
		_, err = w.e.Probe(w.ctx, ProbeRequest{Release: rel(2), Path: "nowhere"})
		expectError(t, err, muru.KindUsage, `"nowhere" is not a path`)
	})
}
