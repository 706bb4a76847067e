package control

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// A stream is an answer that is said line by line. Its head is sent with the
// first line, so an answer that is an error only has the error's status. It
// is safe for concurrent use.
type stream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	stall     time.Duration
	heartbeat time.Duration
	cancel    context.CancelCauseFunc // of the work that talks

	mu     sync.Mutex // guards what follows, and the order of lines
	begun  bool
	quiet  bool  // nothing was said since the last heartbeat
	broken bool  // the client is gone
	closed bool  // the last line was said
	failed error // what could not be said
}

func (s *Server) newStream(w http.ResponseWriter, cancel context.CancelCauseFunc) *stream {
	return &stream{
		w: w, rc: http.NewResponseController(w), cancel: cancel,
		stall: s.options.stall, heartbeat: s.options.heartbeat,
	}
}

// say sends a line. A line that cannot be sent ends the work.
func (t *stream) say(l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken || t.closed || t.failed != nil {
		return
	}
	text, err := l.encode()
	if err != nil {
		t.failed = err
		t.cancel(err)
		return
	}
	t.quiet = false
	t.write(http.StatusOK, text)
}

// write sends text. t.mu is held.
func (t *stream) write(status int, text []byte) {
	// A failure to set the deadline shows in the write.
	_ = t.rc.SetWriteDeadline(time.Now().Add(t.stall))
	if !t.begun {
		t.begun = true
		t.w.Header().Set("Content-Type", "application/x-ndjson")
		t.w.WriteHeader(status)
	}
	_, err := t.w.Write(text)
	if err == nil {
		err = t.rc.Flush()
	}
	if err != nil {
		t.broken = true
		t.cancel(ErrWatcherGone)
	}
}

// end says how the work ended; it is the last line.
func (t *stream) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken || t.closed {
		return
	}
	t.closed = true
	if t.failed != nil {
		err = t.failed
	}
	last, code := line{Kind: kindEnd}, http.StatusOK
	if err != nil {
		last, code = line{Kind: kindError, Error: toWire(err)}, status(err)
	}
	text, err := last.encode()
	if err != nil { // only a text of many megabytes
		text, _ = line{Kind: kindError, Error: toWire(err)}.encode()
	}
	t.write(code, text)
}

// beat says that both sides are there when nothing else was said for a while,
// until ctx ends. A client that is gone without having closed its connection
// is noticed by it.
func (t *stream) beat(ctx context.Context) {
	tick := time.NewTicker(t.heartbeat)
	defer tick.Stop()
	alive, _ := line{Kind: kindAlive}.encode()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		t.mu.Lock()
		if t.quiet && !t.broken && !t.closed && t.failed == nil {
			t.write(http.StatusOK, alive)
		}
		t.quiet = true
		t.mu.Unlock()
	}
}

// stream makes a handler of work that talks. The work must have ended, with
// every goroutine that calls say, when it returns.
func (s *Server) stream(work func(ctx context.Context, r *http.Request, say func(line)) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, end := s.begin(r)
		t := s.newStream(w, end)
		beating, still := context.WithCancel(context.WithoutCancel(ctx))
		var beat sync.WaitGroup
		beat.Go(func() { t.beat(beating) })
		err := s.caught(r, func() error { return work(ctx, r, t.say) })
		still()
		beat.Wait()
		t.end(worded(ctx, err))
		end(nil)
	}
}

// caught calls work and turns a panic into its error.
func (s *Server) caught(r *http.Request, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.bug(r, p)
		}
	}()
	return work()
}
