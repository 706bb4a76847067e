package host

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"muru"
	"muru/host/upstream"
	"muru/host/wire"
)

// How often a command worker is asked whether it listens.
const (
	askFirst = 10 * time.Millisecond
	askLast  = 200 * time.Millisecond
)

// attach takes a connection that a process of ours made. It reports whether
// the connection is wanted; if so it owns it.
func (r *release) attach(hello wire.Hello, conn net.Conn) bool {
	w := r.workerWith(hello)
	if w == nil {
		return false
	}
	select {
	case <-w.launched: // it may be faster than we are
	case <-w.gone:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state == muru.WorkerStuck || !slices.Contains(r.workers, w) {
		return false
	}
	if hello.Thread == wire.ControlThread {
		first := w.control == nil
		if !first {
			_ = w.control.Close()
		}
		control := wire.NewControl(hello, conn)
		w.control = control
		r.tasks.Add(1)
		go w.serveControl(control, first)
		return true
	}
	if hello.Thread >= len(w.slots) || w.state == muru.WorkerDraining {
		return false
	}
	s := w.slots[hello.Thread]
	if s.link != nil {
		// The thread has given its old connection up; a request on it fails.
		_ = s.link.Close()
	}
	s.link, s.ident = wire.NewLink(hello, conn), hello.Ident
	r.tasks.Add(1)
	go func() {
		defer r.tasks.Done()
		w.connected(s)
	}()
	return true
}

// workerWith finds the process that was given the hello's token.
func (r *release) workerWith(hello wire.Hello) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w.number == hello.Worker && subtle.ConstantTimeCompare([]byte(w.token), []byte(hello.Token)) == 1 {
			return w
		}
	}
	return nil
}

// connected is called when a thread has connected, for the first time or
// again.
func (w *worker) connected(s *slot) {
	r := w.r
	r.mu.Lock()
	ready := w.imported && w.state == muru.WorkerStarting && w.allConnected()
	var next *request
	if w.state == muru.WorkerReady && s.req == nil && !r.isIdle(s) {
		next, s = r.offer(s)
	}
	r.mu.Unlock()
	hand(next, s)
	if ready {
		w.becomeReady()
	}
}

// isIdle reports whether s waits for a request already. mu is held.
func (r *release) isIdle(s *slot) bool {
	for _, other := range r.idle {
		if other == s {
			return true
		}
	}
	return false
}

func (w *worker) allConnected() bool {
	for _, s := range w.slots {
		if s.link == nil {
			return false
		}
	}
	return true
}

// serveControl reads what the worker says of itself.
func (w *worker) serveControl(control *wire.Control, first bool) {
	defer w.r.tasks.Done()
	if first {
		defer close(w.heard)
	}
	err := control.Serve(func(report wire.Report) {
		if report.Failed != "" {
			w.r.mu.Lock()
			if w.importError == "" {
				w.importError = report.Failed
			}
			w.r.mu.Unlock()
			return
		}
		w.r.mu.Lock()
		w.imported = w.imported || report.Ready
		ready := w.imported && w.allConnected()
		w.r.mu.Unlock()
		if ready {
			w.becomeReady()
		}
	})
	_ = control.Close()
	if broke, ok := errors.AsType[*wire.ProtocolError](err); ok {
		w.order(func() { w.violated(broke.Error()) })
	}
}

// endedEarly words the end of a worker that was not ready yet.
func (w *worker) endedEarly(how string) string {
	w.r.mu.Lock()
	importError := w.importError
	ready := !w.readySince.IsZero()
	w.r.mu.Unlock()
	switch {
	case importError != "":
		return fmt.Sprintf("cannot load %s: %s", w.r.plan.Entry, importError)
	case w.r.plan.Kind == muru.Command && w.portTaken():
		return fmt.Sprintf("ended before it listened: %s; its port %d was taken by another program", how, w.port)
	case ready:
		return "died as soon as it was ready: " + how
	case w.r.plan.Kind == muru.Command:
		return "ended before it listened: " + how
	default:
		return "ended before it was ready: " + how
	}
}

// portTaken reports whether somebody else listens on the port that the dead
// worker was given.
func (w *worker) portTaken() bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}

// notReady words why the worker is not ready after limit.
func (w *worker) notReady(limit time.Duration) string {
	who := fmt.Sprintf("worker %d (pid %d) is not ready after %s", w.number, w.proc.pid, muru.FormatDuration(limit))
	if w.r.plan.Kind == muru.Command {
		w.r.mu.Lock()
		answer := w.refusal
		w.r.mu.Unlock()
		if answer != "" {
			return fmt.Sprintf("%s: %s", who, answer)
		}
		return fmt.Sprintf("%s: it listens neither on $PORT (%d) nor on $MURU_SOCKET", who, w.port)
	}
	w.r.mu.Lock()
	imported := w.imported
	w.r.mu.Unlock()
	if imported {
		return who + ": not all of its threads are connected"
	}
	if where := w.whereItHangs(context.Background()); where != "" {
		return fmt.Sprintf("%s: loading %s hangs %s", who, w.r.plan.Entry, where)
	}
	return fmt.Sprintf("%s: it is still loading %s", who, w.r.plan.Entry)
}

// awaitListening asks a command worker until it is ready or gone.
func (w *worker) awaitListening() {
	defer w.r.tasks.Done()
	wait := askFirst
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-w.gone:
			return
		case <-timer.C:
		}
		client, refusal := w.listening()
		if client != nil {
			refusal = askReady(w.r.ctx, client, w.r.plan)
		}
		w.r.mu.Lock()
		w.refusal = refusal
		if client != nil && refusal == "" && w.state == muru.WorkerStarting {
			w.client = client
			w.r.mu.Unlock()
			w.becomeReady()
			return
		}
		w.r.mu.Unlock()
		if client != nil {
			client.Close()
		}
		wait = min(wait*2, askLast)
		timer.Reset(wait)
	}
}

// listening returns a client of the worker once it accepts connections;
// refusal says why what does is not the worker.
func (w *worker) listening() (client *upstream.Client, refusal string) {
	for _, at := range [][2]string{
		{"tcp", fmt.Sprintf("127.0.0.1:%d", w.port)},
		{"tcp", fmt.Sprintf("[::1]:%d", w.port)},
		{"unix", w.files.socket},
	} {
		if at[0] == "unix" {
			if _, err := os.Stat(at[1]); err != nil {
				continue
			}
		}
		conn, err := net.DialTimeout(at[0], at[1], time.Second)
		if err != nil {
			continue
		}
		_ = conn.Close()
		if at[0] == "tcp" {
			if other := w.stranger(); other != 0 {
				refusal = fmt.Sprintf("its port %d was taken by another program (pid %d) before it listened", w.port, other)
				continue
			}
		}
		return clientOf(at[0], at[1]), ""
	}
	return nil, refusal
}

// askReady requests the path that says whether a server is ready; it returns
// why not, or nothing.
func askReady(ctx context.Context, client *upstream.Client, plan muru.ReleasePlan) string {
	if plan.Ready == "" {
		return ""
	}
	ctx, cancel := context.WithTimeoutCause(ctx, plan.Timeouts.Ready, errNotReady)
	defer cancel()
	path := plan.Ready
	answer := &readiness{}
	err := client.Do(ctx, &muru.Exchange{
		Method: "GET", Target: path, Path: path, Proto: "HTTP/1.1", Scheme: "http", Host: "localhost",
		Header: []muru.Field{{Name: "User-Agent", Value: "muru"}}, Answer: answer, Arrived: time.Now(),
	}, upstream.Hooks{})
	switch {
	case err != nil && answer.status == 0:
		return fmt.Sprintf("%s: %v", path, err)
	case answer.status >= 400:
		return fmt.Sprintf("%s answered %d", path, answer.status)
	}
	return ""
}

// silence is how long the wait for an external server goes without a word.
const silence = time.Second

// startExternal waits until an external server can be connected to and is
// ready. A server that refuses connections may be about to listen, so that is
// no reason to give up early; the daemon's log says what is waited for.
func (r *release) startExternal(ctx context.Context) error {
	wait, began, said, cause := askFirst, time.Now(), "", ""
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", r.plan.Upstream)
		switch {
		case err == nil:
			_ = conn.Close()
			cause = askReady(ctx, r.external, r.plan)
		case ctx.Err() == nil || cause == "": // else what it said before is the cause, and not that time is up
			cause = dialProblem(err)
		}
		if cause == "" {
			r.mu.Lock()
			r.starting = false
			r.mu.Unlock()
			return nil
		}
		if time.Since(began) > silence && cause != said {
			said = cause
			r.host.diary.Warn("wait for an external server", "release", r.id, "upstream", r.plan.Upstream,
				"at most", muru.FormatDuration(r.plan.Timeouts.Ready), "cause", cause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if why := context.Cause(ctx); why != errNotReady {
				return why
			}
			return fmt.Errorf("%s is not ready after %s: %s", r.plan.Upstream, muru.FormatDuration(r.plan.Timeouts.Ready), cause)
		}
		wait = min(wait*2, askLast)
	}
}

// dialProblem words a failed connection without the names of Go's layers.
func dialProblem(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "there is no host " + e.Name
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// downSaidEvery is how often the log says that an external server does not
// answer: each request that it fails would push everything else out of it.
const downSaidEvery = 10 * time.Second

// externalDown counts a request that an external server did not answer.
func (r *release) externalDown(err error) {
	now := time.Now()
	r.mu.Lock()
	r.down = errors.Is(err, upstream.ErrConnect)
	r.downUnsaid++
	failed := r.downUnsaid
	say := now.Sub(r.downSaid) >= downSaidEvery
	if say {
		r.downSaid, r.downUnsaid = now, 0
	}
	r.mu.Unlock()
	r.host.harm(r.id, muru.HarmCrash)
	if say {
		r.host.diary.Warn("external server", "release", r.id, "upstream", r.plan.Upstream, "requests", failed, "error", err)
	}
}

// externalUp notes that the external server answered.
func (r *release) externalUp() {
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
}

// readiness is the answer to the ready path: only its status counts.
type readiness struct{ status int }

func (a *readiness) Inform(int, []muru.Field) error { return nil }

func (a *readiness) Head(status int, _ []muru.Field, _ int64) error {
	a.status = status
	return muru.ErrClientGone // the body, which may be a stream without end, is not waited for
}

func (a *readiness) Write(p []byte) (int, error) { return len(p), nil }
func (a *readiness) Flush() error                { return nil }
func (a *readiness) Trailer([]muru.Field) error  { return nil }

func (a *readiness) Upgrade(int, []muru.Field) (io.ReadWriteCloser, error) {
	return nil, muru.ErrClientGone // it did not ask for one
}
