package builtins

import (
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

var windowKind = &kind{
	name: "Window",
	doc:  "what the judge has seen of both releases over the same time",
	attrs: []attr{
		{"candidate", "Arm", "what the candidate did"},
		{"baseline", "Arm or None", "what the baseline did; None when it gets no traffic"},
		{"step", "Step or None", "of the rollout"},
		{"elapsed", "Duration", "how long was watched"},
		{"verdicts", "list of Verdict", "of every gate; empty in a gate's function"},
	},
	columns: verdictKind.columns,
}

// window makes a Window that may be kept: its arms show their releases as they
// are now.
func (s *Set) window(w muru.Window) *Record { return windowOf(w, s.arm) }

// gateWindow makes the Window of a gate's function, which is asked each second
// and looks at little of it. Nobody can keep such a window beyond the call, so
// that a release is looked up only if it is asked for. The judge calls this:
// what the engine is asked must not wait for an app's actor.
func (s *Set) gateWindow(w muru.Window) *Record {
	return windowOf(w, func(a muru.Arm) *Record {
		id := a.Release
		return armKind.later(a, nil, func() []starlark.Value { return []starlark.Value{s.releaseByID(id)} })
	})
}

func windowOf(w muru.Window, arm func(muru.Arm) *Record) *Record {
	var rows [][]string
	for _, v := range w.Verdicts {
		rows = append(rows, verdictRecord(v).rows...)
	}
	baseline := starlark.Value(starlark.None)
	if w.Baseline != nil {
		baseline = arm(*w.Baseline)
	}
	return windowKind.record(w, "", rows,
		arm(w.Candidate), baseline, stepOrNone(w.Step), Duration(w.Elapsed), listOf(w.Verdicts, verdictRecord))
}

var armKind = &kind{
	name:    "Arm",
	doc:     "what one release did in a window",
	attrs:   []attr{{"release", "Release", "whose window it is"}},
	methods: []*Spec{armCount, armRate, armQuantile},
}

func (s *Set) arm(a muru.Arm) *Record {
	release := s.named(a.Release) // as it is now
	return armKind.later(a, nil, func() []starlark.Value { return []starlark.Value{release()} })
}

const armWhat = "what is counted: requests, clients, 2xx, 3xx, 4xx, 5xx or crashes"

var armCount = &Spec{
	Name:    "count",
	Summary: "counts requests, clients or crashes",
	Doc:     "Requests that ended or are overdue. Those whose client left count as requests and in no class of statuses.",
	Params:  []Param{{Name: "what", Type: textType, Pass: Positional, Default: starlark.String("requests"), Doc: armWhat}},
	Returns: "int",
	Example: `gate("busy", check = lambda w: w.candidate.count() < 100000)`,
	Fn: func(c *Call) (starlark.Value, error) {
		n, err := countOf(c)
		return starlark.MakeInt(n), err
	},
}

var armRate = &Spec{
	Name:    "rate",
	Summary: "is a count as percent of the requests",
	Doc:     "On the scale of 0 to 100: 21.95 is 21.95%. Compare it with the same of the other arm rather than with a number.",
	Params:  []Param{{Name: "what", Type: textType, Pass: Positional, Doc: armWhat}},
	Returns: "float",
	Errors:  []string{"no_data: the release had no request"},
	Example: `gate("carts", check = lambda w: w.candidate.rate("5xx") <= 2 * w.baseline.rate("5xx"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		n, err := countOf(c)
		if err != nil {
			return nil, err
		}
		arm, _ := native[muru.Arm](c.receiver)
		if arm.Requests == 0 {
			return nil, noRequests(arm)
		}
		return starlark.Float(100 * float64(n) / float64(arm.Requests)), nil
	},
}

var armQuantile = &Spec{
	Name:    "quantile",
	Summary: "is the time within which a part of the requests were answered",
	Doc:     "Within 6.25% of the truth; a gate of that name counts exactly.",
	Params: []Param{
		{Name: "which", Type: textType, Pass: Positional, Doc: "p50, p95, p99 and so on"},
		{Name: "of", Type: enumType("duration", "queue_wait"), Default: starlark.String("duration"), Doc: "which time of a request"},
	},
	Returns: "Duration",
	Errors:  []string{"no_data: the release had no request"},
	Example: `gate("slower", check = lambda w: w.candidate.quantile("p95") <= 1.5 * w.baseline.quantile("p95"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		q, err := parseQuantile(arg[string](c, "which"))
		if err != nil {
			return nil, err
		}
		arm, _ := native[muru.Arm](c.receiver)
		times := arm.Durations
		if arg[string](c, "of") == "queue_wait" {
			times = arm.QueueWait
		}
		d, ok := times.Quantile(q)
		if !ok {
			return nil, noRequests(arm)
		}
		return Duration(d), nil
	},
}

func countOf(c *Call) (int, error) {
	what := arg[string](c, "what")
	arm, _ := native[muru.Arm](c.receiver)
	n, ok := arm.Count(what)
	if ok {
		return n, nil
	}
	err := usagef("%q is not counted", what).WithHint("%s", armWhat)
	if near := muru.Suggest(what, muru.ArmCounts); near != "" {
		err = err.WithHint("did you mean %q?", near)
	}
	return 0, err
}

func noRequests(a muru.Arm) error {
	return muru.Errorf(muru.KindNoData, "%s had no request", a.Release)
}

// parseQuantile parses p50, p99 and p99.9 as fractions.
func parseQuantile(text string) (float64, error) {
	digits, ok := strings.CutPrefix(text, "p")
	p, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(p > 0 && p <= 100) {
		return 0, usagef("%q is not a quantile", text).WithHint(`write it like "p50", "p95" or "p99.9"`)
	}
	return p / 100, nil
}
