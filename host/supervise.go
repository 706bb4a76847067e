package host

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"muru"
)

// hangUpGrace is how long a worker whose thread closed its connection may
// take to be dead: then that is a crash, otherwise it broke the protocol.
const hangUpGrace = 500 * time.Millisecond

// healthy is how long a worker must have been ready for its death to be a
// first one again.
const healthy = time.Minute

// backoffLimit is the longest wait before a worker is started again.
const backoffLimit = 10 * time.Second

// end says why a worker is ending, for its supervisor.
type end uint8

const (
	byItself end = iota // a crash, if it ends
	stopped             // we stop the release
	replaced            // it is stuck and has a replacement
	killed              // it misbehaved; a crash with our reason
)

// supervision is what only the worker's supervisor touches.
type supervision struct {
	end    end
	reason string      // of killed
	killAt *time.Timer // SIGKILL; nil when not set
	kill   <-chan time.Time
	since  time.Time // of replaced
	looked bool      // its stacks were captured
	cut    int       // requests that were in it when it was killed
}

// supervise owns the process from its start to its end: it alone signals it,
// reaps it and decides what its death means.
func (w *worker) supervise() {
	defer w.r.tasks.Done()
	limit := time.NewTimer(w.r.plan.Timeouts.Ready)
	defer limit.Stop()
	ready := w.ready
	for {
		select {
		case <-w.proc.exited:
			w.ended()
			return
		case f := <-w.orders:
			f()
		case <-ready:
			ready = nil
			limit.Stop()
		case <-limit.C:
			if !w.r.isStarting() { // then the start decides, and words it
				w.destroy("was not ready in " + muru.FormatDuration(w.r.plan.Timeouts.Ready))
			}
		case <-w.idle:
			if w.end == replaced && w.looked {
				w.killNow()
			}
		case <-w.kill:
			w.killNow()
		}
	}
}

// destroy kills a worker that cannot be used any more.
func (w *worker) destroy(reason string) {
	if w.end != byItself {
		return
	}
	w.end, w.reason = killed, reason
	w.takeOff()
	w.killNow()
}

// violated kills a worker that broke the protocol.
func (w *worker) violated(what string) { w.destroy(what) }

// hungUp looks into a connection that a thread closed in the middle of a
// request.
func (w *worker) hungUp() {
	if w.end != byItself {
		return
	}
	timer := time.NewTimer(hangUpGrace)
	defer timer.Stop()
	select {
	case <-w.proc.exited:
	case <-timer.C:
		w.destroy("broke the protocol: closed its connection in a request")
	}
}

// terminate ends the worker politely, and for sure after grace.
func (w *worker) terminate(grace time.Duration) {
	if w.end == byItself {
		w.end = stopped
	}
	w.takeOff()
	w.proc.signal(syscall.SIGTERM)
	w.killIn(grace)
}

func (w *worker) killIn(d time.Duration) {
	if w.killAt != nil {
		w.killAt.Stop()
	}
	w.killAt = time.NewTimer(d)
	w.kill = w.killAt.C
}

// killNow kills the process group. A command worker that prints its stacks on
// a signal, and is killed because it is stuck, gets that first.
func (w *worker) killNow() {
	if sig := w.r.stacksSignal; sig != 0 && w.end == replaced {
		w.proc.signal(sig)
		timer := time.NewTimer(captureTime)
		select {
		case <-w.proc.exited:
		case <-timer.C:
		}
		timer.Stop()
	}
	w.cut = max(w.cut, w.unanswered())
	w.proc.signal(syscall.SIGKILL)
}

// unanswered counts the requests in the worker that muru has not ended.
func (w *worker) unanswered() int {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	n := 0
	for _, s := range w.slots {
		if s.req != nil && s.req.cut == nil {
			n++
		}
	}
	return n
}

// takeOff makes the worker get no more requests.
func (w *worker) takeOff() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if w.state == muru.WorkerReady || w.state == muru.WorkerStarting {
		w.state = muru.WorkerDraining
	}
	w.r.dropIdle(w)
}

// ended is what the death of the process leads to.
func (w *worker) ended() {
	r := w.r
	w.takeOff()
	status := w.proc.reap()
	how := status.String()
	switch {
	case w.end == killed:
		how = w.reason
	case w.end == byItself && status.signal == syscall.SIGKILL && r.host.oomKilled(w):
		how = "out of memory"
	}
	if status.status == importFailed {
		w.hearOut()
	}
	w.cut = max(w.cut, w.unanswered())
	w.disconnect()
	r.host.followers.finish(w.out)
	_ = os.Remove(w.files.stacks) // it may never have made it
	paths := w.lastRequests()
	r.remove(w)
	r.host.givePort(w.port)
	close(w.gone)
	switch {
	case w.end == replaced:
		w.report(muru.LevelNotice, muru.WorkerGone, "worker %d (pid %d) is gone after %s, cut %d requests",
			w.number, w.proc.pid, muru.FormatMeasured(time.Since(w.since)), w.cut)
	case w.end == stopped:
	case r.isStarting() && r.startFailed(fmt.Sprintf("worker %d (pid %d) %s", w.number, w.proc.pid, w.endedEarly(how))):
	default:
		r.host.harm(r.id, muru.HarmCrash)
		r.log.say(w.number, "pid %d died: %s", w.proc.pid, how)
		r.replaceCrashed(w, how, paths)
	}
}

// importFailed is the status with which a Python worker ends after it has
// said on its control connection why it cannot serve.
const importFailed = 1

// hearOut waits, for a moment, until everything was read that a worker which
// died before it was ready had said.
func (w *worker) hearOut() {
	w.r.mu.Lock()
	early := w.r.plan.Kind == muru.Python && w.readySince.IsZero()
	w.r.mu.Unlock()
	if !early {
		return
	}
	timer := time.NewTimer(hangUpGrace)
	defer timer.Stop()
	select {
	case <-w.heard:
	case <-timer.C:
	}
}

// disconnect closes what leads to the worker.
func (w *worker) disconnect() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if w.control != nil {
		_ = w.control.Close()
	}
	if w.client != nil {
		w.client.Close()
	}
	for _, s := range w.slots {
		switch {
		case s.link == nil:
			continue
		case s.req == nil:
			_ = s.link.Close()
		default:
			// Its request reads the end of the connection: how it ended says
			// whether the worker had begun. A child that left the worker's
			// group may hold it open.
			s.link.Expire(hangUpGrace)
		}
		s.link = nil
	}
}

// replaceCrashed starts a new process in the place of w, the first time at
// once, then with a growing wait, until one starts or the release ends.
// worker.crashed names the new process if that is there at once; otherwise it
// comes first, and why it takes longer (worker.backoff) after.
func (r *release) replaceCrashed(w *worker, how string, paths []string) {
	last := "none"
	if len(paths) > 0 {
		last = strings.Join(paths, ", ")
	}
	told := false
	tell := func(by string) {
		if !told {
			told = true
			w.report(muru.LevelWarning, muru.WorkerCrashed, "worker %d (pid %d) died: %s%s; last requests: %s", w.number, w.proc.pid, how, by, last)
		}
	}
	for {
		wait := r.nextStart(w)
		if wait > 0 {
			tell("")
			w.reportBackoff(wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
			tell("")
			return
		}
		next, err := r.spawn(w.number)
		if err == nil {
			tell("; replaced by pid " + itoa(next.proc.pid))
			return
		}
		tell("")
		if r.ctx.Err() == nil {
			r.log.say(w.number, "start it again: %v", err)
			r.host.diary.Error("start a worker again", "release", r.id, "worker", w.number, "error", err)
		}
	}
}

// nextStart counts a death of w's seat and says how long to wait.
func (r *release) nextStart(w *worker) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	seat := r.seats[w.number]
	if seat.deaths == 0 || !w.readySince.IsZero() && time.Since(w.readySince) >= healthy {
		seat.deaths, seat.since = 0, time.Now()
	}
	w.readySince = time.Time{} // a start that failed is another death
	seat.deaths++
	seat.restarts++
	return backoff(seat.deaths, r.host.backoff)
}

// backoff is the wait after the nth death in a row: none, then first, then
// twice as long each time.
func backoff(deaths int, first time.Duration) time.Duration {
	if deaths < 2 {
		return 0
	}
	return min(first<<min(deaths-2, 16), backoffLimit)
}

func (w *worker) reportBackoff(wait time.Duration) {
	w.r.mu.Lock()
	deaths, since := w.r.seats[w.number].deaths, w.r.seats[w.number].since
	w.r.mu.Unlock()
	w.report(muru.LevelWarning, muru.WorkerBackoff, "worker %d died %d times in %s: next start in %s",
		w.number, deaths, muru.FormatMeasured(time.Since(since)), muru.FormatDuration(wait))
}

// remove forgets a worker that is dead.
func (r *release) remove(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.workers {
		if other == w {
			r.workers = append(r.workers[:i:i], r.workers[i+1:]...)
			return
		}
	}
}

func (r *release) isStarting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starting
}

// startFailed ends the start of the release, if it is starting; the first
// cause counts.
func (r *release) startFailed(cause string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.starting {
		return false
	}
	select {
	case r.failures <- cause:
	default:
	}
	return true
}
