package muru_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru"
)

func TestAQuantileIsWithinItsBucketOfTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(20*time.Hour)), 1, 200).Draw(t, "times")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h muru.Histogram
		for _, ns := range times {
			h.Observe(time.Duration(ns))
		}
		slices.Sort(times)
		rank := max(1, int(q*float64(len(times))))
		if float64(rank) < q*float64(len(times)) {
			rank++
		}
		truth := time.Duration(times[rank-1])
		got, ok := h.Quantile(q)
		limit := truth + truth/16 + time.Microsecond
		if !ok || got < truth.Truncate(time.Microsecond) || got > limit {
			t.Fatalf("quantile %v of %d times is %v, the truth is %v", q, len(times), got, truth)
		}
	})
}

func TestAnEmptyHistogramHasNoQuantile(t *testing.T) {
	var h, other muru.Histogram
	if _, ok := h.Quantile(0.5); ok {
		t.Error("an empty histogram has a median")
	}
	other.Observe(3 * time.Second)
	h.Add(other)
	copied := h.Clone()
	h.Observe(-time.Second)
	if copied.Count() != 1 || h.Count() != 2 {
		t.Errorf("the copy counts %d, the original %d", copied.Count(), h.Count())
	}
	if got, _ := h.Quantile(1); got != 3*time.Second {
		t.Errorf("the maximum is %v", got)
	}
}
