package rollout

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"muru"
)

// A Why explains a rollout: what its gates said last and from which numbers,
// whether its split did what it should, and whether the verdicts follow from
// what was recorded.
type Why struct {
	Rollout  muru.Rollout
	Step     muru.Step // the present one, or the last
	Window   time.Duration
	Verdicts []muru.Verdict
	Decided  *muru.Verdict // the one that ended or froze the rollout; nil: none did

	Share            muru.Share // of the candidate in that step
	Clients          int        // new ones in the window
	CandidateClients int        // those of them that the candidate was given
	BalanceP         float64    // how likely a split of that share does so; 1 with few clients, and in a shadow step

	Differences []Difference // verdicts that do not follow from the record; none: they were reproduced
}

// A Difference is a verdict that was one thing and is another recomputed.
type Difference struct {
	Gate    string
	Was, Is muru.Result
}

// Reproduced reports whether every verdict follows from what was recorded.
func (w Why) Reproduced() bool { return len(w.Differences) == 0 }

// Head is the first line of the text: which rollout, what became of it, and
// which window is told of.
func (w Why) Head() string {
	text := fmt.Sprintf("%s against %s: %s", w.Rollout, w.Rollout.Baseline.Name(), w.Rollout.State)
	if w.Rollout.Message != "" {
		text += ": " + w.Rollout.Message
	}
	if w.Step.Number == 0 {
		return text
	}
	return fmt.Sprintf("%s, %s, window %s", text, w.Step, muru.FormatMeasured(w.Window))
}

// Foot is the last lines: the split and the record.
func (w Why) Foot() string {
	balance := "balanced"
	if w.BalanceP < unbalancedBelow {
		balance = "off"
	}
	text := fmt.Sprintf("split: %d of %d clients, %s expected: %s (p %s)\nrecord: recomputed, ",
		w.CandidateClients, w.Clients, w.Share, balance, formatP(w.BalanceP))
	if w.Step.Shadow {
		text = "split: none, the candidate has copies\nrecord: recomputed, "
	}
	if w.Reproduced() {
		return text + "the same verdicts"
	}
	text += "NOT the same:"
	for i, d := range w.Differences {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s was %s, is %s", d.Gate, d.Was, d.Is)
	}
	return text
}

// A witness is what was seen at the last look, beside the verdicts.
type witness struct {
	step           int
	window         time.Duration
	candidate, all int  // clients whose identity was made for their request
	paired         bool // a baseline had traffic
	least          int
}

// Why explains a rollout, live or ended; not_found.
func (e *Engine) Why(ctx context.Context, number int) (Why, error) {
	a, err := e.actorOfRollout(number)
	if err != nil {
		return Why{}, err
	}
	var w Why
	err = a.do(ctx, func() error {
		l := a.past[number]
		switch q := a.queued(number); {
		case a.live != nil && a.live.Number == number:
			l = a.live
		case q != nil:
			l = q
		}
		if l == nil {
			return muru.Errorf(muru.KindNotFound, "rollout %d is gone", number)
		}
		w = l.why()
		return nil
	})
	return w, err
}

// why explains the rollout as of the last look at its gates.
func (l *live) why() Why {
	w := Why{
		Rollout: l.snapshot(), Window: l.witness.window, Verdicts: l.Verdicts,
		Clients: l.witness.all, CandidateClients: l.witness.candidate, BalanceP: 1,
	}
	if k := l.witness.step; k > 0 {
		w.Step, w.Share = l.Steps[k-1], l.Steps[k-1].Share
		w.BalanceP = balanceOf(w.CandidateClients, w.Clients, w.Share)
	}
	for _, v := range l.Verdicts {
		if v.Result == muru.Fail && w.Decided == nil {
			w.Decided = &v
		}
		if is := l.recompute(v); is != v.Result {
			w.Differences = append(w.Differences, Difference{v.Gate, v.Result, is})
		}
	}
	return w
}

// recompute says what a gate says by the numbers that were recorded with its
// verdict. What a function, a probe or a query answered is no number and is
// taken as it was.
func (l *live) recompute(v muru.Verdict) muru.Result {
	at := slices.IndexFunc(l.Gates, func(g muru.Gate) bool { return g.Name == v.Gate })
	if at < 0 {
		return muru.GateError
	}
	g := l.Gates[at]
	percent, _, timed := slowPercent(g.Name)
	switch {
	case g.Kind == muru.GateBuiltin && g.Name == muru.GateCrashes:
		if float64(v.Count) > g.Max.Value && float64(v.Count) > g.Ratio*float64(v.BaselineCount) {
			return muru.Fail
		}
		return muru.Pass
	case g.Kind != muru.GateHeader && (g.Kind != muru.GateBuiltin || g.Name == muru.GateProbe):
		return v.Result
	case !timed || g.Kind == muru.GateHeader:
		percent = g.Max.Value
	case !v.Limit.IsSet():
		return muru.NoDataYet // the baseline had not shown its own
	}
	over := overPercent(v.Count, v.Requests, percent) &&
		worse(v.Count, v.Requests, v.BaselineCount, v.BaselineRequests, g.Ratio)
	enough := v.Requests >= l.witness.least
	if v.Needed > 0 && l.witness.paired {
		m := l.remembers(v.Gate)
		// A step's own first requests fail nobody, those of the rollout do.
		over = over && l.evidenceFor(v, g, m) && (enough || v.Requests == m.total.n)
		enough = enough || over
	}
	switch {
	case !enough:
		return muru.NoDataYet
	case over:
		return muru.Fail
	}
	return muru.Pass
}

// evidenceFor reports whether the recorded events are evidence enough.
func (l *live) evidenceFor(v muru.Verdict, g muru.Gate, m memory) bool {
	e := newEvidence(g.Ratio, worseThan)
	e.restore(m.tallies, m.peak)
	return e.peak >= math.Log(v.Needed)-1e-9
}

// remembers returns what the judge carried of a gate when it said its verdict.
func (l *live) remembers(gate string) memory {
	for _, m := range l.memory {
		if m.gate == gate {
			return m
		}
	}
	return memory{}
}
