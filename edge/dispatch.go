package edge

import (
	"errors"
	"time"

	"muru"
)

// maxPicks is how often a release is picked for one request: once more for each
// release that was taken out while it waited there, say a candidate and then
// the baseline behind it.
const maxPicks = 3

// dispatch gives the request to the release it was picked for, and ends it.
func (q *request) dispatch() {
	defer q.closeUpgrade()
	defer q.settleBody()
	defer q.endInPanic()
	out := q.do()
	for range maxPicks - 1 {
		if !errors.Is(out.Err, muru.ErrDraining) || q.answer.sent || q.answer.shield != nil || q.clientLeft() {
			break
		}
		// The release left between our look at the table and the request's
		// turn, or while it waited: the table knows a better one by now.
		if !q.pickAgain() {
			return
		}
		out = q.do()
	}
	q.finish(out)
}

// do has the chosen release answer.
func (q *request) do() muru.Outcome {
	ch := &q.choice
	judge := q.state.judge
	fact := muru.Fact{
		App: ch.release.App, Release: ch.release, Generation: q.state.routing.Generation,
		Share: ch.share, Client: ch.client, Minted: ch.alone, Arrived: q.arrived,
	}
	if ch.copied && !q.copied {
		judge = q.copy(fact)
	}
	if judge != nil && ch.randomised {
		q.watch = newWatch(judge, &q.x, &q.body.pace, fact)
	}
	ch.target.stats.inFlight.Add(1)
	defer ch.target.stats.inFlight.Add(-1)
	return ch.target.backend.Do(q.ctx, &q.x)
}

// pickAgain picks under the table as it is now. When nothing can be picked it
// answers, and returns false.
func (q *request) pickAgain() bool {
	if q.watch != nil {
		q.watch.drop()
		q.watch = nil
	}
	q.answer.reset()
	if s := q.find(); s != nil {
		q.state = s
		q.choice = s.pick(&q.client, q.id, q.arrived)
	} else {
		q.choice = choice{reason: muru.ReasonNoRoute}
	}
	if q.choice.reason != muru.ReasonNone {
		q.refuse(q.choice.reason, "")
		return false
	}
	return true
}

// finish ends a request by its outcome: everything is decided here, and
// counted once.
func (q *request) finish(out muru.Outcome) {
	a := &q.answer
	now := time.Now()
	if base := a.shield; base != nil {
		q.shielded = true
		q.end(now, a.status, muru.ReasonNone, true)
		q.rescue(base)
		return
	}
	cause := q.cause(out.Err)
	switch {
	case cause == nil:
		q.end(now, a.status, muru.ReasonNone, true)
	case isGone(cause):
		q.abort = true
		if q.inStream() {
			// Clients end streams by leaving. What they saw is the head.
			q.end(now, a.status, muru.ReasonNone, true)
			q.reason = muru.ReasonClientGone // for the log
			return
		}
		q.end(now, muru.ReasonClientGone.Status(), muru.ReasonClientGone, out.Answered || out.Err == nil)
	default:
		q.fail(now, cause)
	}
}

// isGone reports whether the client's leaving ended the request.
func isGone(cause error) bool {
	reason, _ := muru.ReasonOf(cause)
	return reason == muru.ReasonClientGone
}

// cause returns why the request has no complete answer at the client, nil if
// it has one. A client that left, or sent a broken body, explains whatever the
// backend made of it.
func (q *request) cause(err error) error {
	if q.answer.overrun || err == nil && !q.answer.complete() {
		q.edge.log.Error("BUG: a backend answered more or less than it promised", "id", q.id, "length", q.answer.length, "written", q.answer.written)
		return muru.ErrWorkerDied
	}
	switch {
	case q.answer.gone != nil && q.clientLeft(), q.answer.gone != nil && err == nil:
		return q.answer.gone
	case err == nil:
		return nil
	case q.clientLeft():
		return muru.ErrClientGone
	}
	if fault := q.body.fault(); fault != nil {
		return fault
	}
	return err
}

// inStream reports whether the client has the head of a stream or upgrade.
func (q *request) inStream() bool {
	return q.answer.sent && (q.answer.stream || q.answer.upgraded != nil)
}

// fail ends a request that its release did not answer, with the client there.
func (q *request) fail(now time.Time, cause error) {
	reason, known := muru.ReasonOf(cause)
	if !known {
		q.edge.log.Error("a request failed of an unknown cause", "id", q.id, "release", q.choice.release.String(), "error", cause)
	}
	if q.answer.sent {
		q.abort = true
		if q.inStream() && errors.Is(cause, muru.ErrDrainCut) {
			// Drains end streams. It is not the release that failed.
			q.end(now, q.answer.status, muru.ReasonNone, true)
			q.reason = reason // for the log
			return
		}
		q.end(now, reason.Status(), reason, true)
		return
	}
	if base := q.whoRescues(reason); base != nil {
		q.shielded = q.state.routing.Shield
		q.end(now, reason.Status(), reason, true)
		q.rescue(base)
		return
	}
	q.answer.reset()
	q.writePage(reason.Status(), reason, reason.Sentence())
	q.end(now, reason.Status(), reason, true)
}

// end counts the request and tells its judge.
func (q *request) end(now time.Time, status int, reason muru.Reason, answered bool) {
	q.status, q.reason, q.ended = status, reason, true
	if q.watch != nil {
		if q.answer.marks != nil || q.shielded {
			q.watch.mark(q.answer.marks, q.shielded)
		}
		q.watch.end(now, status, reason, answered)
	}
	q.count(q.choice.target, &q.x, now)
}

// count adds the request, as it was given to t in x, to t's counters.
func (q *request) count(t *target, x *muru.Exchange, now time.Time) {
	took := now.Sub(q.arrived)
	wait, _ := queueWait(x, &q.body.pace, took)
	if q.answer.headAt != 0 {
		took = q.answer.headAt
	}
	t.stats.count(q.status, q.reason, took, wait)
}

// headSent notes when the head of a stream or upgrade was there.
func (q *request) headSent(now time.Time) {
	q.answer.headAt = max(1, now.Sub(q.arrived))
	if q.watch != nil {
		q.watch.headSent(now)
	}
}

// settleBody makes sure that what is left of the body is never taken for the
// connection's next request.
func (q *request) settleBody() {
	q.body.pace.stop()
	if q.answer.upgraded == nil && !q.abort && !q.body.settle() && q.conn != nil {
		q.conn.spent.Store(true)
	}
}

// endInPanic counts a request whose backend panicked, against its release, and
// lets net/http log the panic and cut the connection.
func (q *request) endInPanic() {
	if p := recover(); p != nil {
		if !q.ended {
			q.end(time.Now(), muru.ReasonWorkerCrashed.Status(), muru.ReasonWorkerCrashed, true)
		}
		panic(p)
	}
}

// closeUpgrade closes a connection that the backend had, which net/http no
// longer does.
func (q *request) closeUpgrade() {
	if q.answer.upgraded != nil {
		q.answer.upgraded.Close()
	}
}
