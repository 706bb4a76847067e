package host

import (
	"time"

	"muru"
)

// replaceStuck is run by the supervisor when a request ran past the hard
// timeout: the replacement starts first, then the stacks are captured and
// told, and the worker has its drain grace to finish what else is in it.
func (w *worker) replaceStuck(ran time.Duration, at *slot) {
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
	where := stuckAt(stacks, at.index)
	w.keep(stacks, "a request has run for %s, past the hard timeout of %s; every thread:",
		muru.FormatMeasured(ran), muru.FormatMeasured(r.plan.Timeouts.Hard))
	by := ""
	if err == nil {
		by = "replaced by pid " + itoa(next.proc.pid)
	} else {
		by = "not replaced (" + err.Error() + ")"
		r.retrySpawn(w)
	}
	w.report(muru.LevelWarning, muru.WorkerTimeoutKilled,
		"worker %d (pid %d) %s: a request has run for %s, past the hard timeout of %s; %s",
		w.number, w.proc.pid, by, muru.FormatMeasured(ran), muru.FormatMeasured(r.plan.Timeouts.Hard), where)
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
func (w *worker) reportSlow(ran time.Duration, at *slot) {
	if w.end != byItself {
		return
	}
	where := stuckAt(w.capture(), at.index)
	w.report(muru.LevelWarning, muru.WorkerSlow, "worker %d (pid %d): a request has run for %s, past the soft timeout of %s; %s",
		w.number, w.proc.pid, muru.FormatMeasured(ran), muru.FormatMeasured(w.r.plan.Timeouts.Soft), where)
}

// stuckAt words where the thread of a slot is.
func stuckAt(stacks []muru.Stack, thread int) string {
	for _, s := range stacks {
		if s.Thread == thread {
			return s.StuckAt()
		}
	}
	return muru.Stack{}.StuckAt()
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
