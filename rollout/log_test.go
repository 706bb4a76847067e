package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

func TestLogKeepsTheNewestAndNumbersOn(t *testing.T) {
	l := NewLog(nil, 100)
	for range 1000 {
		l.Append(muru.Event{Subject: "shop"})
	}
	got := l.Query(EventQuery{})
	if len(got) != 100 || got[0].Seq != 901 || got[99].Seq != 1000 {
		t.Errorf("%d events, %d to %d", len(got), got[0].Seq, got[len(got)-1].Seq)
	}
}

func TestQueriesSelect(t *testing.T) {
	l := NewLog(nil, 0)
	for _, e := range []muru.Event{
		{Subject: "shop", Kind: "app.created"},
		{Subject: "shop@r1", Kind: "worker.crashed", Level: muru.LevelWarning},
		{Subject: "shop@r12", Kind: "release.failed", Level: muru.LevelError, Data: map[string]any{"run": 3}},
		{Subject: "shopping", Kind: "app.created"},
		{Subject: "shop@r1", Kind: "rollout.started", Data: map[string]any{"rollout": 7}},
		{Subject: "run 3", Kind: "run.failed", Level: muru.LevelError},
	} {
		l.Append(e)
	}
	warning := muru.LevelWarning
	for _, tt := range []struct {
		name string
		q    EventQuery
		want []int
	}{
		{"all", EventQuery{}, []int{1, 2, 3, 4, 5, 6}},
		{"app", EventQuery{App: "shop"}, []int{1, 2, 3, 5}},
		{"release", EventQuery{Release: rel(1)}, []int{2, 5}},
		{"rollout", EventQuery{Rollout: 7}, []int{5}},
		{"run", EventQuery{Run: 3}, []int{3, 6}},
		{"kind", EventQuery{Kind: "app.created"}, []int{1, 4}},
		{"kinds", EventQuery{Kind: "r*"}, []int{3, 5, 6}},
		{"level", EventQuery{Level: &warning}, []int{2, 3, 6}},
		{"newest", EventQuery{Limit: 2}, []int{5, 6}},
		{"later", EventQuery{After: 4}, []int{5, 6}},
		{"later and newest", EventQuery{After: 3, Limit: 2}, []int{5, 6}},
		{"after all", EventQuery{After: 6}, nil},
		{"future", EventQuery{Since: time.Now().Add(time.Hour)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := l.Query(tt.q)
			if len(got) != len(tt.want) {
				t.Fatalf("%d events, want %d", len(got), len(tt.want))
			}
			for i, seq := range tt.want {
				if got[i].Seq != seq {
					t.Errorf("event %d is %d, want %d", i, got[i].Seq, seq)
				}
			}
		})
	}
}

func TestSlowSubscriberIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(nil, 0)
		ctx, cancel := context.WithCancel(t.Context())
		slow, fine := l.Subscribe(t.Context()), l.Subscribe(ctx)
		for i := range subscriberBuffer + 10 {
			l.Append(muru.Event{})
			if e := <-fine; e.Seq != i+1 {
				t.Fatalf("event %d after %d", e.Seq, i)
			}
		}
		n := 0
		for range slow {
			n++
		}
		if n != subscriberBuffer {
			t.Errorf("the slow one got %d events before it was dropped", n)
		}
		cancel()
		if _, ok := <-fine; ok {
			t.Error("an event after the end")
		}
	})
}
