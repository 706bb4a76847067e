package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
	script "muru/starlark"
)

// A session is one person's REPL session in this muru. Its methods are safe
// for concurrent use; one input runs at a time. Functions that it handed to a
// rollout's gates work on after its end, which leaves the rollouts as they
// are and ends the traffic it started.
type session struct {
	runner   *Runner
	talk     talk
	set      *builtins.Set
	script   *script.Session
	recorder builtins.Recorder

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	inputs sync.WaitGroup // that run

	mu       sync.Mutex // guards what follows
	ended    bool
	rollouts []int // it started
}

var _ control.Session = (*session)(nil)

// OpenSession starts a session.
func (r *Runner) OpenSession(ctx context.Context, q control.SessionRequest) (control.Session, error) {
	dir, err := callerDir(q.Dir)
	if err != nil {
		return nil, err
	}
	s := &session{runner: r}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	env := r.env(&s.talk, dir, callerName(ctx))
	env.Engine, env.Recorder = noting{r.o.Engine, s}, &s.recorder
	s.set = builtins.New(env)
	s.script = r.runtime(s.set, &s.talk, dir).NewSession()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		s.cancel(nil)
		return nil, stopping()
	}
	r.sessions[s] = true
	return s, nil
}

// noting is the engine for a session, which notes the rollouts it starts.
type noting struct {
	*rollout.Engine
	s *session
}

// Canary notes the rollout.
func (n noting) Canary(ctx context.Context, q rollout.CanaryRequest) (muru.Rollout, rollout.Report, error) {
	r, report, err := n.Engine.Canary(ctx, q)
	n.note(r, err)
	return r, report, err
}

// Retry notes the rollout.
func (n noting) Retry(ctx context.Context, q rollout.RetryRequest) (muru.Rollout, rollout.Report, error) {
	r, report, err := n.Engine.Retry(ctx, q)
	n.note(r, err)
	return r, report, err
}

func (n noting) note(r muru.Rollout, err error) {
	if err != nil {
		return
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.rollouts = append(n.s.rollouts, r.Number)
}

// Eval evaluates one block.
func (s *session) Eval(ctx context.Context, source string, out func(control.Message)) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return control.ErrSessionGone
	}
	s.inputs.Add(1)
	s.mu.Unlock()
	defer s.inputs.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	if strings.TrimSpace(source) == control.SavedInput {
		return s.saved(out)
	}
	return s.script.EvalWith(ctx, source, func() func() {
		s.talk.begin(out)
		return s.talk.end
	}, s.talk.value)
}

// saved shows the recipe of what the session did.
func (s *session) saved(out func(control.Message)) error {
	source := s.recorder.Source()
	if source == "" {
		return muru.Errorf(muru.KindRefused, "there is nothing to save: no call of this session has changed anything")
	}
	encoded, err := builtins.JSON(starlark.String(source))
	if err != nil {
		return fmt.Errorf("encode the recipe: %w", err)
	}
	out(control.Message{Kind: control.KindValue, Text: strings.TrimSuffix(source, "\n"), Value: encoded})
	return nil
}

// Incomplete reports whether a block goes on.
func (s *session) Incomplete(_ context.Context, source string) (bool, error) {
	return script.Incomplete(source), nil
}

// Complete completes a line from the names of the session and what the engine
// has published. It waits for nothing.
func (s *session) Complete(_ context.Context, line string, pos int) (head string, candidates []string, tail string, err error) {
	scope := builtins.Scope{Variables: s.script.Names(), Lookup: s.immutable, Live: s.live()}
	head, candidates, tail = builtins.Complete(line, pos, scope)
	return head, candidates, tail, nil
}

// immutable returns the value of a variable if it can be looked into while an
// input runs.
func (s *session) immutable(name string) starlark.Value {
	switch v := s.script.Lookup(name).(type) {
	case *builtins.Record, builtins.Duration, builtins.Time, starlark.String:
		return v
	}
	return nil
}

// live are the names there are. The engine publishes them, so this reads
// memory and asks nobody.
func (s *session) live() builtins.Live {
	var live builtins.Live
	for _, a := range s.runner.o.Engine.Apps() {
		live.Apps = append(live.Apps, a.Name)
	}
	releases, err := s.runner.o.Engine.Releases("")
	if err != nil {
		return live
	}
	for _, r := range releases {
		if r.State != muru.Stopped && r.State != muru.FailedToStart {
			live.Releases = append(live.Releases, r.ID.String())
		}
	}
	return live
}

// LiveRollouts returns the live rollouts that the session started.
func (s *session) LiveRollouts(context.Context) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []int
	for _, n := range s.rollouts {
		if r, err := s.runner.o.Engine.Rollout(n); err == nil && r.Live() {
			live = append(live, n)
		}
	}
	s.rollouts = live
	return append([]int(nil), live...), nil
}

// errSessionClosed is the cause of the end of an input whose session was
// closed.
var errSessionClosed = errors.New("the session was closed")

// Close ends the session; an input that runs is cancelled.
func (s *session) Close(ctx context.Context) error { return s.end(ctx, errSessionClosed) }

// end ends the session for a reason and waits for what it ran, or for ctx.
func (s *session) end(ctx context.Context, cause error) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel(cause)
	s.runner.mu.Lock()
	delete(s.runner.sessions, s)
	s.runner.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.inputs.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("wait for the input of a session: %w", context.Cause(ctx))
	}
	return s.set.Close(ctx)
}
