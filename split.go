package muru

// Buckets is the number of buckets clients are hashed into, and the sum of
// every split's shares: one bucket is one basis point of traffic.
const Buckets = 10000

// A Share is a part of an app's traffic in basis points: 1000 is 10%. 0 is
// nobody, 10000 everybody.
type Share int

// Percent returns the share on the scale of 0 to 100.
func (s Share) Percent() float64 { return float64(s) / 100 }

// A SplitArm is one release's part of a split.
type SplitArm struct {
	Release ReleaseID
	Share   Share
}

// A Split divides an app's clients between releases. Arms are in the order
// their buckets lie: the candidate first, so that it owns the lowest buckets
// and raising its share moves nobody back; the baseline last, with the rest.
// A share of 0 is a dark launch: reachable by preview only. Salt goes into
// the hash of each client (the rollout, so that the same people are not the
// first in every rollout). The zero Split serves nobody.
type Split struct {
	Salt string
	Arms []SplitArm
}

// NewSplit returns the split in which each of arms has its share and baseline
// the rest. It errors when a share is negative or the shares exceed the whole.
func NewSplit(salt string, baseline ReleaseID, arms ...SplitArm) (Split, error) {
	rest := Share(Buckets)
	for _, a := range arms {
		if a.Share < 0 {
			return Split{}, Errorf(KindUsage, "%s: a share cannot be negative", a.Release)
		}
		if a.Release == baseline {
			return Split{}, Errorf(KindUsage, "%s serves the rest and takes no share of its own", baseline)
		}
		rest -= a.Share
	}
	if rest < 0 {
		return Split{}, Errorf(KindUsage, "the shares add up to %s, over 100%%", Buckets-rest)
	}
	all := append(make([]SplitArm, 0, len(arms)+1), arms...)
	return Split{Salt: salt, Arms: append(all, SplitArm{baseline, rest})}, nil
}

// Pick returns the release that owns bucket, which must lie in [0, Buckets).
// It is pure and safe for concurrent use. ok is false when nothing serves.
func (s Split) Pick(bucket int) (id ReleaseID, ok bool) {
	upper := 0
	for _, a := range s.Arms {
		upper += int(a.Share)
		if bucket < upper {
			return a.Release, true
		}
	}
	return ReleaseID{}, false
}

// Share returns the share of id, and whether id is in the split at all.
func (s Split) Share(id ReleaseID) (Share, bool) {
	for _, a := range s.Arms {
		if a.Release == id {
			return a.Share, true
		}
	}
	return 0, false
}

// Baseline returns the release that serves the rest, the last arm.
func (s Split) Baseline() ReleaseID {
	if len(s.Arms) == 0 {
		return ReleaseID{}
	}
	return s.Arms[len(s.Arms)-1].Release
}

// Divided reports whether more than one release gets traffic, which is when
// clients need an identity.
func (s Split) Divided() bool {
	n := 0
	for _, a := range s.Arms {
		if a.Share > 0 {
			n++
		}
	}
	return n > 1
}

// String lists the shares, smallest part last: r5 90%, r6 10%.
func (s Split) String() string {
	text := ""
	for i := len(s.Arms) - 1; i >= 0; i-- {
		if text != "" {
			text += ", "
		}
		text += s.Arms[i].Release.Name() + " " + s.Arms[i].Share.String()
	}
	return text
}
