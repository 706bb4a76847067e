package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru"
	"muru/control"
	"muru/rollout"
	"muru/rollout/rollouttest"
)

// heard collects messages. It is safe for concurrent use.
type heard struct {
	mu       sync.Mutex
	messages []control.Message
}

func (h *heard) out(m control.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, m)
}

// lines are the messages of the kinds, as text with the kind in front.
func (h *heard) lines(kinds ...string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, m := range h.messages {
		if len(kinds) == 0 && m.Kind != control.KindProgress || slices.Contains(kinds, m.Kind) {
			lines = append(lines, strings.TrimSpace(m.Kind+" "+m.Text))
		}
	}
	return lines
}

// newTestRunner makes a runner over fakes of edge and host, in which shop@r1
// serves and r2 is held.
func newTestRunner(t *testing.T) *runner {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	log := rollout.NewLog(nil, 0)
	engine := rollout.New(rollout.Options{Edge: &rollouttest.Edge{Now: time.Now}, Host: new(rollouttest.Host), Log: log})
	r := newRunner(runnerOptions{Engine: engine, Events: log, State: t.TempDir()})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(r.Close(ctx), engine.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	for _, hold := range []bool{false, true} {
		plan := muru.ReleasePlan{
			Kind: muru.Python, Source: "/tmp", Entry: "app:application", Workers: 1, Threads: 1,
			Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
		}
		if _, _, err := engine.Deploy(t.Context(), rollout.DeployRequest{App: "shop", Plan: plan, Hold: hold}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func asAna(t *testing.T) context.Context { return control.WithCaller(t.Context(), "ana") }

func open(t *testing.T, r *runner) *session {
	t.Helper()
	s, err := r.OpenSession(asAna(t), control.SessionRequest{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// sayTo evaluates an input and returns all it said, and its error last.
func sayTo(t *testing.T, s *session, input string) []string {
	t.Helper()
	h := new(heard)
	err := s.Eval(t.Context(), input, h.out)
	lines := h.lines(control.KindSay, control.KindPrint, control.KindValue)
	if err != nil {
		lines = append(lines, "error "+control.ErrorText(err))
	}
	return lines
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestACallSaysWhatItReportsOrReturns(t *testing.T) {
	r := newTestRunner(t)
	for _, c := range []struct {
		source string
		want   []string
	}{
		{`status("shop").baseline.name`, []string{"begin status(\"shop\")", "value r1"}},
		{`promote("shop@r2", reason = "go")`, []string{`begin promote("shop@r2")`, "say shop@r2 serves 100% of shop, r1 is kept warm", "value"}},
		{`print("hello")`, []string{"print hello", "value"}},
	} {
		h := new(heard)
		if err := r.Call(asAna(t), control.Call{Source: c.source, Dir: "/"}, h.out); err != nil {
			t.Errorf("%s: %v", c.source, err)
		}
		wantLines(t, h.lines(), c.want...)
		if v := h.messages[len(h.messages)-1].Value; len(v) == 0 || strings.HasPrefix(c.source, "promote") && !strings.Contains(string(v), `"name":"r2"`) {
			t.Errorf("%s: value %s", c.source, v)
		}
	}
	events := r.o.Engine.Events(rollout.EventQuery{Kind: muru.ReleasePromoted})
	if e := events[len(events)-1]; e.By != "ana" {
		t.Errorf("promoted by %q, want ana", e.By)
	}
}

func TestAFailedCallNamesNoPlaceInItsOneLine(t *testing.T) {
	r := newTestRunner(t)
	err := r.Call(asAna(t), control.Call{Source: `canary("shop@r2", steps = [50, 10])`, Dir: "/"}, func(control.Message) {})
	if got := control.ErrorText(err); got != "canary: steps[1]: 10% is not above 50%" || muru.KindOf(err) != muru.KindUsage {
		t.Errorf("got %q, kind %s", got, muru.KindOf(err))
	}
	if err := r.Call(asAna(t), control.Call{Source: "1", Dir: "here"}, func(control.Message) {}); muru.KindOf(err) != muru.KindUsage {
		t.Errorf("a relative directory: %v", err)
	}
	if err := r.Call(asAna(t), control.Call{Source: `read("notes.txt")`}, func(control.Message) {}); err == nil {
		t.Error("a relative path without a directory was read")
	}
}

func TestAWatcherThatGoesLeavesItsRolloutAndEndsItsCommand(t *testing.T) {
	for source, begin := range map[string]string{
		`canary("shop@r2", hold = "1h")`: `begin canary("shop@r2")`,
		`sh("sleep 60")`:                 `begin sh("sleep 60")`,
		`sleep("1h")`:                    `begin sleep("1h")`,
	} {
		t.Run(source, func(t *testing.T) {
			r := newTestRunner(t)
			ctx, cancel := context.WithCancelCause(asAna(t))
			h, done := new(heard), make(chan error, 1)
			go func() { done <- r.Call(ctx, control.Call{Source: source, Dir: "/"}, h.out) }()
			isCanary := strings.HasPrefix(source, "canary")
			eventually(t, "the call has begun", func() bool {
				lines := h.lines()
				return slices.Contains(lines, begin) && (!isCanary || len(h.lines(control.KindProgress)) > 0)
			})
			began := time.Now()
			cancel(control.ErrWatcherGone)
			err := <-done
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, control.ErrWatcherGone) || muru.KindOf(err) != muru.KindCanceled {
				t.Errorf("ended with %v", err)
			}
			live := 0
			for _, ro := range must(r.o.Engine.Rollouts("")) {
				if ro.Live() {
					live++
				}
			}
			if isCanary != (live == 1) {
				t.Errorf("%d rollouts are live", live)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSessionsKeepTheirNamesApart(t *testing.T) {
	r := newTestRunner(t)
	one, two := open(t, r), open(t, r)
	wantLines(t, sayTo(t, one, "x = 1"))
	wantLines(t, sayTo(t, two, "x"), "error <input 1>:1:1: undefined: x")
	wantLines(t, sayTo(t, one, "x + 1"), "value 2")
	wantLines(t, sayTo(t, one, "_"), "value 2")
	wantLines(t, sayTo(t, one, `split("shop", {"r2": "10%"})`), "say shop split: r1 90%, r2 10%", "value")
	wantLines(t, sayTo(t, one, "_.name"), "value shop")
	wantLines(t, sayTo(t, two, `split("shop", {}); status("shop").split`), "say shop split: r1 100%", "value {shop@r1: 100.0}")
	var group sync.WaitGroup
	for _, s := range []*session{one, two} {
		group.Go(func() {
			for range 20 {
				if err := s.Eval(t.Context(), "n = 0\n", func(control.Message) {}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

func TestAnInterruptedInputKeepsVariablesAndRollout(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	sayTo(t, s, "plan = [10, 50]")
	ctx, cancel := context.WithCancel(t.Context())
	h, done := new(heard), make(chan error, 1)
	go func() { done <- s.Eval(ctx, `canary("shop@r2", steps = plan, hold = "1h")`, h.out) }()
	eventually(t, "progress", func() bool { return len(h.lines(control.KindProgress)) > 0 })
	wantLines(t, sayTo(t, s, "1"), "error the session is busy with another input")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	wantLines(t, sayTo(t, s, "plan"), "value [10, 50]")
	if live := must(s.LiveRollouts(t.Context())); !slices.Equal(live, []int{1}) {
		t.Errorf("live: %v", live)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); !ro.Live() {
		t.Error("closing the session ended its rollout")
	}
	if err := s.Eval(t.Context(), "1", func(control.Message) {}); !errors.Is(err, control.ErrSessionGone) {
		t.Errorf("a closed session says %v", err)
	}
}

func TestClosingASessionCancelsItsInput(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	h, done := new(heard), make(chan error, 1)
	go func() { done <- s.Eval(t.Context(), `sleep("1h")`, h.out) }()
	eventually(t, "begun", func() bool { return len(h.lines()) > 0 })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errSessionClosed) {
		t.Errorf("ended with %v", err)
	}
}

func TestASessionIsSavedAsARecipe(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	wantLines(t, sayTo(t, s, savedInput), "error there is nothing to save: no call of this session has changed anything")
	sayTo(t, s, `canary("shop@r2", hold = "1h", wait = False)`)
	sayTo(t, s, `status()`)
	sayTo(t, s, `promote("shop@r9")`) // fails
	sayTo(t, s, `abort(1, reason = "r2 itself is bad")`)
	wantLines(t, sayTo(t, s, savedInput), `value def main():
    canary("shop@r2", hold = "1h", wait = False)
    abort("shop", reason = "r2 itself is bad")`)
}

func TestCompletionIsFromLiveStateAndFast(t *testing.T) {
	r := newTestRunner(t)
	s := open(t, r)
	sayTo(t, s, `svc = status("shop")`)
	began := time.Now()
	for line, want := range map[string]string{
		`canary("shop@r`:      `canary(" shop@r1 shop@r2`,
		`deploy("sh`:          `deploy(" shop`,
		`canary(svc, dea`:     `canary(svc,  deadline = `,
		`svc.cand`:            `svc. candidate`,
		`status("shop").base`: `status("shop"). baseline`,
	} {
		head, candidates, _, err := s.Complete(t.Context(), line, len(line))
		if got := head + " " + strings.Join(candidates, " "); err != nil || got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if took := time.Since(began); took > 250*time.Millisecond {
		t.Errorf("five completions took %v", took)
	}
}

func writeRecipe(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "r.star"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, r *runner, text string, args ...string) int {
	t.Helper()
	n, err := r.StartRun(asAna(t), control.Run{File: "r.star", Args: args, Dir: writeRecipe(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARunIsAttachedFromItsBeginning(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, "def main(what):\n    print(what)\n    fail('no')\n", "hello")
	for range 2 {
		h := new(heard)
		err := r.Attach(t.Context(), n, h.out)
		if got := control.ErrorText(err); !strings.Contains(got, "r.star:3:5: no") {
			t.Errorf("ended with %q", got)
		}
		wantLines(t, h.lines(), "print hello")
	}
	info := must(r.Runs(t.Context()))[0]
	if info.State != control.RunFailed || info.By != "ana" || info.Ended == nil || info.Error != "r.star:3:5: no" {
		t.Errorf("info %+v", info)
	}
	events := r.o.Engine.Events(rollout.EventQuery{Run: n})
	if len(events) != 2 || events[0].Message != "r.star hello by ana" || events[1].Kind != muru.RunFailed {
		t.Errorf("events %v", events)
	}
	if err := r.Attach(t.Context(), 99, func(control.Message) {}); muru.KindOf(err) != muru.KindNotFound {
		t.Errorf("no such run: %v", err)
	}
}

func TestARunThatDoesNotCheckStartsNothing(t *testing.T) {
	r := newTestRunner(t)
	for _, q := range []control.Run{
		{File: "none.star", Dir: "/tmp"},
		{File: "r.star", Dir: writeRecipe(t, "def main(:\n")},
		{File: "r.star", Dir: writeRecipe(t, "def main():\n    pass\n"), Args: []string{"--what"}},
		{File: "r.star", Dir: writeRecipe(t, "def main():\n    pass\n"), Args: []string{"--help"}},
	} {
		if _, err := r.StartRun(asAna(t), q); err == nil {
			t.Errorf("%+v was started", q)
		}
	}
	if runs := must(r.Runs(t.Context())); len(runs) > 0 {
		t.Errorf("runs %v", runs)
	}
}

func TestCancellingARunAbortsItsRollout(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h")`)
	eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if err := r.CancelRun(control.WithCaller(t.Context(), "bob"), n); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); ro.State != muru.Aborted {
		t.Errorf("the rollout is %s", ro.State)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); !strings.Contains(err.Error(), "cancelled by bob") {
		t.Errorf("ended with %v", err)
	}
	if info := must(r.Runs(t.Context()))[0]; info.State != control.RunCancelled {
		t.Errorf("info %+v", info)
	}
	if err := r.CancelRun(t.Context(), n); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestARunEndsAfterTheRolloutsItStarted(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h", wait = False)`)
	eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if info := must(r.Runs(t.Context()))[0]; info.State != control.RunRunning {
		t.Errorf("info %+v", info)
	}
	if _, _, err := r.o.Engine.Abort(t.Context(), rollout.RolloutRequest{Rollout: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWhatEndsWithTheDaemonLeavesItsRollouts(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h")`)
	eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); !ro.Live() {
		t.Errorf("the rollout is %s", ro.State)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); !errors.Is(err, control.ErrStopping) {
		t.Errorf("ended with %v", err)
	}
	if _, err := r.StartRun(asAna(t), control.Run{File: "r.star", Dir: writeRecipe(t, "print(1)")}); !errors.Is(err, control.ErrStopping) {
		t.Errorf("started after the end: %v", err)
	}
}

func TestOutputOfARunIsBounded(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, "def main():\n    for i in range(5000):\n        print(i)\n")
	eventually(t, "it ended", func() bool { return must(r.Runs(t.Context()))[0].Ended != nil })
	h := new(heard)
	if err := r.Attach(t.Context(), n, h.out); err != nil {
		t.Fatal(err)
	}
	lines := h.lines()
	if len(lines) != messagesKept+1 || !strings.Contains(lines[0], "is not kept") || lines[len(lines)-1] != "print 4999" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

// A recipe that builds a huge list is stopped with its line, while another
// goes on. (Users of Starlark tools ask for this: memory cannot be limited.)
func TestAHugeListIsStoppedWhileAnotherRunGoesOn(t *testing.T) {
	r := newTestRunner(t)
	r.o.Limits.Memory = 32 << 20
	other := start(t, r, "def main():\n    sleep(\"300ms\")\n    print(status(\"shop\").name)\n")
	n := start(t, r, "def main():\n    l = []\n    for i in range(1000000000):\n        l.append(\"%d\" % i)\n")
	err := r.Attach(t.Context(), n, func(control.Message) {})
	if muru.KindOf(err) != muru.KindBudget || !strings.Contains(control.ErrorText(err), "r.star:") {
		t.Errorf("ended with %v", err)
	}
	h := new(heard)
	if err := r.Attach(t.Context(), other, h.out); err != nil || !slices.Contains(h.lines(), "print shop") {
		t.Errorf("the other run: %v, %q", err, h.lines())
	}
	runtime.GC() // the next test's watchdog must not see this one's heap
}

func TestTheCallerOfARunIsKnownInBranchesAndModules(t *testing.T) {
	r := newTestRunner(t)
	dir := writeRecipe(t, "load(\"m.star\", \"act\")\ndef main():\n    parallel([lambda: attempt(lambda: act())])\n")
	if err := os.WriteFile(filepath.Join(dir, "m.star"), []byte("def act():\n    promote(\"shop@r2\")\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := must(r.StartRun(asAna(t), control.Run{File: "r.star", Dir: dir}))
	if err := r.Attach(t.Context(), n, func(control.Message) {}); err != nil {
		t.Fatal(err)
	}
	events := r.o.Engine.Events(rollout.EventQuery{Kind: muru.ReleasePromoted})
	if e := events[len(events)-1]; e.By != "run 1" {
		t.Errorf("by %q", e.By)
	}
}

func TestEventsAreFollowedWithoutAGap(t *testing.T) {
	r := newTestRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var seqs []int
	done := make(chan error, 1)
	go func() {
		done <- r.Events(ctx, control.EventRequest{Follow: true}, func(e muru.Event) {
			mu.Lock()
			defer mu.Unlock()
			seqs = append(seqs, e.Seq)
		})
	}()
	for range 3000 {
		r.o.Engine.Report(muru.Event{Kind: muru.AppChanged, Subject: "shop"})
	}
	last := must(r.State(t.Context())).LastEvent
	eventually(t, "the last event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seqs) > 0 && seqs[len(seqs)-1] == last
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, seq := range seqs {
		if seq != i+1 {
			t.Fatalf("event %d comes as number %d", seq, i+1)
		}
	}
	if err := r.Events(t.Context(), control.EventRequest{Target: "shpo"}, func(muru.Event) {}); muru.KindOf(err) != muru.KindNotFound {
		t.Errorf("no such app: %v", err)
	}
}

func TestSecretsAreReadAndNeverShown(t *testing.T) {
	r := newTestRunner(t)
	if err := os.MkdirAll(filepath.Join(r.o.State, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.o.State, "secrets", "TOKEN"), []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, r)
	wantLines(t, sayTo(t, s, `secret("TOKEN")`), "value secret(TOKEN)")
	wantLines(t, sayTo(t, s, `sh("test $T = hush", env = {"T": _}).ok`), "value True")
	wantLines(t, sayTo(t, s, `secret("NONE")`), "error secret: there is no secret NONE\nhint: looked for "+filepath.Join(r.o.State, "secrets", "NONE"))
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	if err := os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "TOKEN"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, r)
	wantLines(t, sayTo(t, s, `sh("test $T = other", env = {"T": secret("TOKEN")}).ok`), "value True")
}
