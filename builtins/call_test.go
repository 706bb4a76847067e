package builtins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
	script "muru/starlark"
)

// cancelled runs a recipe that is cancelled once ready is true, and returns
// how long it took to end after that, and its error.
func (s *stage) cancelled(source string, ready func() bool) (time.Duration, error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	file, err := s.runtime.Parse("test.star", []byte(source))
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := file.Run(ctx, nil)
		ended <- err
	}()
	eventually(s.t, "the recipe is at the call", ready)
	began := time.Now()
	cancel()
	err = <-ended
	return time.Since(began), err
}

func TestCancelReachesEveryBlockedCall(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	url := "http://" + silent.Addr().String()
	for name, source := range map[string]string{
		"sleep":    `sleep("1h")`,
		"canary":   `canary("shop@r2", hold = "1h")`,
		"observe":  `observe("shop@r1", hold = "1h")`,
		"wait":     `wait(lambda: False, every = "1h")`,
		"parallel": `parallel([lambda: sleep("1h"), lambda: wait(lambda: False)])`,
		"attempt":  `attempt(lambda: sleep("1h"))`,
		"sh":       `sh("trap '' TERM; echo $$ > pid; sleep 60 & wait; sleep 60")`,
		"http":     `http("` + url + `", timeout = "1h")`,
		"traffic":  `traffic("` + url + `", duration = "1h", timeout = "1h")`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quickest := time.Hour
			for range 3 { // the best of three: the machine may be busy with something else
				took := cancelTakes(t, source, name == "sh")
				if quickest = min(quickest, took); quickest < 300*time.Millisecond {
					return
				}
			}
			t.Errorf("ended %s after it was cancelled", quickest)
		})
	}
}

// cancelTakes returns how long a recipe goes on after it was cancelled in a
// call. A command's whole process group must be gone then.
func cancelTakes(t *testing.T, source string, isCommand bool) time.Duration {
	t.Helper()
	s := newStage(t)
	s.engineClockIsReal()
	ready := func() bool { return true }
	if isCommand {
		ready = func() bool { _, err := os.Stat(s.path("pid")); return err == nil }
	}
	took, err := s.cancelled("def main():\n    "+source+"\n    fail(\"it went on\")\n", ready)
	if muru.KindOf(err) != muru.KindCanceled {
		t.Errorf("got %v", err)
	}
	if isCommand {
		pid, _ := os.ReadFile(s.path("pid"))
		group, _ := strconv.Atoi(strings.TrimSpace(string(pid)))
		eventually(t, "the process group is gone", func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH })
	}
	return took
}

// engineClockIsReal makes waits long: they must be ended by the cancel.
func (s *stage) engineClockIsReal() {
	s.set.env.Engine = realTime{s.engine}
}

type realTime struct{ *rollout.Engine }

func (realTime) Clock() rollout.Clock { return rollout.RealClock{} }

func TestParallelCancelsTheOthersAtTheFirstFailure(t *testing.T) {
	s := newStage(t)
	s.engineClockIsReal()
	began := time.Now()
	_, err := s.run(`
def main():
    parallel([lambda: sleep("1h"), lambda: sh("exit 7")])
`)
	e, _ := errors.AsType[*script.Error](err)
	if e == nil || e.Kind != muru.KindCommandFailed || e.Message != "sh: exit 7 ended with exit status 7" || e.Where != "test.star:3:44" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestLoadedModuleMayNotActAtItsTopLevel(t *testing.T) {
	s := newStage(t)
	s.write("module.star", "x = status(\"shop\")\n")
	_, err := s.run("load(\"module.star\", \"x\")\n")
	if muru.KindOf(err) != muru.KindRefused || !strings.Contains(err.Error(), "module.star:1:5: status: a loaded module may not act at its top level") {
		t.Errorf("got %v", err)
	}
	s.write("module.star", "x = gate(\"p95\", max = 2 * duration(\"1s\"))\n")
	if _, err := s.run("load(\"module.star\", \"x\")\nprint(x)\n"); err != nil {
		t.Errorf("a module may make a gate: %v", err)
	}
}

func TestPanicOfABuiltinFailsTheRunAlone(t *testing.T) {
	s := newStage(t)
	broken := &Spec{Name: "broken", Returns: "None", Fn: func(*Call) (starlark.Value, error) { panic("oops") }}
	names := s.set.Predeclared()
	predeclared := starlark.StringDict{"broken": broken.builtin(s.set), "attempt": names["attempt"]}
	runtime := script.New(script.Options{Predeclared: predeclared, Dir: s.dir})
	file, err := runtime.Parse("test.star", []byte("def main():\n    attempt(lambda: broken())\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "broken: a bug in muru ended this run (bug ") {
		t.Errorf("got %v", err)
	}
}

func TestPrintShowsOneValueInFullAndSeveralShort(t *testing.T) {
	s := newStage(t)
	if _, err := s.run("def main():\n    print(status(\"shop\"))\n    print(\"shop:\", status(\"shop\"), 1, sep = \"|\")\n    print()\n"); err != nil {
		t.Fatal(err)
	}
	want := "APP  BASELINE CANDIDATE TRAFFIC HELD WARM ROLLOUT\nshop r1       -         r1 100% r2   -    -\nshop:|shop|1\n"
	if got := s.terminal.output(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestChangesSayWhoAskedInWhichRun(t *testing.T) {
	s := newStage(t)
	s.set.env.Run, s.set.env.By = 7, "run 7"
	if _, err := s.run("promote(\"shop@r2\", reason = \"why not\")\n"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.terminal.lines(), "\n"); got != "shop@r2 serves 100% of shop, r1 is kept warm" {
		t.Errorf("said %s", got)
	}
	events := s.engine.Events(eventQuery(muru.ReleasePromoted))
	if last := events[len(events)-1]; last.By != "run 7" || !strings.Contains(last.Message, "by run 7") {
		t.Errorf("the event is %+v", last)
	}
}

// Whatever a recipe gives as an argument, a builtin answers with an error or
// accepts it: no type panics.
func FuzzTypesTakeAnything(f *testing.F) {
	for _, seed := range []string{"", "shop", "shop@r6", "r6", "10%", "0.5%", "30s", "1e999s", "-1", "20/s", "512MiB", "http://[::1", "/x?y", "p95", "cookie:", "\x00", "a:b:c", "*.x"} {
		f.Add(seed, int64(len(seed))-3, float64(len(seed))/7)
	}
	set := New(Env{Engine: realTime{}, Dir: "/"})
	f.Fuzz(func(t *testing.T, text string, n int64, x float64) {
		values := []starlark.Value{
			starlark.String(text), starlark.MakeInt64(n), starlark.Float(x), starlark.None, starlark.True, Duration(n), Time(time.Unix(n, 0)),
			starlark.NewList([]starlark.Value{starlark.String(text), starlark.MakeInt64(n)}),
			starlark.Tuple{starlark.Float(x), starlark.String(text)}, dict(text, starlark.String(text)),
		}
		for _, spec := range withMethods() {
			c := newCall(set, spec, new(starlark.Thread), nil)
			for _, p := range spec.Params {
				for _, v := range values {
					if _, err := p.Type.Convert(c, v); err != nil && err.Error() == "" {
						t.Errorf("%s: %s: an error without text for %s", spec.Name, p.Name, v)
					}
				}
			}
		}
		if q, err := parseQuantile(text); err == nil && !(q > 0 && q <= 1) {
			t.Errorf("%q is the quantile %v", text, q)
		}
		table([]string{"A", "B"}, [][]string{{text, text}, {fmt.Sprint(n), ""}})
	})
}
