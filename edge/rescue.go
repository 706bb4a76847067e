package edge

import (
	"fmt"
	"time"

	"muru"
)

// errShielded ends the passing on of an answer that the baseline gives instead.
var errShielded = fmt.Errorf("the baseline answers instead: %w", muru.ErrClientGone)

// shield reports whether the baseline is to answer instead of the candidate,
// whose answer begins with status. It is asked before anything of that has
// reached the client. What is left of the candidate's answer is dropped, and
// the client waits for that: backends read a little of it at most.
func (a *answer) shieldFrom(status int) bool {
	s := a.q.state
	if status < 500 || s == nil || !s.routing.Shield || a.q.rescuer != nil {
		return false
	}
	a.shield = a.q.whoRescues(muru.ReasonAppError)
	return a.shield != nil
}

// whoRescues returns the baseline if a request that failed in its candidate
// for reason may be tried once more there: it is safe to repeat, it was not
// asked for by name, and its worker died before a byte was sent; or the route
// is shielded, which is for every failure of a GET or HEAD.
func (q *request) whoRescues(reason muru.Reason) *target {
	if q.choice.preview || !q.x.IsSafe() || reason.Status() < 500 {
		return nil
	}
	shielded := q.state.routing.Shield && isRead(&q.x)
	if !shielded && reason != muru.ReasonWorkerCrashed {
		return nil
	}
	s := q.find()
	if s == nil || s.routing.Route.App != q.choice.release.App {
		return nil
	}
	base := s.routing.Split.Baseline()
	if base == q.choice.release {
		return nil
	}
	return s.targets[base]
}

// isRead reports whether a request is a GET or HEAD that can be sent again.
func isRead(x *muru.Exchange) bool {
	return (x.Method == "GET" || x.Method == "HEAD") && x.IsSafe()
}

// rescue has the baseline answer instead. The judge has heard of the
// candidate's failure; of this it hears nothing, however it ends.
func (q *request) rescue(base *target) {
	q.watch = nil
	q.rescuer = base
	q.choice.target.stats.rescued.Inc()
	q.answer.reset()
	again := q.x.Again()
	base.stats.inFlight.Add(1)
	out := base.backend.Do(q.ctx, again)
	base.stats.inFlight.Add(-1)

	a := &q.answer
	cause := q.cause(out.Err)
	now := time.Now()
	q.status, q.reason = a.status, muru.ReasonNone
	if cause != nil {
		q.reason, _ = muru.ReasonOf(cause)
		q.status = q.reason.Status()
		switch {
		case q.reason == muru.ReasonClientGone, a.sent:
			q.abort = true
		default:
			a.reset()
			q.writePage(q.status, q.reason, q.reason.Sentence())
		}
	}
	q.count(base, again, now)
}
