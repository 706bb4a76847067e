// Package controltest has a Muru and a Session made of functions, for tests
// of what is written against control.Muru.
package controltest

import (
	"context"
	"fmt"
	"io"

	"muru"
	"muru/control"
)

// Muru is a control.Muru that calls its fields. A nil one answers that the
// fake cannot do it.
type Muru struct {
	OnCall        func(ctx context.Context, c control.Call, out func(control.Message)) error
	OnStartRun    func(ctx context.Context, r control.Run) (int, error)
	OnAttach      func(ctx context.Context, run int, out func(control.Message)) error
	OnCancelRun   func(ctx context.Context, run int) error
	OnRuns        func(ctx context.Context) ([]control.RunInfo, error)
	OnOpenSession func(ctx context.Context, s control.SessionRequest) (control.Session, error)
	OnState       func(ctx context.Context) (control.State, error)
	OnEvents      func(ctx context.Context, q control.EventRequest, out func(muru.Event)) error
	OnLogs        func(ctx context.Context, q control.LogRequest, out func(line string)) error
	OnGC          func(ctx context.Context) (control.GCReport, error)
	OnBackup      func(ctx context.Context, w io.Writer) error
}

var _ control.Muru = (*Muru)(nil)

func lacks(method string) error { return fmt.Errorf("the fake has no %s", method) }

// Call calls OnCall.
func (m *Muru) Call(ctx context.Context, c control.Call, out func(control.Message)) error {
	if m.OnCall == nil {
		return lacks("Call")
	}
	return m.OnCall(ctx, c, out)
}

// StartRun calls OnStartRun.
func (m *Muru) StartRun(ctx context.Context, r control.Run) (int, error) {
	if m.OnStartRun == nil {
		return 0, lacks("StartRun")
	}
	return m.OnStartRun(ctx, r)
}

// Attach calls OnAttach.
func (m *Muru) Attach(ctx context.Context, run int, out func(control.Message)) error {
	if m.OnAttach == nil {
		return lacks("Attach")
	}
	return m.OnAttach(ctx, run, out)
}

// CancelRun calls OnCancelRun.
func (m *Muru) CancelRun(ctx context.Context, run int) error {
	if m.OnCancelRun == nil {
		return lacks("CancelRun")
	}
	return m.OnCancelRun(ctx, run)
}

// Runs calls OnRuns.
func (m *Muru) Runs(ctx context.Context) ([]control.RunInfo, error) {
	if m.OnRuns == nil {
		return nil, lacks("Runs")
	}
	return m.OnRuns(ctx)
}

// OpenSession calls OnOpenSession.
func (m *Muru) OpenSession(ctx context.Context, s control.SessionRequest) (control.Session, error) {
	if m.OnOpenSession == nil {
		return nil, lacks("OpenSession")
	}
	return m.OnOpenSession(ctx, s)
}

// State calls OnState.
func (m *Muru) State(ctx context.Context) (control.State, error) {
	if m.OnState == nil {
		return control.State{}, lacks("State")
	}
	return m.OnState(ctx)
}

// Events calls OnEvents.
func (m *Muru) Events(ctx context.Context, q control.EventRequest, out func(muru.Event)) error {
	if m.OnEvents == nil {
		return lacks("Events")
	}
	return m.OnEvents(ctx, q, out)
}

// Logs calls OnLogs.
func (m *Muru) Logs(ctx context.Context, q control.LogRequest, out func(line string)) error {
	if m.OnLogs == nil {
		return lacks("Logs")
	}
	return m.OnLogs(ctx, q, out)
}

// GC calls OnGC.
func (m *Muru) GC(ctx context.Context) (control.GCReport, error) {
	if m.OnGC == nil {
		return control.GCReport{}, lacks("GC")
	}
	return m.OnGC(ctx)
}

// Backup calls OnBackup.
func (m *Muru) Backup(ctx context.Context, w io.Writer) error {
	if m.OnBackup == nil {
		return lacks("Backup")
	}
	return m.OnBackup(ctx, w)
}

// Session is a control.Session that calls its fields. A nil one answers that
// the fake cannot do it, but for Close, which then does nothing.
type Session struct {
	OnEval         func(ctx context.Context, source string, out func(control.Message)) error
	OnIncomplete   func(ctx context.Context, source string) (bool, error)
	OnComplete     func(ctx context.Context, line string, pos int) (string, []string, string, error)
	OnLiveRollouts func(ctx context.Context) ([]int, error)
	OnClose        func(ctx context.Context) error
}

var _ control.Session = (*Session)(nil)

// Eval calls OnEval.
func (s *Session) Eval(ctx context.Context, source string, out func(control.Message)) error {
	if s.OnEval == nil {
		return lacks("Eval")
	}
	return s.OnEval(ctx, source, out)
}

// Incomplete calls OnIncomplete.
func (s *Session) Incomplete(ctx context.Context, source string) (bool, error) {
	if s.OnIncomplete == nil {
		return false, lacks("Incomplete")
	}
	return s.OnIncomplete(ctx, source)
}

// Complete calls OnComplete.
func (s *Session) Complete(ctx context.Context, line string, pos int) (string, []string, string, error) {
	if s.OnComplete == nil {
		return "", nil, "", lacks("Complete")
	}
	return s.OnComplete(ctx, line, pos)
}

// LiveRollouts calls OnLiveRollouts.
func (s *Session) LiveRollouts(ctx context.Context) ([]int, error) {
	if s.OnLiveRollouts == nil {
		return nil, lacks("LiveRollouts")
	}
	return s.OnLiveRollouts(ctx)
}

// Close calls OnClose.
func (s *Session) Close(ctx context.Context) error {
	if s.OnClose == nil {
		return nil
	}
	return s.OnClose(ctx)
}
