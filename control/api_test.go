package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func event(seq int) muru.Event {
	return muru.Event{
		Seq: seq, Time: time.Date(2026, 11, 7, 7, 20, 7, 756_000_000, time.UTC), Level: muru.LevelWarning,
		Kind: muru.RolloutGateFailed, Subject: "shop@r6", Message: "step 1 at 10%: 5xx", By: "ana",
		Data: map[string]any{"rollout": 7, "rate": 21.5, "arms": []any{"r5", 3}, "of": map[string]any{"n": 1}},
	}
}

func TestCallSaysEverythingInOrderAndKeepsWhatItWasAsked(t *testing.T) {
	e := event(45)
	said := []control.Message{
		{Kind: control.KindBegin, Text: `canary("shop@r6")`},
		{Kind: control.KindSay, Text: "rollout 7 started\nof shop@r6"},
		{Kind: control.KindProgress, Text: "10% for 3 s", Rollout: 7},
		{Kind: control.KindPrint, Text: "größer <&> \u2028"},
		{Kind: control.KindEvent, Event: &e},
		{Kind: control.KindValue, Text: "shop@r6", Value: []byte(`{"name":"r6"}`)},
		{Kind: control.KindProgress, Rollout: 7},
	}
	var got control.Call
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, c control.Call, out func(control.Message)) error {
		got = c
		if by := control.Caller(ctx); by != ownName(t) {
			t.Errorf("the caller is %q", by)
		}
		for _, m := range said {
			out(m)
		}
		return nil
	}})
	var heard []control.Message
	asked := control.Call{Source: `canary("shop@r6")`, Dir: "/srv"}
	if err := w.Call(deadline(t), asked, func(m control.Message) { heard = append(heard, m) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, heard); diff != "" {
		t.Errorf("said (-) and heard (+): %s", diff)
	}
	if diff := cmp.Diff(asked, got); diff != "" {
		t.Errorf("asked (-) and got (+): %s", diff)
	}
}

func TestCallRefusesWhatItCannotMean(t *testing.T) {
	w := serve(t, &controltest.Muru{})
	for _, c := range []struct {
		call control.Call
		want string
	}{
		{control.Call{Source: " \n"}, "nothing to evaluate"},
		{control.Call{Source: "status()", Dir: "here"}, "not absolute"},
	} {
		err := w.Call(deadline(t), c.call, func(control.Message) { t.Error("it said something") })
		if muru.KindOf(err) != muru.KindUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want a usage error with %q", c.call, err, c.want)
		}
	}
}

func TestRunsAreStartedListedAttachedToAndCancelled(t *testing.T) {
	ended := time.Date(2026, 11, 7, 7, 20, 7, 0, time.UTC)
	list := []control.RunInfo{
		{Number: 6, File: "a.star", Args: []string{"shop"}, By: "ana", State: control.RunFailed, Started: ended, Ended: &ended, Error: "no"},
		{Number: 7, File: "b.star", Args: []string{}, Dir: "/srv", By: "ana", State: control.RunRunning, Started: ended},
	}
	var started control.Run
	cancelled := 0
	w := serve(t, &controltest.Muru{
		OnStartRun: func(ctx context.Context, r control.Run) (int, error) { started = r; return 7, nil },
		OnRuns:     func(context.Context) ([]control.RunInfo, error) { return list, nil },
		OnAttach: func(ctx context.Context, n int, out func(control.Message)) error {
			out(control.Message{Kind: control.KindPrint, Text: "from the beginning"})
			return muru.Errorf(muru.KindRolledBack, "run %d: rolled back", n)
		},
		OnCancelRun: func(ctx context.Context, n int) error { cancelled = n; return nil },
	})
	ctx := deadline(t)
	n, err := w.StartRun(ctx, control.Run{File: "canary.star", Args: []string{"shop", "--hold", "30s"}, Dir: "/srv"})
	if n != 7 || err != nil {
		t.Fatalf("StartRun: got %d, %v", n, err)
	}
	want := control.Run{File: "canary.star", Args: []string{"shop", "--hold", "30s"}, Dir: "/srv"}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Errorf("the run: %s", diff)
	}
	runs, err := w.Runs(ctx)
	if diff := cmp.Diff(list, runs); diff != "" || err != nil {
		t.Errorf("Runs: %v: %s", err, diff)
	}
	var heard []string
	err = w.Attach(ctx, 7, func(m control.Message) { heard = append(heard, m.Text) })
	if muru.KindOf(err) != muru.KindRolledBack || err.Error() != "run 7: rolled back" {
		t.Errorf("Attach: got %v", err)
	}
	if diff := cmp.Diff([]string{"from the beginning"}, heard); diff != "" {
		t.Errorf("Attach: %s", diff)
	}
	if err := w.CancelRun(ctx, 7); err != nil || cancelled != 7 {
		t.Errorf("CancelRun: %v, cancelled %d", err, cancelled)
	}
	if _, err := w.StartRun(ctx, control.Run{}); muru.KindOf(err) != muru.KindUsage {
		t.Errorf("a run of nothing: got %v", err)
	}
}

func TestStateSaysWhoAsks(t *testing.T) {
	w := serve(t, &controltest.Muru{OnState: func(context.Context) (control.State, error) {
		return control.State{
			Version: "1.2.3", PID: 7, Host: "web1", LastEvent: 45,
			Apps:     []control.AppInfo{control.AppInfoOf(muru.App{Name: "shop", Baseline: 5, Candidate: 6, Held: []int{4}})},
			Rollouts: []control.RolloutInfo{{Number: 7, App: "shop", Live: true}, {Number: 6, App: "shop"}},
		}, nil
	}})
	state, err := w.State(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if state.You != ownName(t) || state.Host != "web1" {
		t.Errorf("got you %q of host %q", state.You, state.Host)
	}
	if diff := cmp.Diff([]control.AppInfo{{Name: "shop", Baseline: "r5", Candidate: "r6", Held: []string{"r4"}}}, state.Apps); diff != "" {
		t.Errorf("apps: %s", diff)
	}
	if diff := cmp.Diff([]int{7}, state.LiveRollouts()); diff != "" {
		t.Errorf("live rollouts: %s", diff)
	}
	if state.Releases == nil {
		t.Error("no releases are null")
	}
}

func TestEventsKeepTheirQueryTheirNumbersAndTheirLevel(t *testing.T) {
	var got control.EventRequest
	w := serve(t, &controltest.Muru{OnEvents: func(ctx context.Context, q control.EventRequest, out func(muru.Event)) error {
		got = q
		out(event(45))
		out(muru.Event{Seq: 46})
		return nil
	}})
	for _, asked := range []control.EventRequest{
		{},
		{
			Target: "shop@r6", Run: 3, After: 44, Since: time.Date(2026, 11, 7, 7, 20, 7, 1, time.UTC),
			Kind: "rollout.*", Level: muru.LevelError, Limit: 50, Follow: true,
		},
	} {
		var heard []muru.Event
		if err := w.Events(deadline(t), asked, func(e muru.Event) { heard = append(heard, e) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asked, got); diff != "" {
			t.Errorf("the query: %s", diff)
		}
		if diff := cmp.Diff([]muru.Event{event(45), {Seq: 46}}, heard); diff != "" {
			t.Errorf("the events: %s", diff)
		}
	}
}

func TestLogsKeepTheirQueryAndTheirLines(t *testing.T) {
	var got control.LogRequest
	w := serve(t, &controltest.Muru{OnLogs: func(ctx context.Context, q control.LogRequest, out func(string)) error {
		got = q
		out("")
		out("a \t line\x1b[0m")
		return nil
	}})
	zero := 0
	for _, asked := range []control.LogRequest{
		{Target: "shop"},
		{
			Target: "shop@r6", Lines: 100, Since: time.Date(2026, 11, 7, 7, 20, 7, 0, time.UTC), Grep: "Key.*&=?",
			Worker: &zero, Request: "01M8V4Q7J2W3N5X6Y8Z9A0B1C2", Follow: true,
		},
	} {
		var heard []string
		if err := w.Logs(deadline(t), asked, func(line string) { heard = append(heard, line) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asked, got); diff != "" {
			t.Errorf("the query: %s", diff)
		}
		if diff := cmp.Diff([]string{"", "a \t line\x1b[0m"}, heard); diff != "" {
			t.Errorf("the lines: %s", diff)
		}
	}
	if err := w.Logs(deadline(t), control.LogRequest{}, nil); muru.KindOf(err) != muru.KindUsage {
		t.Errorf("logs of nothing: got %v", err)
	}
}

func TestErrorsOfEveryKindCrossTheSocketWhole(t *testing.T) {
	var failure error
	w := serve(t, &controltest.Muru{
		OnCall: func(ctx context.Context, c control.Call, out func(control.Message)) error {
			if c.Source == "say" {
				out(control.Message{Kind: control.KindSay, Text: "first"})
			}
			return failure
		},
		OnRuns: func(context.Context) ([]control.RunInfo, error) { return nil, failure },
	})
	for kind := muru.KindFailed; kind <= muru.KindBudget; kind++ {
		want := &muru.Error{Kind: kind, Message: "no: " + kind.String(), Hint: "do it", Detail: []string{"a", "b"}, Rollout: 7}
		failure = &positioned{want}
		for how, ask := range map[string]func() error{
			"alone": func() error { return w.Call(deadline(t), control.Call{Source: "x"}, func(control.Message) {}) },
			"after": func() error {
				return w.Call(deadline(t), control.Call{Source: "say"}, func(control.Message) {})
			},
			"a value": func() error { _, err := w.Runs(deadline(t)); return err },
		} {
			err := ask()
			var got *muru.Error
			if !errors.As(err, &got) {
				t.Fatalf("%s, %s: no *muru.Error in %v", kind, how, err)
			}
			expect := *want
			expect.Message = "canary.star:9:5: " + want.Message
			if diff := cmp.Diff(&expect, got); diff != "" {
				t.Errorf("%s, %s: %s", kind, how, diff)
			}
			if text := control.ErrorText(err); text != failure.(*positioned).Text() {
				t.Errorf("%s, %s: reads %q", kind, how, text)
			}
			if muru.KindOf(err) != kind || err.Error() != expect.Message {
				t.Errorf("%s, %s: got kind %s: %v", kind, how, muru.KindOf(err), err)
			}
		}
	}
}

// positioned is an error as a recipe's: it has a text of its own.
type positioned struct{ err *muru.Error }

func (p *positioned) Error() string { return "canary.star:9:5: " + p.err.Message }
func (p *positioned) Unwrap() error { return p.err }
func (p *positioned) Text() string {
	return p.Error() + "\n  at canary.star:3:1 in main\n  a\n  b\nhint: do it"
}

func TestErrorsWithoutWordsForPeopleAreFailuresWithTheirText(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind muru.ErrorKind
	}{
		{errors.New("disk is full"), muru.KindFailed},
		{context.Canceled, muru.KindCanceled},
		{context.DeadlineExceeded, muru.KindTimeout},
		{control.ErrSessionGone, muru.KindFailed},
	} {
		got, err := control.RoundTrip(c.err)
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != c.kind || got.Message != c.err.Error() || got.Text() != c.err.Error() {
			t.Errorf("%v became %+v", c.err, got)
		}
	}
	if got, _ := control.RoundTrip(control.ErrSessionGone); !errors.Is(got, control.ErrSessionGone) {
		t.Error("a sentinel got lost")
	}
}
