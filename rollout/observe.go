package rollout

import (
	"context"
	"time"

	"muru"
)

// Observe is the judge without the hands: it watches a release for the hold,
// counted from its first request, and moves nothing. The release is compared
// with the app's baseline of the moment it starts; watched while it serves
// everything, limits alone decide. watch, which may be nil, sees the window
// every second; it runs on the caller's goroutine.
//
// Errors: gate_failed as soon as a gate fails, no_data when the minimum or a
// gate's pass is missing at the deadline, not_found, usage, refused (the
// release has no workers).
func (e *Engine) Observe(ctx context.Context, q ObserveRequest, watch func(muru.Window)) (muru.Window, error) {
	gates, err := planGates(q.Gates)
	if err != nil {
		return muru.Window{}, err
	}
	switch {
	case q.Hold < 0 || q.Deadline < 0 || q.MinRequests < 0:
		return muru.Window{}, muru.Errorf(muru.KindUsage, "hold, deadline and min_requests cannot be below 0")
	case q.Deadline != 0 && q.Deadline < q.Hold:
		return muru.Window{}, muru.Errorf(muru.KindUsage, "the deadline of %s is before the end of the hold of %s",
			muru.FormatDuration(q.Deadline), muru.FormatDuration(q.Hold))
	}
	a, err := e.actorOf(q.Release.App)
	if err != nil {
		return muru.Window{}, err
	}
	o := &observation{a: a, q: q, wake: make(chan struct{}, 1)}
	if err := a.do(ctx, func() error { return o.begin(gates) }); err != nil {
		return muru.Window{}, err
	}
	defer a.tell(o.end)
	return o.run(ctx, watch)
}

// An observation is one call of Observe. It runs on the caller's goroutine
// and asks the actor only to be attached and detached.
type observation struct {
	a        *actor
	q        ObserveRequest
	wake     chan struct{}
	examiner *examiner
	began    time.Time
}

// begin attaches the observation; it runs on the actor's goroutine.
func (o *observation) begin(gates []muru.Gate) error {
	a := o.a
	r, err := a.release(o.q.Release)
	if err != nil {
		return err
	}
	if !r.State.Live() || r.stopping != nil {
		return muru.Errorf(muru.KindRefused, "%s is %s: there is nothing to observe", r.ID, r.State)
	}
	who := arms{Candidate: r.ID}
	if b := a.split.Baseline(); b != r.ID {
		who.Baseline = b
	}
	for _, g := range gates {
		if _, _, timed := slowPercent(g.Name); timed && !g.Max.IsSet() && who.Baseline.IsZero() {
			return muru.Errorf(muru.KindRefused, "%s has no max, and %s has no baseline to take one from", g.Name, r.ID).
				WithHint("gate(%q, max = \"250ms\")", g.Name)
		}
	}
	o.began = a.e.clock.Now()
	o.examiner = a.e.newExaminer(who, judging{least: o.q.MinRequests}, gates, o.nudge)
	_, durations, queue := a.feed.recent.sum(o.began)
	o.examiner.limitsFrom(durations, queue, false)
	o.examiner.begin(opening{At: o.began, Generation: a.generation + 1, Paired: !who.Baseline.IsZero()})
	a.feed.attach(o.examiner.judge)
	return a.commit(change{table: true})
}

// end detaches it; it runs on the actor's goroutine.
func (o *observation) end() {
	o.examiner.end()
	o.a.feed.detach(o.examiner.judge)
	_ = o.a.commit(change{table: true})
}

func (o *observation) nudge() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run asks the gates every second, and when something is decided, until the
// observation has passed or failed.
func (o *observation) run(ctx context.Context, watch func(muru.Window)) (muru.Window, error) {
	for {
		w, wait, done, err := o.look()
		if watch != nil {
			watch(w)
		}
		if done || err != nil {
			return w, err
		}
		tick, stop := o.a.e.clock.After(wait)
		select {
		case <-tick:
		case <-o.wake:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-o.a.e.ctx.Done():
			err = errClosed
		}
		stop()
		if err != nil {
			return w, err
		}
	}
}

// look asks the gates once and says when to look again.
func (o *observation) look() (w muru.Window, wait time.Duration, done bool, err error) {
	now := o.a.e.clock.Now()
	x := o.examiner
	if len(x.judge.Unset(true)) > 0 {
		if _, durations, queue := o.a.feed.recent.sum(now); x.limitsFrom(durations, queue, true) {
			o.a.tell(func() { _ = o.a.commit(change{table: true}) })
		}
	}
	w = x.judge.Window(now)
	settled := x.settled(now) // before the verdicts, as in a rollout
	w.Verdicts = x.verdicts(now)
	x.tick(now) // after them, as in a rollout
	ruling := rule(w.Verdicts)
	if ruling.failed != nil {
		return w, 0, true, muru.Errorf(muru.KindGateFailed, "%s", textObserveFailed(o.q.Release, ruling.failed.Message))
	}
	first, requests := x.judge.Seen()
	spent, held := now.Sub(o.began), time.Duration(0)
	if !first.IsZero() {
		held = now.Sub(first)
	}
	if !first.IsZero() && held >= o.q.Hold && requests >= x.least && ruling.passed && settled {
		return w, 0, true, nil
	}
	deadline := cmpOr(o.q.Deadline, o.q.Hold+deadlineSlack)
	if spent >= deadline {
		return w, 0, true, muru.Errorf(muru.KindNoData, "%s", textObserveNoData(o.q.Release, requests, x.least, spent))
	}
	wait = min(askEvery, deadline-spent)
	if left := o.q.Hold - held; left > 0 {
		wait = min(wait, left)
	}
	return w, wait, false, nil
}
