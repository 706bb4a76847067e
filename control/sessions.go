package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"muru"
)

const (
	evalWait   = 10 * time.Second // for the input before, which was interrupted
	crowdIdle  = time.Hour        // a session idle for so long may be closed for a new one
	sweepLimit = 5 * time.Second  // for asking a session for its rollouts, and closing it
)

// sessions is the server's table of REPL sessions. A session belongs to the
// user who opened it. It outlives its client, whose terminal may have been
// closed while a rollout asks the session's functions; so what nobody closes
// is closed when it was idle for long and has no live rollout.
type sessions struct {
	max  int
	idle time.Duration
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	byID    map[string]*session
	opening int // that have a place and are not in byID yet
}

// A session is one session of the table.
type session struct {
	Session
	id    string
	owner int
	eval  chan struct{} // holds one token while an input is evaluated

	used time.Time // guarded by sessions.mu
	busy int       // requests at work, guarded by sessions.mu
}

func newSessions(max int, idle time.Duration) *sessions {
	return &sessions{max: max, idle: idle, now: time.Now, byID: map[string]*session{}}
}

// add takes a new session in, at the place that makeRoom gave.
func (t *sessions) add(s Session, owner int) string {
	added := &session{Session: s, id: rand.Text(), owner: owner, eval: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	added.used = t.now()
	t.opening--
	t.byID[added.id] = added
	return added.id
}

// giveBack gives back the place of a session that was not opened.
func (t *sessions) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening--
}

// use returns a session of owner for one request; done must be called after.
func (t *sessions) use(id string, owner int) (s *session, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s = t.byID[id]
	// Another's session is as good as none: its number says nothing.
	if s == nil || s.owner != owner {
		return nil, nil, sessionGone()
	}
	s.busy++
	s.used = t.now()
	return s, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.busy--
		s.used = t.now()
	}, nil
}

func sessionGone() error {
	e := muru.Errorf(muru.KindNotFound, "this session is gone, and its names with it: muru was started again, or the session was idle for long").
		WithHint("start a new one: muru repl")
	e.Err = ErrSessionGone
	return e
}

// remove takes a session of owner out and returns it, nil if there is none.
func (t *sessions) remove(id string, owner int) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil || s.owner != owner {
		return nil
	}
	delete(t.byID, id)
	return s
}

// makeRoom gives a place to a session that is about to be opened: the caller
// adds it, or gives the place back. It closes sessions that were idle for too
// long, and if the table is full then the one that was idle longest, for an
// hour at least. The error says that it is still full.
func (t *sessions) makeRoom(ctx context.Context) error {
	for _, s := range t.candidates() {
		if !t.full() && t.now().Sub(t.lastUsed(s)) < t.idle {
			continue
		}
		live, err := liveRolloutsOf(ctx, s)
		if err != nil || len(live) > 0 {
			continue // it cannot say, or its functions may be asked yet
		}
		if t.takeIdle(s) {
			ctx, cancel := context.WithTimeout(ctx, sweepLimit)
			_ = s.Close(ctx) // of a client that is long gone: nobody to tell
			cancel()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID)+t.opening >= t.max {
		return muru.Errorf(muru.KindRefused, "%d sessions are open already", t.max).
			WithHint("end some: Ctrl-D in them, or wait an hour for those that nobody uses")
	}
	t.opening++
	return nil
}

func liveRolloutsOf(ctx context.Context, s *session) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	return s.LiveRollouts(ctx)
}

// candidates returns the sessions that were idle for an hour, longest first.
func (t *sessions) candidates() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*session
	for _, s := range t.byID {
		if s.busy == 0 && t.now().Sub(s.used) >= min(crowdIdle, t.idle) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *session) int { return a.used.Compare(b.used) })
	return found
}

func (t *sessions) lastUsed(s *session) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.used
}

func (t *sessions) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)+t.opening >= t.max
}

// takeIdle takes s out unless somebody came to use it.
func (t *sessions) takeIdle(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.busy > 0 || t.byID[s.id] != s || t.now().Sub(s.used) < min(crowdIdle, t.idle) {
		return false
	}
	delete(t.byID, s.id)
	return true
}

// closeAll closes every session.
func (t *sessions) closeAll(ctx context.Context) error {
	t.mu.Lock()
	all := t.byID
	t.byID = map[string]*session{}
	t.mu.Unlock()
	var failed error
	for _, s := range all {
		if err := s.Close(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("close a session: %w", err))
		}
	}
	return failed
}

// withSession calls do with the session that a request names.
func (s *Server) withSession(r *http.Request, do func(*session) error) error {
	found, done, err := s.sessions.use(mux.Vars(r)["id"], identityOf(r.Context()).uid)
	if err != nil {
		return err
	}
	defer done()
	return do(found)
}

func (s *Server) openSession(ctx context.Context, r *http.Request) (any, error) {
	var q SessionRequest
	if err := s.take(r, &q); err != nil {
		return nil, err
	}
	if err := checkDir(q.Dir); err != nil {
		return nil, err
	}
	if err := s.sessions.makeRoom(ctx); err != nil {
		return nil, err
	}
	added := false
	defer func() { // also if opening it panics
		if !added {
			s.sessions.giveBack()
		}
	}()
	opened, err := s.options.Muru.OpenSession(ctx, q)
	if err != nil {
		return nil, err
	}
	added = true
	return openedSession{s.sessions.add(opened, identityOf(r.Context()).uid)}, nil
}

func (s *Server) closeSession(ctx context.Context, r *http.Request) (any, error) {
	found := s.sessions.remove(mux.Vars(r)["id"], identityOf(r.Context()).uid)
	if found == nil {
		return struct{}{}, nil
	}
	return struct{}{}, found.Close(ctx)
}

func (s *Server) eval(ctx context.Context, r *http.Request, say func(line)) error {
	var q sessionSource
	if err := s.take(r, &q); err != nil {
		return err
	}
	return s.withSession(r, func(found *session) error {
		// The input before may be on its way out: its client interrupted it.
		wait := time.NewTimer(evalWait)
		defer wait.Stop()
		select {
		case found.eval <- struct{}{}:
			defer func() { <-found.eval }()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
			return muru.Errorf(muru.KindRefused, "this session still works on the input before").
				WithHint("wait for it, or start another session: muru repl")
		}
		return found.Eval(ctx, q.Source, func(m Message) { say(lineOf(m)) })
	})
}

func (s *Server) incomplete(ctx context.Context, r *http.Request) (any, error) {
	var q sessionSource
	if err := read(r, &q); err != nil {
		return nil, err
	}
	var a incompleteAnswer
	err := s.withSession(r, func(found *session) (err error) {
		a.Incomplete, err = found.Incomplete(ctx, q.Source)
		return err
	})
	return a, err
}

func (s *Server) complete(ctx context.Context, r *http.Request) (any, error) {
	var q completeRequest
	if err := read(r, &q); err != nil {
		return nil, err
	}
	if q.Pos < 0 || q.Pos > len(q.Line) {
		return nil, muru.Errorf(muru.KindUsage, "pos: %d is not in the line", q.Pos)
	}
	var a completeAnswer
	err := s.withSession(r, func(found *session) (err error) {
		a.Head, a.Candidates, a.Tail, err = found.Complete(ctx, q.Line, q.Pos)
		a.Candidates = list(a.Candidates)
		return err
	})
	return a, err
}

func (s *Server) liveRollouts(ctx context.Context, r *http.Request) (any, error) {
	var a rolloutsAnswer
	err := s.withSession(r, func(found *session) error {
		live, err := found.LiveRollouts(ctx)
		a.Rollouts = list(live)
		return err
	})
	return a, err
}
