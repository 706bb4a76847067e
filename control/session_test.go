package control_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func opens(s func() control.Session) *controltest.Muru {
	return &controltest.Muru{OnOpenSession: func(context.Context, control.SessionRequest) (control.Session, error) {
		return s(), nil
	}}
}

func TestSessionAnswersAllThatAREPLAsks(t *testing.T) {
	var request control.SessionRequest
	closed := 0
	fake := &controltest.Session{
		OnEval: func(ctx context.Context, source string, out func(control.Message)) error {
			out(control.Message{Kind: control.KindValue, Text: strings.ToUpper(source)})
			return nil
		},
		OnIncomplete: func(ctx context.Context, source string) (bool, error) { return strings.HasSuffix(source, "("), nil },
		OnComplete: func(ctx context.Context, line string, pos int) (string, []string, string, error) {
			return line[:pos], []string{"shop@r6", "shop@r7"}, line[pos:], nil
		},
		OnLiveRollouts: func(ctx context.Context) ([]int, error) { return []int{7}, nil },
		OnClose:        func(ctx context.Context) error { closed++; return nil },
	}
	w := serve(t, &controltest.Muru{OnOpenSession: func(ctx context.Context, q control.SessionRequest) (control.Session, error) {
		request = q
		return fake, nil
	}})
	ctx := deadline(t)
	s, err := w.OpenSession(ctx, control.SessionRequest{Dir: "/srv"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(control.SessionRequest{Dir: "/srv"}, request); diff != "" {
		t.Errorf("the request: %s", diff)
	}
	var heard []string
	if err := s.Eval(ctx, "status", func(m control.Message) { heard = append(heard, m.Text) }); err != nil || heard[0] != "STATUS" {
		t.Errorf("Eval: %v, heard %q", err, heard)
	}
	for source, want := range map[string]bool{"f(": true, "f()": false} {
		if got, err := s.Incomplete(ctx, source); got != want || err != nil {
			t.Errorf("Incomplete(%q): got %v, %v", source, got, err)
		}
	}
	head, candidates, tail, err := s.Complete(ctx, `canary("ü")`, 8)
	if head != `canary("` || tail != `ü")` || len(candidates) != 2 || err != nil {
		t.Errorf("Complete: got %q %q %q %v", head, candidates, tail, err)
	}
	if _, _, _, err := s.Complete(ctx, "x", 2); muru.KindOf(err) != muru.KindUsage {
		t.Errorf("Complete past the line: got %v", err)
	}
	if live, err := s.LiveRollouts(ctx); len(live) != 1 || live[0] != 7 || err != nil {
		t.Errorf("LiveRollouts: got %v, %v", live, err)
	}
	for range 2 {
		if err := s.Close(ctx); err != nil || closed != 1 {
			t.Errorf("Close: %v, closed %d times", err, closed)
		}
	}
	if err := s.Eval(ctx, "status", func(control.Message) {}); !errors.Is(err, control.ErrSessionGone) || muru.KindOf(err) != muru.KindNotFound {
		t.Errorf("Eval after Close: got %v", err)
	}
}

func TestInputWaitsForTheInterruptedOneBefore(t *testing.T) {
	working, leave, evaluating := make(chan struct{}), make(chan struct{}), atomic.Int32{}
	w := serve(t, opens(func() control.Session {
		return &controltest.Session{OnEval: func(ctx context.Context, source string, out func(control.Message)) error {
			if evaluating.Add(1) > 1 {
				t.Error("two inputs of a session at once")
			}
			defer evaluating.Add(-1)
			if source == "sleep" {
				close(working)
				<-ctx.Done()
				<-leave
			}
			return nil
		}}
	}))
	s, err := w.OpenSession(deadline(t), control.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(deadline(t))
	first := make(chan error, 1)
	go func() { first <- s.Eval(ctx, "sleep", func(control.Message) {}) }()
	receive(t, working, "the first input")
	interrupt()
	if err := receive(t, first, "the interrupted input"); !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted input: got %v", err)
	}
	second := make(chan error, 1)
	go func() { second <- s.Eval(deadline(t), "1", func(control.Message) {}) }()
	close(leave)
	if err := receive(t, second, "the second input"); err != nil {
		t.Errorf("the second input: got %v", err)
	}
}

func TestSessionsThatNobodyUsesMakeRoomUnlessTheirRolloutsLive(t *testing.T) {
	var live, closed [4]atomic.Bool
	n := 0
	w := serve(t, opens(func() control.Session {
		i := n
		n++
		return &controltest.Session{
			OnLiveRollouts: func(context.Context) ([]int, error) {
				if live[i].Load() {
					return []int{i}, nil
				}
				return nil, nil
			},
			OnClose: func(context.Context) error { closed[i].Store(true); return nil },
		}
	}), func(o *control.Options) { o.Sessions(2) })
	now := atomic.Int64{}
	w.server.SetSessionClock(func() time.Time { return time.Unix(now.Load(), 0) })
	open := func() error { _, err := w.OpenSession(deadline(t), control.SessionRequest{}); return err }
	live[0].Store(true)
	for range 2 {
		if err := open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(); muru.KindOf(err) != muru.KindRefused {
		t.Fatalf("one too many: got %v", err)
	}
	now.Add(7200)
	if err := open(); err != nil {
		t.Fatalf("after two hours: %v", err)
	}
	if closed[0].Load() || !closed[1].Load() {
		t.Errorf("closed: with a live rollout %v, idle %v", closed[0].Load(), closed[1].Load())
	}
	live[0].Store(false)
	now.Add(8 * 24 * 3600)
	if err := open(); err != nil {
		t.Fatal(err)
	}
	if !closed[0].Load() {
		t.Error("a session was kept for over a week")
	}
}

func TestCloseOfTheServerClosesItsSessions(t *testing.T) {
	closed := atomic.Int32{}
	w := serve(t, opens(func() control.Session {
		return &controltest.Session{OnClose: func(context.Context) error { closed.Add(1); return nil }}
	}))
	s, err := w.OpenSession(deadline(t), control.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.server.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	if closed.Load() != 1 {
		t.Errorf("closed %d of 1 sessions", closed.Load())
	}
	if err := s.Close(deadline(t)); err != nil {
		t.Errorf("closing a session whose server is gone: %v", err)
	}
	if err := s.Eval(deadline(t), "1", func(control.Message) {}); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("an input without a server: got %v", err)
	}
}

func TestSessionsThatAreOpenedAtOnceDoNotPassTheLimit(t *testing.T) {
	opening, open := make(chan struct{}, 10), make(chan struct{})
	var failed atomic.Bool
	w := serve(t, &controltest.Muru{OnOpenSession: func(context.Context, control.SessionRequest) (control.Session, error) {
		opening <- struct{}{}
		<-open
		if failed.Load() {
			return nil, muru.Errorf(muru.KindFailed, "not today")
		}
		return &controltest.Session{}, nil
	}}, func(o *control.Options) { o.Sessions(2) })
	ended := make(chan error, 10)
	begin := func() {
		go func() {
			_, err := w.OpenSession(deadline(t), control.SessionRequest{})
			ended <- err
		}()
	}
	begin()
	begin()
	receive(t, opening, "the first")
	receive(t, opening, "the second")
	begin()
	if err := receive(t, ended, "the third"); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("a third is opened while two are: %v", err)
	}
	failed.Store(true)
	close(open)
	for range 2 {
		if err := receive(t, ended, "those that fail"); err == nil {
			t.Error("opened")
		}
	}
	failed.Store(false) // places of those that failed are free again
	for range 2 {
		begin()
		if err := receive(t, ended, "one more"); err != nil {
			t.Error(err)
		}
	}
}
