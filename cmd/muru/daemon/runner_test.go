package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru"
	"muru/cmd/muru/visitortest"
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
func newTestRunner(t *testing.T) *Runner {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	log := rollout.NewLog(nil, 0)
	engine := rollout.New(rollout.Options{Edge: &rollouttest.Edge{Now: time.Now}, Host: new(rollouttest.Host), Log: log})
	r := NewRunner(RunnerOptions{Engine: engine, Events: log, State: t.TempDir()})
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

func open(t *testing.T, r *Runner) *session {
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
			visitortest.Eventually(t, "the call has begun", func() bool {
				lines := h.lines()
				return slices.Contains(lines, begin) && (!isCanary || len(h.lines(control.KindProgress)) > 0)
			})
			began := time.Now()
			cancel(control.ErrWatcherGone)
			err := <-done
			if took := time.Since(began); took > 2*time.Second { // 200 ms on a machine of its own
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
	visitortest.Eventually(t, "the last event", func() bool {
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
