package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"muru"
)

// Bounds of a server. None of them is meant to be met in peace.
const (
	maxBody     = 16 << 20 // bytes of a request's body: pasted inputs have megabytes
	maxRequests = 1000     // at once, /metrics and /healthz apart
	readTimeout = 30 * time.Second
)

// Options is what a [Server] serves and how. Muru is required.
type Options struct {
	Muru    Muru
	Version string // the program's, for people

	// WriteMetrics writes /metrics in Prometheus text; nil writes nothing.
	WriteMetrics func(io.Writer)

	// Healthy is asked by /healthz; an error is the reason why not. Nil is
	// always healthy.
	Healthy func() error

	// Bug is told of panics that were caught. Nil drops them.
	Bug func(Bug)

	heartbeat   time.Duration // how often a silent stream says that it is alive; 0: 5s
	stall       time.Duration // for how long a client may read nothing; 0: 10m
	sessionIdle time.Duration // after which a session may be closed; 0: a week
	maxSessions int           // 0: 256

	lookupUser func(uid int) (name string, known bool) // nil: the system is asked
}

// A Bug is a panic that was turned into the failure of its request. People
// see the ID; the rest is for a log.
type Bug struct {
	ID    string // such as "3f9a2c1d", also in the error's text
	In    string // the request, such as "POST /v1/call"
	Value any    // what was panicked with
	Stack []byte // of the goroutine
}

// A Server serves a [Muru] over HTTP on a [Listener]. Its methods are safe
// for concurrent use.
type Server struct {
	options  Options
	group    int // of the listener
	http     *http.Server
	sessions *sessions
	slots    chan struct{} // one for each request at work

	// ctx ends, with cause ErrStopping, when the server closes.
	ctx  context.Context
	stop context.CancelCauseFunc

	names    sync.Map       // uid: name of a user that asked; a directory service may be slow
	refusing atomic.Bool    // changes are refused
	requests sync.WaitGroup // handlers at work
	close    sync.Once
	closed   chan struct{} // closed when Close has ended
	closeErr error         // read after closed
}

// NewServer returns a server of o. It starts nothing.
func NewServer(o Options) *Server {
	if o.Muru == nil {
		panic("BUG: a control server without a muru")
	}
	if o.heartbeat == 0 {
		o.heartbeat = 5 * time.Second
	}
	if o.stall == 0 {
		o.stall = 10 * time.Minute
	}
	if o.sessionIdle == 0 {
		o.sessionIdle = 7 * 24 * time.Hour
	}
	if o.maxSessions == 0 {
		o.maxSessions = 256
	}
	if o.lookupUser == nil {
		o.lookupUser = lookupUser
	}
	s := &Server{
		options:  o,
		group:    -1,
		sessions: newSessions(o.maxSessions, o.sessionIdle),
		slots:    make(chan struct{}, maxRequests),
		closed:   make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ConnContext:       s.identify,
		ReadHeaderTimeout: readTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that speak no HTTP are not our news
	}
	return s
}

// Serve takes connections from l, which it closes, until Close. It returns
// nil after Close, and otherwise what is wrong with the listener. It must be
// called once at most.
func (s *Server) Serve(l *Listener) error {
	s.group = l.group
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		<-s.closed
		return nil
	}
	return fmt.Errorf("serve the control socket: %w", err)
}

// RefuseChanges makes the server answer calls, runs and inputs with
// [ErrStopping] from now on, and /healthz that it stops. What is at work, and
// looking, goes on. It is the first thing to do when muru stops.
func (s *Server) RefuseChanges() { s.refusing.Store(true) }

// Close refuses changes, stops listening, cancels what is at work with the
// cause [ErrStopping], closes the sessions and waits for all of it, until ctx
// ends: then connections are cut and the error says what was left. Closing
// twice waits for the same end.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		defer close(s.closed)
		s.RefuseChanges()
		s.stop(ErrStopping)
		err := s.http.Shutdown(ctx)
		if err != nil {
			err = fmt.Errorf("wait for the clients of the control socket: %w", err)
		}
		// Shutdown gives up with ctx; connections must not outlive us.
		s.http.Close()
		if left := s.wait(ctx); left != nil {
			err = errors.Join(err, left)
		}
		s.closeErr = errors.Join(err, s.sessions.closeAll(ctx))
	})
	<-s.closed
	return s.closeErr
}

// wait waits for the handlers, until ctx ends.
func (s *Server) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the last handler
		s.requests.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // both were ready
		return nil
	default:
		return fmt.Errorf("calls over the control socket did not end: %w", context.Cause(ctx))
	}
}

// mayChange returns why a change is refused now, nil if it is not.
func (s *Server) mayChange() error {
	if !s.refusing.Load() {
		return nil
	}
	return stopping()
}

func stopping() error {
	e := muru.Errorf(muru.KindRefused, "muru is stopping: it takes no more calls").
		WithHint("try again when it serves again; rollouts go on then")
	e.Err = ErrStopping
	return e
}

// begin returns the context of a request's work: it ends with ErrWatcherGone
// when the client is gone, with ErrStopping when the server closes, and when
// end is called. It knows who asks.
func (s *Server) begin(r *http.Request) (ctx context.Context, end context.CancelCauseFunc) {
	// The request's own context would end with a cause that says nothing.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	ctx = WithCaller(ctx, identityOf(r.Context()).by)
	gone := context.AfterFunc(r.Context(), func() { cancel(ErrWatcherGone) })
	stopped := context.AfterFunc(s.ctx, func() { cancel(ErrStopping) })
	return ctx, func(cause error) {
		gone()
		stopped()
		cancel(cause)
	}
}
