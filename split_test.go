package muru_test

import (
	"testing"

	"pgregory.net/rapid"

	"muru"
)

func release(n int) muru.ReleaseID { return muru.ReleaseID{App: "shop", Number: n} }

func candidateSplit(t testing.TB, share muru.Share) muru.Split {
	t.Helper()
	s, err := muru.NewSplit("rollout 1", release(5), muru.SplitArm{Release: release(6), Share: share})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestZeroIsNobodyAndTheWholeIsEverybody(t *testing.T) {
	for _, c := range []struct {
		share muru.Share
		owns  int
	}{{0, 0}, {1, 1}, {1000, 1000}, {9999, 9999}, {muru.Buckets, muru.Buckets}} {
		split, owned := candidateSplit(t, c.share), 0
		for bucket := range muru.Buckets {
			id, ok := split.Pick(bucket)
			if !ok {
				t.Fatalf("bucket %d belongs to nobody", bucket)
			}
			if id == release(6) {
				owned++
			}
		}
		if owned != c.owns {
			t.Errorf("at %s the candidate owns %d buckets, want %d", c.share, owned, c.owns)
		}
	}
}

func TestRaisingAShareMovesNobodyBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(0, muru.Buckets).Draw(t, "low")
		high := rapid.IntRange(low, muru.Buckets).Draw(t, "high")
		bucket := rapid.IntRange(0, muru.Buckets-1).Draw(t, "bucket")
		before, _ := muru.NewSplit("s", release(5), muru.SplitArm{Release: release(6), Share: muru.Share(low)})
		after, _ := muru.NewSplit("s", release(5), muru.SplitArm{Release: release(6), Share: muru.Share(high)})
		was, _ := before.Pick(bucket)
		is, _ := after.Pick(bucket)
		if was == release(6) && is != release(6) {
			t.Fatalf("bucket %d left the candidate when its share rose from %d to %d", bucket, low, high)
		}
	})
}

func TestASplitAddsUpToTheWhole(t *testing.T) {
	if _, err := muru.NewSplit("s", release(5), muru.SplitArm{Release: release(6), Share: 6000}, muru.SplitArm{Release: release(7), Share: 5000}); err == nil {
		t.Error("110% was accepted")
	}
	if _, err := muru.NewSplit("s", release(5), muru.SplitArm{Release: release(6), Share: -1}); err == nil {
		t.Error("a negative share was accepted")
	}
	if _, err := muru.NewSplit("s", release(5), muru.SplitArm{Release: release(5), Share: 1}); err == nil {
		t.Error("a share for the baseline was accepted")
	}
	if _, ok := (muru.Split{}).Pick(0); ok {
		t.Error("the zero split serves somebody")
	}
	s := candidateSplit(t, 1000)
	if got, want := s.String(), "r5 90%, r6 10%"; got != want {
		t.Errorf("split prints %q, want %q", got, want)
	}
	if !s.Divided() || candidateSplit(t, 0).Divided() || candidateSplit(t, muru.Buckets).Divided() {
		t.Error("a split is divided exactly when two releases get traffic")
	}
	if share, ok := s.Share(release(5)); !ok || share != 9000 || s.Baseline() != release(5) {
		t.Errorf("the baseline %v has %v, %v", s.Baseline(), share, ok)
	}
}

func BenchmarkPick(b *testing.B) {
	split := candidateSplit(b, 1000)
	for i := 0; b.Loop(); i++ {
		split.Pick(i % muru.Buckets)
	}
}
