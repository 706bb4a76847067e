package rollout

import (
	"context"
	"errors"
	"testing"
	"time"

	"muru"
)

// A stream's fact comes when the stream ends, and is of the time of its head.
// It must not take the place of what was counted in the last five minutes.
func TestFactOfALongStreamLeavesTheLastFiveMinutesAlone(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	j := newThreshold(arms{rel(2), rel(1)}, []muru.Gate{{Name: muru.Gate5xx, Max: muru.PercentOf(1), Ratio: 1}}, 100, func() {})
	j.Begin(opening{At: began, Paired: true})
	send := func(at time.Time, n, status int) {
		for i := range n {
			j.Done(muru.Fact{Release: rel(2), Client: uint64(i), Arrived: at.Add(time.Duration(i)), Status: status, Duration: time.Millisecond})
		}
	}
	now := began.Add(time.Hour)
	send(began, 100_000, 200)
	send(now.Add(-time.Second), 200, 500) // a fresh fault, drowned by the hour
	j.Done(muru.Fact{Release: rel(2), Arrived: now.Add(-recentWindow - time.Second), Status: 200, Duration: time.Millisecond, Stream: true})
	if v := j.Verdicts(now)[0]; v.Result != muru.Fail || v.Count != 200 {
		t.Errorf("%v, %d of %d", v, v.Count, v.Requests)
	}
}

func TestFactOfALongStreamLeavesTheLastMinuteAlone(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var m lastMinute
	m.follow(rel(1))
	for range 30 {
		m.done(muru.Fact{Release: rel(1), Arrived: now, Duration: time.Millisecond})
	}
	m.done(muru.Fact{Release: rel(1), Arrived: now.Add(-time.Minute), Duration: time.Millisecond, Stream: true})
	if _, durations, _ := m.sum(now); durations.Count() != 30 {
		t.Errorf("%d requests in the last minute, want 30", durations.Count())
	}
}

func TestRunWhoseWaitWasCutCanStillBeCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		run := w.e.BeginRun("a.star", "", "ana")
		w.canary(func(q *CanaryRequest) { q.Caller = Caller{Run: run, By: "run 1"} })
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if err := w.e.EndRun(ctx, run, RunFinished, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := w.e.EndRun(w.ctx, run, RunCancelled, nil); err != nil {
			t.Fatal(err)
		}
		w.expect(1, muru.Aborted, "by run 1 at 10%: the run was cancelled")
	})
}

// lender is a backend that takes its header's fields back, as the contract says.
type lender struct{}

func (lender) Do(_ context.Context, x *muru.Exchange) muru.Outcome {
	fields := []muru.Field{{Name: "X-Shop", Value: "mug"}}
	err := x.Answer.Head(200, fields, 0)
	clear(fields)
	return muru.Outcome{Err: err, Answered: true}
}

func TestProbeKeepsTheHeaderThatItsBackendReuses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.StartFunc = func(context.Context, muru.Release) (muru.Backend, error) { return lender{}, nil }
		id := w.deploy(false)
		r, err := w.e.Probe(w.ctx, ProbeRequest{Release: id})
		if err != nil || len(r.Header) != 1 || r.Header[0] != (muru.Field{Name: "X-Shop", Value: "mug"}) {
			t.Errorf("%v, %v", r.Header, err)
		}
	})
}

func TestEventIsOneLineWhateverAPersonWrites(t *testing.T) {
	l := NewLog(nil, 0)
	e := l.Append(muru.Event{Kind: "rollout.paused", Subject: "shop@r2", Message: "by ana: first\n213 03:09:40 error forged"})
	if e.Message != "by ana: first 213 03:09:40 error forged" {
		t.Errorf("%q", e.Message)
	}
}
