package host

import (
	"time"

	"muru"
)

// arm starts q's timers, one AfterFunc for each timeout that is on. mu is
// held.
func (r *release) arm(q *request) {
	if d := r.plan.Timeouts.Hard; d > 0 {
		q.hard = time.AfterFunc(d, func() { r.overHard(q) })
	}
	if d := r.plan.Timeouts.Soft; d > 0 && q.slot != nil && q.slot.w != nil {
		q.soft = time.AfterFunc(d, func() { r.overSoft(q) })
	}
}

// disarm stops them. mu is held.
func (r *release) disarm(q *request) {
	if q.hard != nil {
		q.hard.Stop()
		q.hard = nil
	}
	if q.soft != nil {
		q.soft.Stop()
		q.soft = nil
	}
}

// running reports whether q has really run for limit, without the time it was
// blocked on its client; otherwise timer is set for the rest. mu is held.
func running(q *request, timer *time.Timer, limit time.Duration) (ran time.Duration, over bool) {
	if timer == nil || q.cut != nil {
		return 0, false
	}
	ran = q.patience.ran(q.began, time.Now())
	if ran >= limit {
		return ran, true
	}
	timer.Reset(max(limit-ran, time.Millisecond))
	return ran, false
}

// overHard is called when q's hard timeout has passed. The client gets its
// 504 at once; the first such request of a worker counts against the release
// and has the worker replaced.
func (r *release) overHard(q *request) {
	r.mu.Lock()
	ran, over := running(q, q.hard, r.plan.Timeouts.Hard)
	if !over {
		r.mu.Unlock()
		return
	}
	r.disarm(q)
	s := q.slot
	if s == nil || s.w == nil {
		r.mu.Unlock()
		r.host.harm(r.id, muru.HarmTimeout)
		r.cutOn(q, s)
		return
	}
	w := s.w
	s.stuck = s.now()
	first := w.state == muru.WorkerReady
	why := stuck{ran: ran, slot: s, on: s.stuck}
	if first {
		why.peers = r.peersOf(s, ran)
		w.state = muru.WorkerStuck
		r.dropIdle(w)
	}
	r.mu.Unlock()
	if first {
		r.host.harm(r.id, muru.HarmTimeout)
		w.order(func() { w.replaceStuck(why) })
	}
	r.cutOn(q, s)
}

// cutOn cuts a request that is past its hard timeout on s, unless it was
// answered this very moment.
func (r *release) cutOn(q *request, s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.slot == s {
		r.cutLocked(q, muru.ErrHardTimeout)
	}
}

// overSoft is called when q's soft timeout has passed: worker.slow says where
// it is, once.
func (r *release) overSoft(q *request) {
	r.mu.Lock()
	ran, over := running(q, q.soft, r.plan.Timeouts.Soft)
	s := q.slot
	if !over || s == nil || s.w == nil {
		r.mu.Unlock()
		return
	}
	q.soft = nil
	on := s.now()
	r.mu.Unlock()
	s.w.order(func() { s.w.reportSlow(ran, s, on) })
}

// dropIdle takes a worker's slots off the idle ones. mu is held.
func (r *release) dropIdle(w *worker) {
	kept := r.idle[:0]
	for _, s := range r.idle {
		if s.w != w {
			kept = append(kept, s)
		}
	}
	clear(r.idle[len(kept):])
	r.idle = kept
}
