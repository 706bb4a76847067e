package muru

import (
	"math/bits"
	"time"
)

// The histogram's buckets: durations are counted in microseconds, exactly up
// to 31 µs and above that in 16 buckets for each doubling, so a quantile is
// within 6.25% of the truth. 2^36 µs (19 hours) and more share the last one.
const (
	histogramSub     = 16
	histogramBuckets = 2*histogramSub + (36-5)*histogramSub
)

// A Histogram counts durations in logarithmic buckets. The zero value is
// empty and ready. Methods with a pointer receiver are not safe for
// concurrent use; a copy shares nothing once [Histogram.Clone]d.
type Histogram struct {
	counts []uint32
	n      int
	max    time.Duration
}

// Observe counts d; a negative d counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	if h.counts == nil {
		h.counts = make([]uint32, histogramBuckets)
	}
	d = max(0, d)
	h.counts[histogramBucket(d)]++
	h.n++
	h.max = max(h.max, d)
}

// Add counts everything other has counted.
func (h *Histogram) Add(other Histogram) {
	if other.n == 0 {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint32, histogramBuckets)
	}
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Clone returns a copy that shares nothing with h.
func (h Histogram) Clone() Histogram {
	h.counts = append([]uint32(nil), h.counts...)
	return h
}

// Count returns how many durations were observed.
func (h Histogram) Count() int { return h.n }

// Quantile returns the duration that the fraction q (0 to 1) of the observed
// ones do not exceed, rounded up to its bucket's end but never over the
// largest observed. ok is false when nothing was observed.
func (h Histogram) Quantile(q float64) (d time.Duration, ok bool) {
	if h.n == 0 {
		return 0, false
	}
	rank := int(q * float64(h.n))
	if float64(rank) < q*float64(h.n) || rank == 0 {
		rank++
	}
	seen := 0
	for i, c := range h.counts {
		seen += int(c)
		if seen >= rank && i < histogramBuckets-1 {
			return min(histogramUpper(i), h.max), true
		}
	}
	return h.max, true
}

// histogramBucket returns the bucket d is counted in.
func histogramBucket(d time.Duration) int {
	us := uint64(d / time.Microsecond)
	if us < 2*histogramSub {
		return int(us)
	}
	shift := bits.Len64(us) - 5 // us>>shift lies in [16, 32)
	return min(shift*histogramSub+int(us>>shift), histogramBuckets-1)
}

// histogramUpper returns the largest duration counted in bucket i.
func histogramUpper(i int) time.Duration {
	if i < 2*histogramSub {
		return time.Duration(i+1)*time.Microsecond - 1
	}
	shift := i/histogramSub - 1
	us := uint64(i%histogramSub+histogramSub+1) << shift
	return time.Duration(us)*time.Microsecond - 1
}
