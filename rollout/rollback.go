package rollout

import (
	"context"
	"time"

	"muru"
)

// rollbackGuard is how long after a rollback of an app another one must name
// the release: two people in a hurry shall not go back twice.
const rollbackGuard = time.Minute

// Rollback returns what serves afterwards. No gates are asked.
//
// Of an app: a live rollout is aborted, shares set by hand are put back, and
// that is all; with neither, the app goes back to the release that served
// before, never to one it was rolled back from. A second rollback of an app
// within a minute is refused unless it names the release with To, or something
// else has been promoted since.
//
// Of a release: only if it still serves or is being tried; otherwise nothing
// happens.
//
// A release that was kept warm serves at once; one that was stopped is started
// first, and what serves stays if it does not start (kind not_ready).
//
// A deploy that is starting meanwhile, or an earlier rollback that is, neither
// holds a rollback up nor undoes it: its release is held when it is ready, and
// the call that started it is refused. A release that is starting can be named,
// which has it held and changes nothing else.
func (e *Engine) Rollback(ctx context.Context, q RollbackRequest) (muru.Release, Report, error) {
	return once(e, q.Caller, func() (muru.Release, Report, error) {
		if q.App == "" {
			q.App = q.Release.App
		}
		a, err := e.actorOf(q.App)
		if err != nil {
			return muru.Release{}, "", err
		}
		var report Report
		var to coldStart
		err = a.urge(ctx, func() (err error) {
			report, to, err = a.rollback(q)
			return err
		})
		if err == nil && to.release != nil {
			_, report, err = a.awaitStart(ctx, to.release, to.own)
		}
		if err != nil {
			return muru.Release{}, "", err
		}
		var serving muru.Release
		err = a.do(ctx, func() error {
			if b := a.baseline(); b != nil {
				serving = a.snapshotOf(b)
			}
			return nil
		})
		return serving, report, err
	})
}

// coldStart is a release that is started to go back to; the zero value is none.
type coldStart struct {
	release *release
	own     bool // by this call, which may give it up
}

// rollback does what can be done at once, and says what is started.
func (a *actor) rollback(q RollbackRequest) (report Report, to coldStart, err error) {
	var target *release
	if !q.Release.IsZero() {
		if target, err = a.release(q.Release); err != nil {
			return "", to, err
		}
		if target == a.changing {
			return a.overtake(q.Caller), to, nil
		}
		if share, ok := a.split.Share(target.ID); !a.tries(target.ID) && (!ok || share == 0 && target.State != muru.Serving) {
			return reportNothingToRollBack(target.ID, a.split.Baseline()), to, nil
		}
	} else if ago := a.e.clock.Now().Sub(a.reverted.at); q.To.IsZero() && a.reverted.to == a.split.Baseline().Number && ago < rollbackGuard {
		return "", to, muru.Errorf(muru.KindRefused, "%s", textRolledBackAlready(a.name, a.reverted.to, ago, a.reverted.by))
	}
	if q.To.IsZero() || a.live != nil {
		if report, done := a.takeOut(target, q); done {
			return report.and(a.overtake(q.Caller)), to, nil
		}
	}
	return a.goBack(target, q)
}

// overtake has the release that is about to take all traffic held when it is
// ready instead: what was asked for before a rollback does not undo it.
func (a *actor) overtake(by Caller) Report {
	r := a.changing
	if r == nil {
		return ""
	}
	a.changing, r.overtaken = nil, textRolledBackWhileStarting(a.name, by.who())
	return reportOvertaken(r.ID)
}

// heldBack holds a release that was overtaken, now that it is ready.
func (a *actor) heldBack(r *release, by Caller) {
	r.err = muru.Errorf(muru.KindRefused, "%s", textHeldBack(r.ID, r.overtaken)).WithHint("muru promote %s", r.ID)
	_ = a.commit(change{ // nobody asks now
		moves:  []move{{release: r, to: muru.Held, message: r.overtaken}},
		events: []muru.Event{a.event(muru.LevelNotice, muru.ReleaseHeld, r.ID.String(), by, because(eventHeld, r.overtaken))},
	})
}

// tries reports whether a release is the live rollout's candidate.
func (a *actor) tries(id muru.ReleaseID) bool { return a.live != nil && a.live.Candidate == id }

// takeOut ends what is being tried: the live rollout, or shares set by hand.
// done means that this is all a rollback has to do. When the baseline itself
// is to go, what is being tried goes too.
func (a *actor) takeOut(target *release, q RollbackRequest) (report Report, done bool) {
	base := a.split.Baseline()
	whole := target != nil && target.ID == base
	done = !whole && q.To.IsZero()
	if done && (a.live != nil || len(a.split.Arms) > 1) {
		a.reverted = reverted{at: a.e.clock.Now(), to: base.Number, by: q.who()}
	}
	switch {
	case a.live != nil:
		report = a.abortLive(q.Caller, q.Reason)
	case len(a.split.Arms) > 1:
		from := a.split.Arms[0].Release
		next := a.split
		if target != nil && !whole {
			from = target.ID
		} else {
			next.Arms = nil
		}
		var rest []muru.SplitArm
		for _, arm := range next.Arms {
			if arm.Release != from && arm.Release != base {
				rest = append(rest, arm)
			}
		}
		next, _ = muru.NewSplit(handSalt, base, rest...) // fewer arms of a split that was right
		report = reportRolledBack(from, base)
		moves := a.leaving(next, muru.Held, "")
		if len(rest) == 0 {
			a.splitRun = 0
		}
		_ = a.commit(change{split: &next, moves: moves, events: []muru.Event{ // in urge
			a.event(muru.LevelWarning, muru.AppRolledBack, a.name, q.Caller, eventAppRolledBack(from, base, q.who(), q.Reason)),
		}})
	default:
		return "", false
	}
	return report, done
}

// goBack moves the app from its baseline to an earlier release.
func (a *actor) goBack(target *release, q RollbackRequest) (report Report, cold coldStart, err error) {
	from := a.baseline()
	to := a.previous()
	if !q.To.IsZero() {
		if to, err = a.release(q.To); err != nil {
			return "", cold, err
		}
		if to == from {
			return reportServesAlready(to.ID).and(a.overtake(q.Caller)), cold, nil
		}
	}
	switch {
	case to == nil:
		err := muru.Errorf(muru.KindRefused, "%s has no earlier release to go back to", a.name)
		if a.changing != nil {
			return "", cold, err.WithHint("muru rollback %s, which is starting", a.changing.ID)
		}
		return "", cold, err.WithHint("name one with to=")
	case to == a.changing: // somebody else goes back to it
		return "", coldStart{release: to}, nil
	case to.State == muru.Stopped:
		overtaken := a.overtake(q.Caller)
		a.changing = to
		c := change{moves: []move{{release: to, to: muru.Starting}}}
		err := a.start(to, q.Caller, c, func() {
			if to.overtaken != "" {
				a.heldBack(to, q.Caller)
				return
			}
			to.report = a.switchBack(to, q).and(overtaken)
		})
		if err != nil {
			a.changing = nil
		}
		return "", coldStart{to, true}, err
	}
	if err := mayServe(to); err != nil {
		return "", cold, err
	}
	overtaken := a.overtake(q.Caller)
	return a.switchBack(to, q).and(overtaken), cold, nil
}

// switchBack gives an earlier release all traffic; what served is held for
// inspection and never gone back to.
func (a *actor) switchBack(to *release, q RollbackRequest) Report {
	if a.live != nil { // started while the earlier release did
		a.abortLive(q.Caller, q.Reason)
	}
	from := a.split.Baseline()
	next, _ := muru.NewSplit("", to.ID)
	moves := a.leaving(next, muru.Held, eventAppRolledBack(from, to.ID, q.who(), q.Reason))
	a.endGrace(moves)
	if !from.IsZero() {
		a.regretted[from.Number] = true
		for i, n := range a.history {
			if n == to.ID.Number {
				a.history = a.history[:i]
				break
			}
		}
	}
	a.splitRun = 0
	a.noteServing(to.ID.Number)
	a.reverted = reverted{at: a.e.clock.Now(), to: to.ID.Number, by: q.who()}
	c := change{split: &next, moves: moves}
	report := reportPromoted(to.ID, muru.ReleaseID{})
	if from.IsZero() {
		c.events = []muru.Event{a.event(muru.LevelNotice, muru.ReleasePromoted, to.ID.String(), q.Caller, eventPromoted(to.ID, from, q.who(), q.Reason))}
	} else {
		c.events = []muru.Event{a.event(muru.LevelWarning, muru.AppRolledBack, a.name, q.Caller, eventAppRolledBack(from, to.ID, q.who(), q.Reason))}
		report = reportRolledBack(from, to.ID)
	}
	_ = a.commit(c) // in urge, or when it has started
	return report
}
