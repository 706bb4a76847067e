package rollout

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"muru"
)

func TestEvidenceHasThePublishedValues(t *testing.T) {
	for _, tt := range []struct {
		x, y  int
		share muru.Share
		want  float64
	}{
		{1, 0, 1000, 1.3601}, {2, 0, 1000, 3.0734}, {3, 0, 1000, 4.9719}, {4, 0, 1000, 6.9573}, {5, 0, 1000, 8.9881},
		{8, 0, 5000, 4.3389}, {3, 3, 1000, 2.1977}, {5, 5, 1000, 3.9414}, {10, 20, 1000, 4.5699},
		{5, 45, 1000, -1.4645}, {10, 5, 5000, 0.0636}, {12, 0, 5000, 6.8364},
	} {
		e := newEvidence(1, worseThan)
		for range tt.y {
			e.add(tt.share, 0, 1)
		}
		for range tt.x {
			e.add(tt.share, 1, 0)
		}
		if math.Abs(e.weighted-tt.want) >= 0.00005 {
			t.Errorf("%d and %d under %s: ln E = %.5f, want %.4f", tt.x, tt.y, tt.share, e.weighted, tt.want)
		}
	}
}

func TestOneEventMovesEvidenceByItsMeanOfOneAtTheBoundary(t *testing.T) {
	// Under the hypothesis at its boundary each factor's mean is exactly 1:
	// that is what bounds false alarms.
	rapid.Check(t, func(t *rapid.T) {
		share := muru.Share(rapid.IntRange(1, 9999).Draw(t, "share"))
		ratio := rapid.Float64Range(0.1, 10).Draw(t, "ratio")
		grid := worseThan
		if rapid.Bool().Draw(t, "better") {
			grid = betterThan
		}
		e := newEvidence(ratio, grid)
		o := e.oddsUnder(share)
		rho := float64(share) / muru.Buckets
		q0 := ratio * rho / (ratio*rho + 1 - rho)
		for j := range grid {
			mean := q0*math.Exp(o.candidate[j]) + (1-q0)*math.Exp(o.baseline[j])
			if math.Abs(mean-1) > 1e-9 {
				t.Fatalf("alternative %v: mean %v", grid[j], mean)
			}
		}
	})
}

func TestEvidenceIsCarriedOverSharesAndRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEvidence(1, worseThan)
		for range rapid.IntRange(0, 300).Draw(t, "events") {
			share := rapid.SampledFrom([]muru.Share{0, 1000, 5000, 10000}).Draw(t, "share")
			if rapid.Bool().Draw(t, "candidate") {
				e.add(share, 1, 0)
			} else {
				e.add(share, 0, 1)
			}
		}
		again := newEvidence(1, worseThan)
		again.restore(e.tallies, e.peak)
		if math.Abs(again.weighted-e.weighted) > 1e-6 || math.Abs(again.peak-e.peak) > 1e-6 {
			t.Fatalf("ln E %v and peak %v came back as %v and %v", e.weighted, e.peak, again.weighted, again.peak)
		}
		for _, tally := range e.tallies {
			if tally.share == 0 || tally.share == muru.Buckets {
				t.Fatalf("a share of %s was weighed", tally.share)
			}
		}
	})
}

func TestEvidenceFarBeyondFloatingPointIsANumber(t *testing.T) {
	e := newEvidence(1, worseThan)
	for range 100_000 {
		e.add(100, 1, 0)
	}
	if math.IsNaN(e.weighted) || math.IsInf(e.weighted, 0) || e.weighted < 1000 {
		t.Errorf("ln E = %v", e.weighted)
	}
	for range 10_000_000 / 1000 {
		e.add(100, 0, 1000)
	}
	if math.IsNaN(e.weighted) || math.IsInf(e.weighted, 0) {
		t.Errorf("ln E = %v", e.weighted)
	}
}

func TestProofOfNoWorseThanTwiceComesWithEventsOfTheBaseline(t *testing.T) {
	e := newEvidence(2, betterThan)
	for range 40 {
		e.add(5000, 0, 1)
	}
	if e.peak < math.Log(100) {
		t.Errorf("40 events of the baseline, none of the candidate at 50%%: ln E = %v", e.peak)
	}
	e = newEvidence(2, betterThan)
	for range 40 {
		e.add(5000, 2, 1)
	}
	if e.peak >= math.Log(100) {
		t.Errorf("twice as bad is proof: ln E = %v", e.peak)
	}
}

func TestRateBoundOfACleanRun(t *testing.T) {
	for n, want := range map[int]float64{0: 1, 1: 0.99, 100: 0.0450, 458: 0.0100, 459: 0.0100} {
		if got := rateBound(n, 0.01); math.Abs(got-want) > 0.0001 {
			t.Errorf("%d clean clients leave %v, want %v", n, got, want)
		}
	}
	if rateBound(458, 0.01) < 0.01 || rateBound(459, 0.01) > 0.01 {
		t.Error("459 clean clients are what proves under 1%")
	}
}

func TestClientCountsOnceHoweverHardItRetries(t *testing.T) {
	var c eventClients
	if !c.first(7, false) {
		t.Error("the first event does not count")
	}
	for range 1000 {
		if c.first(7, false) {
			t.Fatal("a client counts twice")
		}
	}
	if !c.first(8, true) || c.first(8, false) {
		t.Error("a client that came back with its new identity counts twice, or never")
	}
}

func TestFullSetOfClientsKeepsOneHalfOfAll(t *testing.T) {
	var c eventClients
	counted := map[uint64]bool{}
	for i := range uint64(100_000) {
		if c.first(i, false) {
			counted[i] = true
		}
		if len(c.seen) >= eventClientsMax {
			t.Fatalf("%d clients are remembered", len(c.seen))
		}
	}
	if c.halvings < 5 {
		t.Errorf("%d halvings", c.halvings)
	}
	for i := range uint64(100_000) {
		if c.first(i, false) && counted[i] {
			t.Fatalf("client %d counts twice", i)
		}
	}
	if !c.first(1<<40, true) {
		t.Error("a client that is new does not count")
	}
}

func TestSetOfClientsComesBackFromItsDigest(t *testing.T) {
	var c eventClients
	for i := range uint64(5000) {
		c.first(i, false)
	}
	again, err := restoreClients(c.digest())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(20_000) {
		if c.first(i, false) != again.first(i, false) {
			t.Fatalf("client %d is another one after a restart", i)
		}
	}
	for _, digest := range []string{"x", "AAAA", "////", "GQ"} {
		if _, err := restoreClients(digest); err == nil {
			t.Errorf("%q is a set", digest)
		}
	}
	if _, err := restoreClients(""); err != nil {
		t.Error(err)
	}
}
