package builtins

import (
	"strings"
	"testing"
	"time"

	"go.starlark.net/lib/json"
	"go.starlark.net/starlark"

	"muru"
)

func TestTablesAreAlignedAsPeopleReadThem(t *testing.T) {
	s := newStage(t)
	s.value(`canary("shop@r2", hold = "1h", wait = False)`)
	for expr, want := range map[string]string{
		"status()": "APP  BASELINE CANDIDATE TRAFFIC        HELD WARM ROLLOUT\n" +
			"shop r1       r2        r1 90%, r2 10% -    -    1 running",
		`status("shop")`: "APP  BASELINE CANDIDATE TRAFFIC        HELD WARM ROLLOUT\n" +
			"shop r1       r2        r1 90%, r2 10% -    -    1 running",
		`rollouts("shop")`: "APP  ROLLOUT CANDIDATE BASELINE STATE   TRAFFIC MESSAGE\n" +
			"shop 1       r2        r1       running 10%     -",
		`rollouts("shop")[0].steps`: "STEP   SHARE HOLD ELAPSED REQUESTS\n" +
			"1 of 2 10%   1h   0 ms    0\n" +
			"2 of 2 50%   1h   0 ms    0",
		`[gate("5xx"), gate("p95", max = "250ms"), gate("queue_wait", ratio = 1.5)]`: "GATE       MAX    RATIO KIND\n" +
			"5xx        1.00%  1     builtin\n" +
			"p95        250 ms 1     builtin\n" +
			"queue_wait -      1.5   builtin",
		`workers("shop@r1")`: "RELEASE WORKER PID  STATE SERVED BUSY REQUEST AGE RSS CPU\n" +
			"shop@r1 0      4242 ready 0      0    -       -   0 B 0.0%",
		`["one", "two"]`:                        "one\ntwo",
		`[1, "two"]`:                            `[1, "two"]`,
		`[]`:                                    "[]",
		`"text"`:                                "text",
		`{"a": duration("90s")}`:                `{"a": 1m30s}`,
		`[status("shop"), releases("shop")[0]]`: "[shop, shop@r1]",
		`rollouts("shop")[0].candidate.name`:    "r2",
	} {
		if got := Format(s.value(expr)); got != want {
			t.Errorf("%s prints as\n%s\nwant\n%s", expr, got, want)
		}
	}
	table := Format(s.value(`releases("shop")`))
	if !strings.HasPrefix(table, "RELEASE STATE   TRAFFIC WORKERS KIND   SOURCE  AGE\nshop@r1 serving 90%     2       python shop/v5 ") {
		t.Errorf("releases print as\n%s", table)
	}
}

func TestEventsAndStacksPrintAsLines(t *testing.T) {
	s := newStage(t)
	text := Format(s.value(`events("shop@r2", kind = "release.*")`))
	lines := strings.Split(text, "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[1], " notice  release.held        shop@r2 ready and held: not serving") {
		t.Errorf("events print as\n%s", text)
	}
	stack := muru.Stack{
		Release: muru.ReleaseID{App: "shop", Number: 2}, Worker: 1, PID: 4242, Thread: 3, Request: "01M8", Method: "GET", Path: "/orders/2",
		Age: 41 * time.Second, Frames: []muru.Frame{{File: "app.py", Line: 27, Function: "order"}},
	}
	want := "shop@r2 worker 1 (pid 4242) thread 3: GET /orders/2, request 01M8, for 41 s\n  app.py line 27 in order"
	if got := Format(s.set.stack(stack)); got != want {
		t.Errorf("a stack prints as\n%s", got)
	}
}

func TestVerdictCellsShowCountsAndEvidence(t *testing.T) {
	v := muru.Verdict{
		Gate: "5xx", Result: muru.Pass, Candidate: muru.PercentOf(100 * 5.0 / 82), Baseline: muru.PercentOf(100 * 45.0 / 760), Limit: muru.PercentOf(1),
		Count: 5, Requests: 82, BaselineCount: 45, BaselineRequests: 760, Needed: 100,
	}
	crashes := muru.Verdict{Gate: "crashes", Result: muru.Pass, Candidate: muru.CountOf(0), Baseline: muru.CountOf(0), Limit: muru.CountOf(0)}
	want := "GATE    VERDICT CANDIDATE    BASELINE       LIMIT EVIDENCE\n" +
		"5xx     pass    6.10% (5/82) 5.92% (45/760) 1.00% 0 of 100\n" +
		"crashes pass    0            0              0     -"
	if got := Format(listOf([]muru.Verdict{v, crashes}, verdictRecord)); got != want {
		t.Errorf("verdicts print as\n%s\nwant\n%s", got, want)
	}
}

func TestDurationsAndTimesCalculate(t *testing.T) {
	s := newEmptyStage(t, newFastClock())
	for expr, want := range map[string]string{
		`duration("1m") + duration("30s")`:                                   "1m30s",
		`duration("1m") - duration("90s")`:                                   "-30s",
		`1.5 * duration("1m")`:                                               "1m30s",
		`duration("1m") * 2`:                                                 "2m",
		`duration("1m") / 4`:                                                 "15s",
		`duration("1m") / duration("40s")`:                                   "1.5",
		`-duration("1s")`:                                                    "-1s",
		`duration("1m") > duration("59s")`:                                   "True",
		`sorted([duration("2s"), duration("1s")])`:                           "[1s, 2s]",
		`duration("1500ms").seconds`:                                         "1.5",
		`duration("1500ms").milliseconds`:                                    "1500.0",
		`bool(duration("0s"))`:                                               "False",
		`{duration("60s"): 1}[duration("1m")]`:                               "1",
		`now() + duration("1h") - now() < duration("61m")`:                   "True",
		`now() - duration("1h") < now()`:                                     "True",
		`now().in_location("UTC").format("Z07:00")`:                          "Z",
		`len(now().format("0102-150405"))`:                                   "11",
		`now().unix > 1700000000 and now().year > 2020 and now().month < 13`: "True",
		`type(now().weekday)`:                                                "string",
		`json.encode([duration("90s"), gate("p95", max = "1s")])`:            `[90,{"name":"p95","max":1,"ratio":1,"kind":"builtin"}]`,
	} {
		if got := Text(s.value(expr)); got != want {
			t.Errorf("%s is %s, want %s", expr, got, want)
		}
	}
	if _, err := s.run("def main():\n    return now() + 1\n"); err == nil {
		t.Error("a time and a number were added")
	}
}

func TestNamedValuesHashAndCompareByName(t *testing.T) {
	s := newStage(t)
	for _, expr := range []string{
		`releases("shop")[0] == releases("shop")[0]`,
		`releases("shop")[0] != releases("shop")[1]`,
		`status("shop") == status("shop")`,
		`{releases("shop")[0]: 1}[status("shop").baseline] == 1`,
		`status("shop") in {status("shop"): 1}`,
		`status("shop").split[status("shop").baseline] == 100.0`,
		`status("shop").held[0].name == "r2"`,
		`releases("shop")[0] != status("shop")`,
		`gate("5xx") != gate("5xx")`,
	} {
		if s.value(expr) != starlark.True {
			t.Errorf("%s is not True", expr)
		}
	}
	if _, err := s.run(`x = {gate("5xx"): 1}`); err == nil || !strings.Contains(err.Error(), "unhashable") {
		t.Errorf("a gate was hashed: %v", err)
	}
	if _, err := s.run("def main():\n    status(\"shop\").held.append(1)\n"); err == nil || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("a snapshot was changed: %v", err)
	}
}

func TestArmWithoutRequestsHasNoData(t *testing.T) {
	s := newStage(t)
	w := s.set.window(muru.Window{Candidate: muru.Arm{Release: muru.ReleaseID{App: "shop", Number: 2}}})
	thread := new(starlark.Thread)
	arm, _ := w.Attr("candidate")
	for method, args := range map[string]starlark.Tuple{"rate": {starlark.String("5xx")}, "quantile": {starlark.String("p95")}} {
		f, _ := arm.(*Record).Attr(method)
		_, err := starlark.Call(thread, f, args, nil)
		if muru.KindOf(err) != muru.KindNoData || err.Error() != method+": shop@r2 had no request" {
			t.Errorf("%s: %v", method, err)
		}
	}
	count, _ := arm.(*Record).Attr("count")
	if n, err := starlark.Call(thread, count, nil, nil); err != nil || n.String() != "0" {
		t.Errorf("count: %v %v", n, err)
	}
	if baseline, _ := w.Attr("baseline"); baseline != starlark.None {
		t.Errorf("baseline is %v", baseline)
	}
}

func TestValuesEncodeAsJSONWithNamesInside(t *testing.T) {
	s := newStage(t)
	r := s.value(`canary("shop@r2", hold = "1h", wait = False)`)
	encoded, err := starlark.Call(new(starlark.Thread), json.Module.Members["encode"], starlark.Tuple{r}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"number":1,`, `"candidate":"shop@r2"`, `"step":{"number":1,`, `"hold":3600`, `"ended":null`} {
		if !strings.Contains(Text(encoded), want) {
			t.Errorf("%s lacks %s", encoded, want)
		}
	}
}

func TestErrorCarriesTheRolloutItIsAbout(t *testing.T) {
	s := newStage(t)
	s.visitors(500)
	got := Text(s.value(`[e.kind + " " + e.rollout.state + " " + e.where for e in [attempt(lambda: canary("shop@r2"))[1]]][0]`))
	if !strings.HasPrefix(got, "rolled_back rolled_back test.star:2:") {
		t.Errorf("got %s", got)
	}
}
