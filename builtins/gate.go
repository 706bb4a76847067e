package builtins

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	script "muru/starlark"
)

// builtinGates are the gates muru measures itself.
var builtinGates = []string{
	muru.Gate5xx, muru.GateCrashes, muru.GateP95, muru.GateP99, muru.GateQueueWait, muru.GateProbe,
}

var gateSpec = (&Spec{
	Name:    "gate",
	Group:   GroupRollouts,
	Summary: "is one condition a candidate must hold",
	Doc: `Measured by muru: 5xx (max is a percentage, 1% by default), crashes (crashes and kills of workers;
max 0; needs no minimum of requests), p95, p99 and queue_wait (its p95; max is a duration, None is
the baseline's own). A request counts as slower than max the moment max passes, answered or not.
probe requests each of paths from both releases through a real worker, and fails when the
candidate alone fails failures times in a row: status 400 and above, no answer within the time, or
a body that does not match.

Any other name needs one of three. check is a function of a Window that returns True, False or a
message, which is a failure. It is asked each second once the candidate has min_requests in the
step, on a thread of its own with 100,000 steps, and may only compute. header names a header of the
application's answers that marks an event, such as a lost cart; max is a percentage of the requests.
url and query ask a store that speaks Prometheus' HTTP API; max is a number. {{candidate}} and
{{baseline}} in the query become r6 and r5, as in the label release of muru's own metrics. An error
or an empty result is no pass; the store is asked again.

Rates and times fail only if the candidate is over max and worse than ratio times the baseline.
Judged in every canary, unless named: 5xx at 1%, crashes at 0, and p99 at 30s.`,
	Params: []Param{
		{Name: "name", Type: textType, Pass: Positional, Doc: "5xx crashes p95 p99 queue_wait probe, or a name of your own"},
		{Name: "max", Type: limitType, Default: starlark.None, Doc: `the limit: "1%" for 5xx and header, a count for crashes, "250ms" for times, a number for query`},
		{Name: "check", Type: functionType, Default: starlark.None, Doc: "function of a Window"},
		{Name: "header", Type: headerNameType, Default: starlark.None, Doc: "answer header that marks an event"},
		{Name: "url", Type: urlType, Default: starlark.None, Doc: "the store that query is for, up to its /api"},
		{Name: "query", Type: textType, Default: starlark.None, Doc: "expression with one number as its result"},
		{Name: "paths", Type: listType[string](pathAndQuery), Default: list(), Doc: "what probe requests"},
		{Name: "body", Type: textType, Default: starlark.None, Doc: "regular expression the body of a probe must match"},
		{Name: "within", Type: positive(durationType), Default: seconds(5), Doc: "time a probe or query has to answer"},
		{Name: "every", Type: positive(durationType), Default: seconds(5), Doc: "how often probe or query asks"},
		{Name: "failures", Type: intType(1), Default: starlark.MakeInt(2), Doc: "failed probes in a row that are one failure"},
		{Name: "ratio", Type: ratioType, Default: starlark.MakeInt(1), Doc: "how many times worse than the baseline is tolerated"},
	},
	Returns: "Gate",
	Errors:  []string{"usage: a name that is not known without check, header or query, or keywords of another kind of gate"},
	Example: `gate("probe", paths = ["/healthz"], within = "2s")`,
	Effect:  Pure,
	Fn:      makeGate,
}).check()

func makeGate(c *Call) (starlark.Value, error) {
	name := arg[string](c, "name")
	g := muru.Gate{Name: name, Ratio: arg[float64](c, "ratio")}
	if !containsWord(builtinGates, name) {
		return c.ownGate(g)
	}
	if c.isSet("check") {
		return nil, usagef("check: %s is measured by muru: give the function another name", name)
	}
	if err := c.refuse(name, "header", "url", "query"); err != nil {
		return nil, err
	}
	if name == muru.GateProbe {
		return c.probeGate(g)
	}
	if err := c.refuse(name, "paths", "body", "within", "every", "failures"); err != nil {
		return nil, err
	}
	limit, err := gateMax(name, arg[starlark.Value](c, "max"))
	if err != nil {
		return nil, at("max", err)
	}
	g.Max = limit
	return gateRecord(g), nil
}

// gateMax converts the limit of a gate that muru measures.
func gateMax(name string, v starlark.Value) (muru.Measure, error) {
	if v == nil {
		for _, g := range muru.DefaultGates() {
			if g.Name == name && name != muru.GateP99 {
				return g.Max, nil
			}
		}
		return muru.Measure{}, nil // the baseline's own
	}
	switch name {
	case muru.Gate5xx:
		p, err := toPercent(v)
		if err == nil && p > 100 {
			err = usagef("%s is over 100%%", muru.FormatRate(p))
		}
		return muru.PercentOf(p), err
	case muru.GateCrashes:
		n, err := intType(0).Convert(nil, v)
		if err != nil {
			return muru.Measure{}, err
		}
		return muru.CountOf(n.(int)), nil
	}
	d, err := toDuration(v)
	if err == nil && d == 0 {
		err = usagef("0s is no limit a request can keep")
	}
	return muru.TimeOf(d), err
}

func (c *Call) probeGate(g muru.Gate) (starlark.Value, error) {
	if err := c.refuse("probe", "max", "ratio"); err != nil {
		return nil, err
	}
	g.Paths, g.Body = arg[[]string](c, "paths"), arg[string](c, "body")
	g.Within, g.Every, g.Failures = arg[time.Duration](c, "within"), arg[time.Duration](c, "every"), arg[int](c, "failures")
	if len(g.Paths) == 0 {
		return nil, usagef("paths is missing: a probe needs something to request").WithHint(`paths = ["/healthz"]`)
	}
	if _, err := regexp.Compile(g.Body); err != nil {
		return nil, usagef("body: %s", regexpProblem(err))
	}
	return gateRecord(g), nil
}

// ownGate makes a gate with a name of its author.
func (c *Call) ownGate(g muru.Gate) (starlark.Value, error) {
	if strings.TrimSpace(g.Name) == "" || strings.ContainsAny(g.Name, "\n\r\t") {
		return nil, usagef("name: %q is not a name", g.Name)
	}
	switch {
	case c.isSet("check"):
		return c.checkGate(g)
	case c.isSet("header"):
		return c.headerGate(g)
	case c.isSet("query") || c.isSet("url"):
		return c.queryGate(g)
	}
	err := unknownWord(g.Name, "is not a gate that muru measures, and there is no check", builtinGates)
	if m := asMuru(err); m.Hint == "" {
		return nil, m.WithHint("give check = a function of the window, or one of %s", strings.Join(builtinGates, ", "))
	}
	return nil, err
}

// headerGate makes a gate on events that the app marks.
func (c *Call) headerGate(g muru.Gate) (starlark.Value, error) {
	if err := c.refuse("a gate with a header", "url", "query", "paths", "body", "within", "every", "failures"); err != nil {
		return nil, err
	}
	v := arg[starlark.Value](c, "max")
	if v == nil {
		return nil, usagef("max is missing: how many percent of the requests may be marked?").WithHint(`max = "0.1%%"`)
	}
	p, err := toPercent(v)
	if err == nil && p > 100 {
		err = usagef("%s is over 100%%", muru.FormatRate(p))
	}
	if err != nil {
		return nil, at("max", err)
	}
	g.Kind, g.Header, g.Max = muru.GateHeader, arg[string](c, "header"), muru.PercentOf(p)
	return gateRecord(g), nil
}

// queryGate makes a gate on what a store says.
func (c *Call) queryGate(g muru.Gate) (starlark.Value, error) {
	if err := c.refuse("a gate with a query", "ratio", "paths", "body", "failures"); err != nil {
		return nil, err
	}
	for _, name := range []string{"url", "query", "max"} {
		if !c.isSet(name) {
			return nil, usagef("%s is missing: a gate with a query needs url, query and max", name)
		}
	}
	limit, ok := starlark.AsFloat(arg[starlark.Value](c, "max"))
	if !ok {
		return nil, at("max", wanted("a number", arg[starlark.Value](c, "max")))
	}
	g.Kind, g.Max = muru.GateQuery, muru.NumberOf(limit)
	g.URL, g.Query = arg[requestURL](c, "url").url.String(), arg[string](c, "query")
	g.Within, g.Every = arg[time.Duration](c, "within"), arg[time.Duration](c, "every")
	return gateRecord(g), nil
}

func (c *Call) checkGate(g muru.Gate) (starlark.Value, error) {
	if err := c.refuse("a gate with a check", "max", "ratio", "header", "url", "query", "paths", "body", "within", "every", "failures"); err != nil {
		return nil, err
	}
	check := arg[starlark.Callable](c, "check")
	if fn, ok := check.(*starlark.Function); ok {
		// It is called while the recipe goes on, on another thread.
		if name := script.Rebound(fn); name != "" {
			return nil, usagef("check: the function uses %s, which is assigned more than once", name).
				WithHint("make the function in a def of its own that takes %s as a parameter", name)
		}
	}
	g.Kind = muru.GateCheck
	g.Check = c.checkFunc(g.Name, check)
	return gateRecord(g), nil
}

// refuse refuses keywords that say nothing about this kind of gate.
func (c *Call) refuse(what string, names ...string) error {
	for _, name := range names {
		if c.isGiven(name) {
			return usagef("%s does not apply to %s", name, what)
		}
	}
	return nil
}

// checkFunc makes the engine's form of a gate's function. The function is
// frozen, runs on a thread of its own and gets a frozen window.
func (c *Call) checkFunc(name string, fn starlark.Callable) muru.GateCheckFunc {
	script.Freeze(fn)
	set, how := c.set, script.Gate(name)
	return func(ctx context.Context, w muru.Window) (bool, string, error) {
		v, err := script.Call(ctx, fn, starlark.Tuple{set.gateWindow(w)}, how)
		if err != nil {
			return false, "", err
		}
		switch v := v.(type) {
		case starlark.Bool:
			if v {
				return true, "", nil
			}
			return false, "returned False", nil
		case starlark.String:
			return false, muru.OneLine(string(v)), nil
		}
		return false, "", fmt.Errorf("the function returned %s, not True, False or a message", describe(v))
	}
}

// limitType is converted by gateMax, once the name of the gate is known.
var limitType Type = typeOf{"percentage, int or duration", anyType.Convert}

// gateType takes gates and returns muru.Gate.
var gateType Type = typeOf{"Gate", func(_ *Call, v starlark.Value) (any, error) {
	if g, ok := native[muru.Gate](v); ok {
		return g, nil
	}
	err := wanted("a gate", v)
	if s, ok := v.(starlark.String); ok {
		return nil, err.WithHint("gate(%s) makes one", s)
	}
	return nil, err
}}

// ratioType takes numbers from 1 on. Below, a candidate as good as the baseline
// would fail, and clients that come back would make it certain: of each the
// first event alone counts, and those of both arms are used up.
var ratioType Type = typeOf{"float", func(_ *Call, v starlark.Value) (any, error) {
	x, ok := starlark.AsFloat(v)
	if !ok {
		return nil, wanted("a number", v)
	}
	if !(x >= 1 && x < 1e9) {
		return nil, usagef("%s is not a ratio: 1 is as bad as the baseline, 2 twice as bad", v).
			WithHint("a candidate that must be better than the baseline needs a gate with a check")
	}
	return x, nil
}}

// pathAndQuery is a path that may have a query.
var pathAndQuery = checkedText("path", func(path string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "# \t\r\n") {
		return `write it like "/search?q=tea"`
	}
	return ""
})

// headerNameType takes the name of a header field.
var headerNameType = checkedText("header", func(name string) string {
	if key, err := muru.ParseKey("header:" + name); err != nil || key.Name != name {
		return `write it like "X-Cart-Lost"`
	}
	return ""
})

// regexpProblem words an error of regexp without Go's name for it.
func regexpProblem(err error) string {
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}
