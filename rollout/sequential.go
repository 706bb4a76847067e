package rollout

import (
	"math"
	"slices"
	"time"

	"muru"
)

// sequential is the default judge: a rate fails when the candidate is over
// the limit and worse than the baseline, and the evidence that this is no
// chance has reached 1/alpha at any time in the rollout. A candidate that is
// no worse than its baseline is failed by one gate with probability alpha at
// most, however often and however long it is looked at; a bad one is failed by
// its third failure where the baseline has none.
//
// Evidence is of the whole rollout: it is carried from step to step and over
// restarts. So are the counts that say whether the candidate is over its
// limit: a step that has just begun fails nobody by its first request. What is
// shown, and what must pass, is the step's alone.
//
// Without a baseline (a step at 100%) there is nothing to weigh: the limit
// decides, with the minimum of requests, as in [threshold].
type sequential struct {
	*threshold
	alpha  float64   // a fraction
	needed float64   // ln(1/alpha)
	scales []*scales // by the index of rated

	// from is the generation of the rollout's first window: a request of an
	// earlier step is evidence still, under the share it was picked with.
	from uint64
	told []memory // as of the last verdicts
}

// scales weigh one gate. They are guarded by the judge's mutex.
type scales struct {
	worse   *evidence // that the candidate is worse
	clients eventClients
	carried total // of the windows before this one

	// better is the evidence, of this window alone, that the candidate is less
	// than confidentRatio times as bad. It looks at each client's first request
	// and at no other: of clients that come back nearly all meet a failure in
	// the end, on either release, and by their first failures any candidate
	// would look more and more like its baseline.
	better *evidence
	opened eventClients // whose first request was an event
}

// total counts one gate's events and requests on both arms.
type total struct{ x, n, y, m int }

// confidentRatio is how many times worse than the baseline a candidate must
// be proven not to be where a step ends by proof.
const confidentRatio = 2

func newSequential(who arms, gates []muru.Gate, how judging, wake func()) *sequential {
	alpha := how.alpha / 100
	if alpha == 0 {
		alpha = alphaPercent / 100.0
	}
	s := &sequential{threshold: newThreshold(who, gates, how.least, wake), alpha: alpha, needed: -math.Log(alpha)}
	for _, r := range s.rated {
		w := &scales{worse: newEvidence(r.gate.Ratio, worseThan)}
		w.begin(r)
		s.scales = append(s.scales, w)
	}
	return s
}

// begin forgets what is of one window.
func (w *scales) begin(r rated) {
	w.better, w.opened = newEvidence(max(confidentRatio, r.gate.Ratio), betterThan), eventClients{}
}

// Begin implements [judge].
func (s *sequential) Begin(o opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rated {
		s.scales[i].carried = s.whole(i, r)
		s.scales[i].begin(r)
	}
	if s.opening.At.IsZero() {
		s.from = o.Generation
	}
	s.begin(o)
}

// whole counts a gate's events over the whole rollout.
func (s *sequential) whole(i int, r rated) total {
	t := s.scales[i].carried
	t.x += r.events(s.candidate.step)
	t.n += s.candidate.step.requests
	t.y += r.events(s.baseline.step)
	t.m += s.baseline.step.requests
	return t
}

// Done implements [muru.Sink].
func (s *sequential) Done(f muru.Fact) {
	s.mu.Lock()
	wake := s.done(f)
	if s.weighed(f) {
		for i, r := range s.rated {
			if r.limit < 0 && r.happened(f, s.marks) {
				wake = s.weigh(i, f, f.Share, f.Release == s.who.Candidate) || wake
			}
		}
	}
	s.mu.Unlock()
	if wake {
		s.wake()
	}
}

// Overdue implements [muru.Sink].
func (s *sequential) Overdue(f muru.Fact, th muru.Threshold) {
	s.mu.Lock()
	wake := s.overdue(f, th)
	if s.weighed(f) {
		for i, r := range s.rated {
			if r.limit >= 0 && s.limits[r.limit].of == th.Of && s.limits[r.limit].after == th.After {
				wake = s.weigh(i, f, f.Share, f.Release == s.who.Candidate) || wake
			}
		}
	}
	s.mu.Unlock()
	if wake {
		s.wake()
	}
}

// Pair implements [muru.Sink]. Of copies only those count that ended
// otherwise than what they are copies of; which of the two failed is an even
// coin if the releases are alike.
//
// People leave what does not answer, and no copy does. A request whose client
// left counts against the baseline if the copy had its answer by then, and
// otherwise for nothing: or requests that hang on either release would be the
// candidate's fault each time.
func (s *sequential) Pair(user, shadow muru.Fact) {
	s.mu.Lock()
	wake := s.pair(user, shadow)
	left := clientLeft(user)
	if s.weighed(user) && s.weighed(shadow) && !(left && shadow.Duration > user.Duration) {
		for i, r := range s.rated {
			happened := func(f muru.Fact) bool { return r.happened(f, s.marks) }
			if r.limit >= 0 {
				happened = s.limits[r.limit].exceeded
			}
			if bad := happened(shadow); bad != (left || happened(user)) {
				wake = s.weigh(i, user, muru.Buckets/2, bad) || wake
			}
		}
	}
	s.mu.Unlock()
	if wake {
		s.wake()
	}
}

// weighed reports whether a fact can be evidence: it is of this rollout, and
// of one of its releases.
func (s *sequential) weighed(f muru.Fact) bool {
	return !s.opening.At.IsZero() && f.Generation >= s.from && (f.Release == s.who.Candidate || f.Release == s.who.Baseline)
}

// happened reports whether an ended request is an event of a gate on answers.
func (r rated) happened(f muru.Fact, marks []string) bool {
	if r.mark >= 0 {
		return len(f.Marks) > 0 && slices.Contains(f.Marks, marks[r.mark])
	}
	return f.Status/100 == 5 && f.Reason != muru.ReasonClientGone
}

// weigh adds an event to a gate's evidence if it is its client's first, and to
// that of the proof if it is of its client's first request; and reports
// whether it may decide.
func (s *sequential) weigh(i int, f muru.Fact, share muru.Share, candidate bool) (decides bool) {
	w := s.scales[i]
	x, y := 0, 1
	if candidate {
		x, y = 1, 0
	}
	if countable(share) && w.clients.first(f.Client, f.Minted) {
		w.worse.add(share, x, y)
	}
	if countable(share) && s.opens(f) && w.opened.first(f.Client, f.Minted) {
		w.better.add(share, x, y)
	}
	return candidate && w.worse.peak >= s.needed
}

// opens reports whether a fact that was counted is of its client's first
// request in this window. One half of a pair tells it for both.
func (s *sequential) opens(f muru.Fact) bool {
	if f.Generation < s.opening.Generation {
		return false
	}
	if f.Release == s.who.Candidate {
		return s.candidate.opens(f)
	}
	return s.baseline.opens(f)
}

// Verdicts implements [judge].
func (s *sequential) Verdicts(now time.Time) []muru.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	stretches := s.stretches(now)
	s.told = s.memory(false)
	next := -1
	return s.each(now, func(r rated) muru.Verdict {
		next++
		return s.weighedVerdict(next, r, stretches, now)
	})
}

func (s *sequential) weighedVerdict(i int, r rated, stretches []stretch, now time.Time) muru.Verdict {
	w := s.scales[i]
	var v muru.Verdict
	if !s.opening.Paired {
		v = s.worst(r, stretches, now)
	} else {
		var known bool
		v, _, known = s.measure(r, stretches[0], now)
		if known && s.candidate.step.requests >= s.least {
			v.Result = muru.Pass
		}
		if known && w.worse.peak >= s.needed {
			v = s.overLimit(i, r, v, stretches, now)
		}
	}
	v.Clients, v.BaselineClients = w.worse.events()
	v.Needed = 1 / s.alpha
	v.Evidence = min(evidenceMax, math.Exp(w.worse.weighted))
	if w.worse.peak >= s.needed {
		v.Evidence = min(evidenceMax, math.Exp(w.worse.peak))
	}
	return v
}

// evidenceMax is the largest evidence that is told: more says nothing more.
const evidenceMax = 1e15

// overLimit fails a verdict whose evidence is there if the candidate is over
// the limit: in the whole rollout, or in a stretch that has the minimum of
// requests.
func (s *sequential) overLimit(i int, r rated, v muru.Verdict, stretches []stretch, now time.Time) muru.Verdict {
	t := s.whole(i, r)
	whole := overPercent(t.x, t.n, r.percent) && worse(t.x, t.n, t.y, t.m, r.gate.Ratio)
	first := s.scales[i].carried == total{}
	for k, one := range stretches {
		if k == 0 && one.candidate.requests < s.least && !first {
			continue
		}
		if m, over, _ := s.measure(r, one, now); over {
			return failed(r, m)
		}
	}
	if !whole {
		return v
	}
	// Shown with the counts that decided; a time as it is in this step.
	v.Count, v.Requests, v.BaselineCount, v.BaselineRequests = t.x, t.n, t.y, t.m
	if r.limit < 0 {
		v.Candidate, v.Baseline = percentOf(t.x, t.n), percentOf(t.y, t.m)
	} else if v.Candidate.Value < v.Limit.Value {
		v.Candidate = v.Limit
	}
	return failed(r, v)
}

// Told implements [judge].
func (s *sequential) Told() []memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// Settled implements [judge]: what is open counts as if it were going to be
// slow on both arms, and must not make evidence enough then.
func (s *sequential) Settled(now time.Time, open inside) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opening.Paired || s.opening.Dark {
		return s.settled(now, open)
	}
	share := s.opening.Share
	if s.opening.Shadow {
		share = muru.Buckets / 2
	}
	for i, r := range s.rated {
		if r.limit < 0 || s.limits[r.limit].after == 0 {
			continue
		}
		after := s.limits[r.limit].after
		x, n := s.candidate.atWorst(r.limit, after, open.candidate, now)
		y, m := s.baseline.atWorst(r.limit, after, open.baseline, now)
		moreX, moreY := x-s.candidate.step.slow[r.limit], y-s.baseline.step.slow[r.limit]
		if overPercent(x, n, r.percent) && worse(x, n, y, m, r.gate.Ratio) &&
			moreX > 0 && s.scales[i].worse.with(share, moreX, moreY) >= s.needed {
			return false
		}
	}
	return true
}

// Confident implements [judge]: each rate is proven in this window to be less
// than confidentRatio times the baseline's, or, where the candidate has no
// event at all, to be under its limit.
func (s *sequential) Confident() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening.Dark || !s.opening.Paired {
		return false
	}
	for i, r := range s.rated {
		w := s.scales[i]
		if r.limit >= 0 && s.limits[r.limit].after == 0 {
			return false
		}
		clean := s.whole(i, r).x == 0 && 100*rateBound(len(s.candidate.clients), s.alpha) < r.percent
		if w.better.peak < s.needed && !clean {
			return false
		}
	}
	return true
}
