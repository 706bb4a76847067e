package builtins

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/rollout"
	script "muru/starlark"
)

func TestCanaryReportsEachStepAndPromotion(t *testing.T) {
	s := newStage(t)
	s.visitors(200)
	v := s.value(`canary("shop@r2", steps = [10, 50], hold = "1m")`)
	want := []string{
		"rollout 1 of shop@r2 started against r1: step 1 of 2: 10% for 1m",
		"rollout 1 running step 1 of 2: 10% for 1m",
		"rollout 1 running step 2 of 2: 50% for 1m",
		"rollout 1 promoted: every step passed its gates",
	}
	if got := s.terminal.lines(); !slices.Equal(got, want) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantTable := "APP  ROLLOUT CANDIDATE BASELINE STATE    TRAFFIC MESSAGE\n" +
		"shop 1       r2        r1       promoted 100%    every step passed its gates"
	if got := Format(v); got != wantTable {
		t.Errorf("the rollout prints as\n%s\nwant\n%s", got, wantTable)
	}
	if len(s.terminal.progress) < 3 {
		t.Errorf("shown %d times while it ran", len(s.terminal.progress))
	}
	// Who interrupts when they read that it was started is asked what becomes of it.
	if len(s.terminal.shownAt) == 0 || s.terminal.shownAt[0] != 0 || s.terminal.progress[0] == "" {
		t.Errorf("what is waited for is first shown behind %v reports", s.terminal.shownAt)
	}
}

func TestGateThatCannotJudgeIsSaidOnce(t *testing.T) {
	s := newStageAt(t, rollout.RealClock{}) // gate functions take real time
	s.visitors(200)
	_, err := s.run(`
def main():
    canary("shop@r2", steps = [50], hold = "1s", min_requests = 1, deadline = "4s", on_no_data = "rollback",
        gates = [gate("typo", check = lambda w: w.candiate.rate("5xx") < 1)])
`)
	if muru.KindOf(err) != muru.KindRolledBack {
		t.Fatalf("ended with %v", err)
	}
	const said = "rollout 1 gate typo cannot judge: test.star:4:50: Window has no .candiate field or method (did you mean .candidate?)"
	lines := s.terminal.lines()
	if n := len(lines) - len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == said })); n != 1 {
		t.Errorf("said %d times in\n%s", n, strings.Join(lines, "\n"))
	}
}

func TestFinishedRunWaitsForTheRolloutsItLeft(t *testing.T) {
	s := newStage(t)
	s.visitors(200)
	s.value(`canary("shop@r2", steps = [50], hold = "1m", wait = False)`)
	if err := s.set.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := s.terminal.lines()
	if last := lines[len(lines)-1]; last != "rollout 1 promoted: every step passed its gates" {
		t.Errorf("the last line is %s", last)
	}
}

func TestRunThatIsInterruptedStopsWaitingForItsRollouts(t *testing.T) {
	s := newStage(t)
	s.value(`canary("shop@r2", hold = "1h", wait = False)`)
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	if err := s.set.Finish(ctx); !errors.Is(err, interrupted) {
		t.Errorf("ended with %v", err)
	}
}

func TestCanaryRaisesTheRollbackItReported(t *testing.T) {
	s := newStage(t)
	s.visitors(500)
	_, err := s.run(`canary("shop@r2")`)
	why := "gate failed at 10%: 5xx rate 100.00% over the limit of 1.00% (baseline 0.00%)"
	lines := s.terminal.lines()
	if last := lines[len(lines)-1]; last != "rollout 1 rolled_back: "+why {
		t.Errorf("the last line is %s", last)
	}
	e, ok := errors.AsType[*script.Error](err)
	if !ok || e.Kind != muru.KindRolledBack || e.Rollout != 1 || e.Message != "canary: rollout 1 of shop@r2 rolled_back: "+why {
		t.Errorf("raised %v", err)
	}
}

func TestResumeReportsTheStepItApproved(t *testing.T) {
	s := newStage(t)
	s.visitors(200)
	_, err := s.run(`
def main():
    def approve():
        wait(lambda: [r for r in rollouts("shop") if r.state == "awaiting_approval"], every = "1s")
        sleep("1s")  # what watches the canary says only the states it sees
        resume("shop", step = 2)
    parallel([lambda: canary("shop@r2", hold = "30s", approve = "each-step"), approve])
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"rollout 1 of shop@r2 started against r1: step 1 of 2: 10% for 30s",
		"rollout 1 running step 1 of 2: 10% for 30s",
		"rollout 1 awaiting_approval: step 2 of 2: 50% for 30s awaits approval: muru rollout resume shop",
		"rollout 1 promoted: every step passed its gates",
		"rollout 1 running step 2 of 2: 50% for 30s",
		"rollout 1 running: step 2 of 2: 50% for 30s",
	}
	got := s.terminal.lines()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("said\n%s", strings.Join(got, "\n"))
	}
}

func TestGateFunctionSeesTheWindow(t *testing.T) {
	for _, c := range []struct{ check, want string }{
		{`w.candidate.rate("2xx") == 100.0 and w.baseline.count("5xx") == 0`, "promoted: every step passed its gates"},
		{`w.candidate.quantile("p95") <= 1.5 * w.baseline.quantile("p95")`, "promoted: every step passed its gates"},
		{`w.candidate.release == "x"`, "rolled_back: gate failed at 10%: mine: returned False"},
		{`"fewer orders of %s" % w.candidate.release`, "rolled_back: gate failed at 10%: mine: fewer orders of shop@r2"},
		{`"fewer\n  orders\x1b"`, "rolled_back: gate failed at 10%: mine: fewer orders"},
		{`w.verdicts == [] and w.elapsed > duration("0s") or "wrong window"`, "promoted: every step passed its gates"},
	} {
		s := newStage(t)
		s.visitors(200)
		v := s.value(`attempt(lambda: canary("shop@r2", steps = [10], hold = "20s", gates = [gate("mine", check = lambda w: ` + c.check + `)]))`)
		if lines := s.terminal.lines(); !strings.HasSuffix(lines[len(lines)-1], " "+c.want) {
			t.Errorf("%s: %s (%s), want %s", c.check, lines[len(lines)-1], v, c.want)
		}
	}
}

func TestGateFunctionThatFailsIsAnErrorOfTheGate(t *testing.T) {
	for check, want := range map[string]string{
		`w.candidate.rate("6xx")`: `mine: test.star:2:134: rate: "6xx" is not counted`,
		`sleep("1s")`:             "mine: test.star:2:134: sleep: a gate function may only compute",
		`5`:                       "mine: the function returned 5, not True, False or a message",
		`[x for x in range(1000000) if x < 0] == []`: "the budget of 100000 steps is used up",
	} {
		// The engine gives a function five seconds, which have to be enough for
		// its steps.
		s := newStageAt(t, fastClock{time.Now(), 50})
		s.visitors(200)
		if _, err := s.run("def main():\n    canary(\"shop@r2\", steps = [10], hold = \"10s\", deadline = \"30s\", on_no_data = \"rollback\", gates = [gate(\"mine\", check = lambda w: " + check + ")])\n"); err == nil {
			t.Errorf("%s: promoted", check)
		}
		found := false
		for _, e := range s.engine.Events(eventQuery(muru.RolloutGateError)) {
			found = found || strings.Contains(e.Message, want)
		}
		if !found {
			t.Errorf("%s: no event says %s: %v", check, want, s.engine.Events(eventQuery("rollout.*")))
		}
	}
}

func TestObserveReturnsTheWindowAsTableOfVerdicts(t *testing.T) {
	s := newStage(t)
	s.visitors(200)
	v := s.value(`[split("shop", {"r2": 10}), observe("shop@r2", hold = "30s", gates = [gate("p95", max = "1s")])][1]`)
	lines := strings.Split(Format(v), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "GATE") || !strings.Contains(lines[1], "0.00% (0/") {
		t.Errorf("prints as\n%s", Format(v))
	}
}

func TestProgressLineShowsStepCountsAndVerdicts(t *testing.T) {
	r := muru.Rollout{
		Number: 1, State: muru.Running, Step: &muru.Step{Number: 1, Of: 2, Share: 1000, Hold: 30 * time.Second, Elapsed: 5 * time.Second, Requests: 80},
		Verdicts: []muru.Verdict{
			{Gate: "5xx", Result: muru.Fail, Count: 18, Requests: 82, BaselineRequests: 760},
			{Gate: "crashes", Result: muru.Pass},
		},
	}
	want := "rollout 1 running step 1 of 2: 10%, 5 s of 30s, 82 requests 18 5xx (baseline 760 0), 5xx fail, crashes pass"
	if got := ProgressLine(r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.Step.Least = 80
	if got := ProgressLine(r); got != want {
		t.Errorf("with its minimum it is %s", got)
	}
	r.Step.Least = 100
	if got := ProgressLine(r); got != want+", needs 20 more requests" {
		t.Errorf("below its minimum it is %s", got)
	}
	r.Step, r.State, r.Message = nil, muru.Promoted, "every step passed its gates"
	if got := ProgressLine(r); got != "rollout 1 promoted: every step passed its gates" {
		t.Errorf("got %s", got)
	}
}

func TestReasonIsOneLineInTheEvent(t *testing.T) {
	s := newStage(t)
	v := s.value(`[promote("shop@r2"), rollback("shop@r2", reason = "one\n211 03:09:40 error forged")] and events("shop", kind = "app.rolled_back")[-1].message`)
	if got := Text(v); !strings.HasSuffix(got, ": one 211 03:09:40 error forged") {
		t.Errorf("%q", got)
	}
}

func TestWhyPrintsTheVerdictsAndRecomputesThem(t *testing.T) {
	s := newStage(t)
	s.visitors(500)
	if _, err := s.run(`attempt(lambda: canary("shop@r2"))`); err != nil {
		t.Fatal(err)
	}
	text := Format(s.value(`why("shop")`))
	want := []string{
		"rollout 1 of shop@r2 against r1: rolled_back: gate failed at 10%: 5xx rate 100.00% over the limit of 1.00% (baseline 0.00%), step 1 of 2: 10% for 30s, window ",
		"GATE    VERDICT CANDIDATE ",
		"5xx     fail    100.00% (",
		"crashes pass    0 ",
		"split: ",
		"record: recomputed, the same verdicts",
	}
	lines := strings.Split(text, "\n")
	for i, line := range []int{0, 1, 2, 3, len(lines) - 2, len(lines) - 1} {
		if !strings.HasPrefix(lines[line], want[i]) {
			t.Errorf("line %d does not begin with %q:\n%s", line+1, want[i], text)
		}
	}
	if v := s.value(`why(1).decided.gate`); v.String() != `"5xx"` {
		t.Errorf("%s decided", v)
	}
}
