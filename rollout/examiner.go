package rollout

import (
	"context"
	"sync"
	"time"

	"muru"
)

// checkTimeout bounds one call of a gate's function.
const checkTimeout = 5 * time.Second

// askEvery is how often gates are asked.
const askEvery = time.Second

// An examiner asks all gates of a rollout or an observe call: those its judge
// measures, the functions, and the probe. Functions and probes run on
// goroutines of their own; their latest answers are kept until they are asked
// for. Its methods are safe for concurrent use.
type examiner struct {
	gates []muru.Gate
	judge judge
	least int
	clock Clock
	host  Host
	spawn func(func()) bool
	wake  func()
	query QueryFunc
	probe *prober // nil without a probe gate
	who   arms

	ctx  context.Context // of everything it started
	stop context.CancelFunc

	mu     sync.Mutex // guards what is below
	window int        // number of the window; answers of older ones are dropped
	open   opening
	checks map[string]*check
}

// check is one gate's function or query and what it last said.
type check struct {
	gate    muru.Gate
	asked   time.Time
	running int
	verdict muru.Verdict
}

// newExaminer returns an examiner that has asked nothing yet. The judge must
// exist: its name was checked when the request came in.
func (e *Engine) newExaminer(who arms, how judging, gates []muru.Gate, wake func()) *examiner {
	x := &examiner{
		gates: gates, least: max(1, how.least), clock: e.clock, host: e.host, spawn: e.spawn, wake: wake, who: who, query: e.query,
		checks: map[string]*check{},
	}
	x.ctx, x.stop = context.WithCancel(e.ctx)
	var ok bool
	if x.judge, ok = newJudge(how, who, gates, wake); !ok {
		panic("BUG: unknown judge " + how.name)
	}
	for _, g := range gates {
		switch {
		case g.Kind == muru.GateCheck || g.Kind == muru.GateQuery:
			x.checks[g.Name] = &check{gate: g}
		case g.Name == muru.GateProbe:
			x.probe = newProber(e, g, who, wake)
		}
	}
	return x
}

// begin starts a window: no gate has said anything in it yet.
func (x *examiner) begin(o opening) {
	x.mu.Lock()
	x.window++
	x.open = o
	for name, c := range x.checks {
		x.checks[name] = &check{gate: c.gate}
	}
	x.mu.Unlock()
	x.judge.Begin(o)
	if x.probe != nil {
		x.probe.begin(x.ctx, x.spawn)
	}
}

// end stops what was started, without waiting for it.
func (x *examiner) end() { x.stop() }

// tick starts the functions whose second has passed.
func (x *examiner) tick(now time.Time) {
	for _, c := range x.due(now, false) {
		x.ask(c, now, func() {})
	}
}

// refresh asks every function again and returns a channel that is closed when
// all have answered.
func (x *examiner) refresh(now time.Time) <-chan struct{} {
	var wait sync.WaitGroup
	for _, c := range x.due(now, true) {
		wait.Add(1)
		x.ask(c, now, wait.Done)
	}
	done := make(chan struct{})
	if !x.spawn(func() { wait.Wait(); close(done) }) {
		close(done)
	}
	return done
}

// due returns the functions and queries to ask now. No function is asked
// before the candidate has its minimum in this window, or in a dark one.
func (x *examiner) due(now time.Time, all bool) []*check {
	if len(x.checks) == 0 {
		return nil
	}
	_, requests := x.judge.Seen()
	x.mu.Lock()
	defer x.mu.Unlock()
	var due []*check
	for _, c := range x.checks {
		every := c.gate.Every
		if c.gate.Kind == muru.GateCheck {
			every = askEvery
			if c.gate.Check == nil || x.open.Dark || requests < x.least {
				continue // its recipe is not there, or too little happened: no data
			}
		}
		if all || c.running == 0 && now.Sub(c.asked) >= every {
			c.running++
			c.asked = now
			due = append(due, c)
		}
	}
	return due
}

// ask runs one function and keeps what it says, unless a new window has begun
// since; then calls done.
func (x *examiner) ask(c *check, now time.Time, done func()) {
	w := x.judge.Window(now)
	run := func() {
		defer done()
		ctx, cancel := context.WithCancel(x.ctx)
		defer cancel()
		passed, stopTimer := x.clock.After(c.within())
		defer stopTimer()
		answered := false // guarded by x.mu
		if !x.spawn(func() {
			select {
			case <-passed:
				cancel()
				x.overdue(c, &answered)
			case <-ctx.Done():
			}
		}) {
			return
		}
		var v muru.Verdict
		if c.gate.Kind == muru.GateQuery {
			v = x.askStore(ctx, c.gate)
		} else {
			v = askFunction(ctx, c.gate, w)
		}
		if x.ctx.Err() != nil {
			return // ended meanwhile: the answer is of no use
		}
		v.Requests, v.At = w.Candidate.Requests, x.clock.Now()
		if w.Baseline != nil {
			v.BaselineRequests = w.Baseline.Requests
		}
		x.mu.Lock()
		answered = true
		c.verdict = v
		c.running--
		x.mu.Unlock()
		x.wake()
	}
	if !x.spawn(run) {
		done()
	}
}

// within is how long an answer may take.
func (c *check) within() time.Duration {
	if c.gate.Kind == muru.GateQuery {
		return c.gate.Within
	}
	return checkTimeout
}

// askFunction calls a gate's function and words the verdict.
func askFunction(ctx context.Context, g muru.Gate, w muru.Window) muru.Verdict {
	ok, message, err := callCheck(ctx, g.Check, w)
	if err == nil && ctx.Err() != nil {
		err = noAnswer(checkTimeout)
	}
	v := muru.Verdict{Gate: g.Name, Result: muru.Pass}
	switch {
	case err != nil:
		v.Result, v.Message = muru.GateError, err.Error()
	case !ok:
		v.Result, v.Message = muru.Fail, textCheck(g.Name, message)
	}
	return v
}

// overdue files a function that has not answered in time. It may not come back
// for long: one huge operation cannot be stopped, and its print() may wait for
// who watches. What it said before must not stand meanwhile.
func (x *examiner) overdue(c *check, answered *bool) {
	x.mu.Lock()
	if !*answered {
		c.verdict = muru.Verdict{
			Gate: c.gate.Name, Result: muru.GateError, Message: noAnswer(c.within()).Error(), At: x.clock.Now(),
			Requests: c.verdict.Requests, BaselineRequests: c.verdict.BaselineRequests,
		}
	}
	x.mu.Unlock()
	x.wake()
}

// noAnswer is the error of a function that does not answer in time.
func noAnswer(limit time.Duration) *muru.Error {
	return muru.Errorf(muru.KindTimeout, "%s", textNoAnswer(limit))
}

// settled reports whether nothing that is open could still fail a gate.
func (x *examiner) settled(now time.Time) bool {
	var open inside
	open.candidate, _, _ = x.host.InFlight(x.who.Candidate)
	if !x.who.Baseline.IsZero() {
		open.baseline, _, _ = x.host.InFlight(x.who.Baseline)
	}
	return x.judge.Settled(now, open)
}

// callCheck calls a gate's function; one that panics has not answered.
func callCheck(ctx context.Context, check muru.GateCheckFunc, w muru.Window) (ok bool, message string, err error) {
	defer func() {
		if p := recover(); p != nil {
			ok, err = false, muru.Errorf(muru.KindFailed, "the function broke: %v", p)
		}
	}()
	return check(ctx, w)
}

// verdicts says what every armed gate says, in the order of the plan. In a
// dark window crashes and probe alone are armed.
func (x *examiner) verdicts(now time.Time) []muru.Verdict {
	measured := map[string]muru.Verdict{}
	for _, v := range x.judge.Verdicts(now) {
		measured[v.Gate] = v
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []muru.Verdict
	for _, g := range x.gates {
		switch {
		case g.Kind == muru.GateCheck && x.open.Dark:
		case g.Kind == muru.GateCheck || g.Kind == muru.GateQuery:
			v := x.checks[g.Name].verdict
			v.Gate = g.Name
			all = append(all, v)
		case g.Name == muru.GateProbe:
			all = append(all, x.probe.verdict(now))
		default:
			if v, ok := measured[g.Name]; ok {
				all = append(all, v)
			}
		}
	}
	return all
}

// reason says why a gate has said nothing although there were requests.
func (x *examiner) reason(gate string) string {
	for _, g := range x.gates {
		switch {
		case g.Name != gate:
		case g.Kind == muru.GateCheck && g.Check == nil:
			return "its recipe is not there"
		case g.Kind == muru.GateCheck:
			return "its function has not answered"
		case g.Kind == muru.GateQuery:
			return "its query has not answered"
		case g.Name == muru.GateProbe:
			return "its probes have not answered"
		case !g.Max.IsSet():
			return "the baseline has not shown its own yet"
		}
	}
	return ""
}

// limitsFrom gives the gates that have no limit of their own the baseline's
// (all of them, or only those that miss one), and reports whether it gave any:
// the edge must then be told.
func (x *examiner) limitsFrom(durations, queue muru.Histogram, missing bool) bool {
	given := false
	for _, g := range x.judge.Unset(missing) {
		if limit, ok := ownLimit(g.Name, durations, queue); ok {
			x.judge.SetLimit(g.Name, limit)
			given = true
		}
	}
	return given
}

// A ruling is what a set of verdicts means together.
type ruling struct {
	failed *muru.Verdict  // the first that fails
	errors []muru.Verdict // those that could not be asked
	passed bool           // every gate passes
}

func rule(all []muru.Verdict) ruling {
	r := ruling{passed: true}
	for _, v := range all {
		// A worker that dies or hangs also fails requests: it is the cause, and
		// so what is said.
		if v.Result == muru.Fail && (r.failed == nil || v.Gate == muru.GateCrashes) {
			r.failed = &v
		}
		if v.Result == muru.GateError {
			r.errors = append(r.errors, v)
		}
		r.passed = r.passed && v.Result == muru.Pass
	}
	return r
}

// result is the ruling in one word, for texts.
func (r ruling) result() muru.Result {
	switch {
	case r.failed != nil:
		return muru.Fail
	case len(r.errors) > 0:
		return muru.GateError
	case r.passed:
		return muru.Pass
	}
	return muru.NoDataYet
}
