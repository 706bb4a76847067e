package host

import (
	"cmp"
	"slices"
	"time"

	"muru"
)

// stuck says what made a worker stuck.
type stuck struct {
	ran   time.Duration
	slot  *slot
	on    *onSlot
	peers []*slot // whose requests had run about as long, the longest first
}

// almost is how long, of what a stuck request has run, another one must have
// run to be named with it: which of the two passed the timeout first is chance
// then, and the other may be the cause.
const almost = 0.9

// peersOf returns the slots of a worker whose requests have run almost as long
// as the one on s. mu is held.
func (r *release) peersOf(s *slot, ran time.Duration) []*slot {
	now := time.Now()
	ages := make(map[*slot]time.Duration)
	var peers []*slot
	for _, other := range s.w.slots {
		if q := other.req; other != s && q != nil {
			if age := q.patience.ran(q.began, now); float64(age) >= almost*float64(ran) {
				ages[other] = age
				peers = append(peers, other)
			}
		}
	}
	slices.SortStableFunc(peers, func(a, b *slot) int { return cmp.Compare(ages[b], ages[a]) })
	return peers
}

// where words where the stuck request is, and the first of its peers that is
// at another line, if one is.
func (s stuck) where(stacks []muru.Stack) string {
	own := stackOf(stacks, s.slot.index)
	text := own.StuckAt()
	for _, peer := range s.peers {
		other := stackOf(stacks, peer.index)
		if len(own.Frames) > 0 && len(other.Frames) > 0 && other.Frames[0] != own.Frames[0] {
			return text + "; " + other.StuckAt()
		}
	}
	return text
}

// replaceStuck is run by the supervisor when a request ran past the hard
// timeout: the replacement starts first, then the stacks are captured and
// told, and the worker has its drain grace to finish what else is in it.
func (w *worker) replaceStuck(s stuck) {
	if w.end != byItself {
		return // it is being stopped or killed anyway
	}
	r := w.r
	w.end, w.since = replaced, time.Now()
	r.mu.Lock()
	r.seats[w.number].restarts++
	r.mu.Unlock()
	next, err := r.spawn(w.number)
	stacks := w.capture()
	w.looked = true
	w.keep(stacks, "a request has run for %s, past the hard timeout of %s; every thread:",
		muru.FormatMeasured(s.ran), muru.FormatMeasured(r.plan.Timeouts.Hard))
	by := ""
	if err == nil {
		by = "replaced by pid " + itoa(next.proc.pid)
	} else {
		by = "not replaced (" + err.Error() + ")"
		r.retrySpawn(w)
	}
	w.reportOn(s.on, muru.LevelWarning, muru.WorkerTimeoutKilled,
		"worker %d (pid %d) %s: a request has run for %s, past the hard timeout of %s; %s",
		w.number, w.proc.pid, by, muru.FormatMeasured(s.ran), muru.FormatMeasured(r.plan.Timeouts.Hard), s.where(stacks))
	r.mu.Lock()
	busy := w.busy
	r.mu.Unlock()
	if busy == 0 {
		w.killNow()
		return
	}
	w.killIn(time.Until(w.since.Add(r.plan.Timeouts.Drain)))
}

// retrySpawn goes on starting a worker in the place of w, in the background.
func (r *release) retrySpawn(w *worker) {
	r.tasks.Add(1)
	go func() {
		defer r.tasks.Done()
		for {
			wait := max(r.nextStart(w), r.host.backoff)
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-r.ctx.Done():
				timer.Stop()
				return
			}
			if _, err := r.spawn(w.number); err == nil {
				return
			}
		}
	}()
}

// reportSlow is run by the supervisor when a request ran past the soft
// timeout.
func (w *worker) reportSlow(ran time.Duration, at *slot, on *onSlot) {
	if w.end != byItself {
		return
	}
	where := stackOf(w.capture(), at.index).StuckAt()
	w.reportOn(on, muru.LevelWarning, muru.WorkerSlow, "worker %d (pid %d): a request has run for %s, past the soft timeout of %s; %s",
		w.number, w.proc.pid, muru.FormatMeasured(ran), muru.FormatMeasured(w.r.plan.Timeouts.Soft), where)
}

// stackOf returns the stack of a slot's thread, an empty one if it is not known.
func stackOf(stacks []muru.Stack, thread int) muru.Stack {
	for _, s := range stacks {
		if s.Thread == thread {
			return s
		}
	}
	return muru.Stack{}
}

// keep writes stacks to the release's log.
func (w *worker) keep(stacks []muru.Stack, format string, args ...any) {
	w.r.log.say(w.number, format, args...)
	for _, s := range stacks {
		for _, line := range stackLines(s) {
			w.r.log.say(w.number, "%s", line)
		}
	}
}
