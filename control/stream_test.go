package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

// working returns a Muru whose calls and inputs run until their context ends,
// and what they say about that.
func working() (m *controltest.Muru, began chan struct{}, cause chan error) {
	began, cause = make(chan struct{}, 10), make(chan error, 10)
	wait := func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}
	return &controltest.Muru{
		OnCall:      func(ctx context.Context, _ control.Call, _ func(control.Message)) error { return wait(ctx) },
		OnAttach:    func(ctx context.Context, _ int, _ func(control.Message)) error { return wait(ctx) },
		OnEvents:    func(ctx context.Context, _ control.EventRequest, _ func(muru.Event)) error { return wait(ctx) },
		OnLogs:      func(ctx context.Context, _ control.LogRequest, _ func(string)) error { return wait(ctx) },
		OnCancelRun: func(ctx context.Context, _ int) error { return wait(ctx) },
		OnOpenSession: func(context.Context, control.SessionRequest) (control.Session, error) {
			return &controltest.Session{OnEval: func(ctx context.Context, _ string, _ func(control.Message)) error { return wait(ctx) }}, nil
		},
	}, began, cause
}

// waits is everything a client can be waiting in.
func waits(t *testing.T, w *world) map[string]func(context.Context) error {
	s, err := w.OpenSession(deadline(t), control.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := func(control.Message) {}
	return map[string]func(context.Context) error{
		"call":   func(ctx context.Context) error { return w.Call(ctx, control.Call{Source: "x"}, quiet) },
		"attach": func(ctx context.Context) error { return w.Attach(ctx, 1, quiet) },
		"events": func(ctx context.Context) error { return w.Events(ctx, control.EventRequest{Follow: true}, nil) },
		"logs":   func(ctx context.Context) error { return w.Logs(ctx, control.LogRequest{Target: "shop"}, nil) },
		"cancel": func(ctx context.Context) error { return w.CancelRun(ctx, 1) },
		"eval":   func(ctx context.Context) error { return s.Eval(ctx, "x", quiet) },
	}
}

func TestEndOfTheWatchersContextEndsTheWorkWithACause(t *testing.T) {
	m, began, cause := working()
	w := serve(t, m)
	interrupted := errors.New("interrupted")
	for what, wait := range waits(t, w) {
		ctx, interrupt := context.WithCancelCause(deadline(t))
		ended := make(chan error, 1)
		go func() { ended <- wait(ctx) }()
		receive(t, began, what)
		at := time.Now()
		interrupt(interrupted)
		if err := receive(t, ended, what); !errors.Is(err, interrupted) {
			t.Errorf("%s: the client got %v", what, err)
		}
		if err := receive(t, cause, what); !errors.Is(err, control.ErrWatcherGone) {
			t.Errorf("%s: the cause is %v", what, err)
		}
		if took := time.Since(at); took > time.Second {
			t.Errorf("%s: noticed after %s", what, took)
		}
	}
}

func TestCloseEndsTheWorkAndTellsTheWatcher(t *testing.T) {
	for what := range map[string]bool{"call": true, "attach": true, "events": true, "logs": true, "cancel": true, "eval": true} {
		m, began, cause := working()
		w := serve(t, m)
		ended := make(chan error, 1)
		wait := waits(t, w)[what]
		go func() { ended <- wait(deadline(t)) }()
		receive(t, began, what)
		if err := w.server.Close(deadline(t)); err != nil {
			t.Error(err)
		}
		if err := receive(t, cause, what); !errors.Is(err, control.ErrStopping) {
			t.Errorf("%s: the cause is %v", what, err)
		}
		err := receive(t, ended, what)
		if !errors.Is(err, control.ErrStopping) || err.Error() != "muru is stopping" || muru.KindOf(err) != muru.KindCanceled {
			t.Errorf("%s: the client got %v", what, err)
		}
	}
}

func TestCloseDoesNotWaitForeverForWorkThatDoesNotEnd(t *testing.T) {
	began, leave := make(chan struct{}), make(chan struct{})
	w := serve(t, &controltest.Muru{OnCall: func(context.Context, control.Call, func(control.Message)) error {
		close(began)
		<-leave
		return nil
	}})
	ended := make(chan error, 1)
	go func() { ended <- w.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) {}) }()
	receive(t, began, "the call")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	other := control.NewServer(control.Options{Muru: &controltest.Muru{}})
	if err := other.Close(deadline(t)); err != nil {
		t.Errorf("a server that never served: %v", err)
	}
	closed := w.server.Close(ctx)
	if !errors.Is(closed, context.DeadlineExceeded) {
		t.Errorf("Close: got %v", closed)
	}
	if err := receive(t, ended, "the client"); !errors.Is(err, control.ErrDaemonGone) || muru.KindOf(err) != muru.KindInterrupted {
		t.Errorf("the client got %v", err)
	}
	close(leave)
	w.server = other // what the test's end closes
}

func TestChangesAreRefusedWhileLookingGoesOn(t *testing.T) {
	m, _, _ := working()
	m.OnState = func(context.Context) (control.State, error) { return control.State{}, nil }
	w := serve(t, m)
	s, err := w.OpenSession(deadline(t), control.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.server.RefuseChanges()
	_, started := w.StartRun(deadline(t), control.Run{File: "a.star"})
	_, opened := w.OpenSession(deadline(t), control.SessionRequest{})
	for what, err := range map[string]error{
		"a run":     started,
		"a session": opened,
		"a call":    w.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) {}),
		"an input":  s.Eval(deadline(t), "x", func(control.Message) {}),
	} {
		if !errors.Is(err, control.ErrStopping) || muru.KindOf(err) != muru.KindRefused {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := w.State(deadline(t)); err != nil {
		t.Errorf("looking: %v", err)
	}
}

func TestLongLinesAndManyOfThemArrive(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	w := serve(t, &controltest.Muru{OnCall: func(_ context.Context, c control.Call, out func(control.Message)) error {
		for range 8 {
			out(control.Message{Kind: control.KindPrint, Text: c.Source})
		}
		for i := range 20_000 {
			out(control.Message{Kind: control.KindPrint, Rollout: i})
		}
		return nil
	}})
	sizes, last := 0, 0
	err := w.Call(deadline(t), control.Call{Source: big}, func(m control.Message) {
		sizes += len(m.Text)
		last = m.Rollout
	})
	if err != nil || sizes != 8*len(big) || last != 19_999 {
		t.Errorf("got %d bytes, the last was %d: %v", sizes, last, err)
	}
}

func TestMessageOverTheLimitEndsTheCallWithASentence(t *testing.T) {
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, _ control.Call, out func(control.Message)) error {
		out(control.Message{Kind: control.KindPrint, Text: strings.Repeat("x", control.MaxLine)})
		out(control.Message{Kind: control.KindPrint, Text: "more"})
		<-ctx.Done()
		return ctx.Err()
	}})
	err := w.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) { t.Error("something was said") })
	if err == nil || !strings.Contains(err.Error(), "over the limit of 64 MiB") {
		t.Errorf("got %v", err)
	}
	err = w.Call(deadline(t), control.Call{Source: strings.Repeat("x", control.MaxBody)}, nil)
	if muru.KindOf(err) != muru.KindUsage || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("a request over the limit: got %v", err)
	}
}

func TestWatcherThatReadsNothingIsTakenForGone(t *testing.T) {
	cause := make(chan error, 1)
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, _ control.Call, out func(control.Message)) error {
		for ctx.Err() == nil {
			out(control.Message{Kind: control.KindPrint, Text: strings.Repeat("x", 64<<10)})
		}
		cause <- context.Cause(ctx)
		return ctx.Err()
	}}, func(o *control.Options) { o.Timing(time.Hour, 100*time.Millisecond) })
	conn := send(t, w, "POST /v1/call", `{"source":"x"}`)
	if err := receive(t, cause, "the stall to be noticed"); !errors.Is(err, control.ErrWatcherGone) {
		t.Errorf("the cause is %v", err)
	}
	conn.Close()
}

func TestSlowWatcherMissesNothing(t *testing.T) {
	const n = 200
	w := serve(t, &controltest.Muru{OnLogs: func(_ context.Context, _ control.LogRequest, out func(string)) error {
		for i := range n {
			out(fmt.Sprintf("%d %s", i, strings.Repeat("x", 64<<10)))
		}
		return nil
	}})
	got := 0
	err := w.Logs(deadline(t), control.LogRequest{Target: "shop"}, func(line string) {
		if !strings.HasPrefix(line, fmt.Sprintf("%d ", got)) {
			t.Errorf("line %d is %.10q", got, line)
		}
		got++
		if got%50 == 0 {
			<-time.After(20 * time.Millisecond) // far slower than the lines come
		}
	})
	if err != nil || got != n {
		t.Errorf("got %d lines, %v", got, err)
	}
}

func TestSilentCallIsKeptByItsHeartbeat(t *testing.T) {
	const silence = 200 * time.Millisecond
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, _ control.Call, out func(control.Message)) error {
		select {
		case <-time.After(silence * 5 / 2):
		case <-ctx.Done():
		}
		out(control.Message{Kind: control.KindSay, Text: "done"})
		return muru.Errorf(muru.KindNoData, "no")
	}}, func(o *control.Options) { o.Timing(5*time.Millisecond, time.Minute) })
	w.SetSilence(silence)
	// On a busy machine a client may not be let run for so long, and its server
	// neither. Without a heartbeat no call would be kept.
	var err error
	for range 10 {
		said := ""
		err = w.Call(deadline(t), control.Call{Source: "x"}, func(m control.Message) { said += m.Kind + m.Text })
		if muru.KindOf(err) == muru.KindNoData && said == "saydone" {
			return
		}
	}
	t.Errorf("no call is kept: %v", err)
}

func TestServerThatSaysNothingIsTakenForDead(t *testing.T) {
	m, began, cause := working()
	w := serve(t, m, func(o *control.Options) { o.Timing(time.Hour, time.Hour) })
	w.SetSilence(300 * time.Millisecond) // in which the call begins, also on a busy machine
	err := w.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) {})
	if !errors.Is(err, control.ErrDaemonGone) {
		t.Errorf("got %v", err)
	}
	receive(t, began, "the call")
	receive(t, cause, "its end")
}

// A half server answers every connection with what it is told and closes it.
func half(t *testing.T, answer string) *control.Client {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.SetReadDeadline(time.Now().Add(patience))
			conn.Read(make([]byte, 64<<10))
			conn.Write([]byte(answer))
			conn.Close()
		}
	})
	t.Cleanup(func() { l.Close(); group.Wait() })
	return control.NewClient(path, "1.2.3")
}

func TestAnswerThatIsCutOrAnothersIsAnErrorWithItsName(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nMuru-Api: 1\r\nContent-Length: 500\r\n\r\n"
	for what, c := range map[string]struct {
		answer string
		gone   bool
	}{
		"no answer":           {"", true},
		"half a head":         {"HTTP/1.1 200", true},
		"no line":             {head, true},
		"half a line":         {head + `{"kind":"pri`, true},
		"no end":              {head + `{"kind":"print","text":"x"}` + "\n", true},
		"an end, but no line": {"HTTP/1.1 200 OK\r\nMuru-Api: 1\r\n\r\n", true},
		"no HTTP":             {"SSH-2.0-OpenSSH\r\n", true},
		"not ours":            {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false},
		"no JSON":             {head + "hello\n", false},
		"no kind":             {head + "{}\n", false},
		"an unknown level":    {head + `{"kind":"event","event":{"level":"loud"}}` + "\n", false},
		"a page of errors":    {"HTTP/1.1 502 Bad Gateway\r\nMuru-Api: 1\r\nContent-Length: 2\r\n\r\nno", false},
	} {
		client := half(t, c.answer)
		err := client.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) {})
		if errors.Is(err, control.ErrDaemonGone) != c.gone || err == nil {
			t.Errorf("%s: got %v", what, err)
		}
		if !c.gone && !strings.Contains(err.Error(), "is no muru") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestManyCallsAtOnceAreAnsweredEachWithItsOwn(t *testing.T) {
	together := make(chan struct{})
	inside := atomic.Int32{}
	const n = 64
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, c control.Call, out func(control.Message)) error {
		if inside.Add(1) == n {
			close(together)
		}
		select {
		case <-together:
		case <-ctx.Done():
			return ctx.Err()
		}
		var both sync.WaitGroup
		for range 2 { // a call may talk from more than one goroutine
			both.Go(func() {
				for range 50 {
					out(control.Message{Kind: control.KindPrint, Text: c.Source})
				}
			})
		}
		both.Wait()
		return nil
	}})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			source, heard := fmt.Sprint(i), 0
			err := w.Call(deadline(t), control.Call{Source: source}, func(m control.Message) {
				if m.Text == source {
					heard++
				}
			})
			if err != nil || heard != 100 {
				t.Errorf("call %d: heard %d of 100, %v", i, heard, err)
			}
		})
	}
	group.Wait()
}
