package builtins

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

var gatesParam = Param{
	Name: "gates", Type: listType[muru.Gate](gateType), Default: list(),
	Doc: "conditions beside the ones that are always judged; naming one of those replaces it",
}

var canarySpec = (&Spec{
	Name:    "canary",
	Group:   GroupRollouts,
	Summary: "gives a release more and more traffic while its gates pass, then all; else takes it out at once",
	Doc: `Each step is a share or (share, hold); shares go up, 0 (previews only) may come first and 100 last.
"25% shadow" sends the candidate copies of the GET and HEAD requests of a share's clients and drops
its answers: what it fails that the baseline does not counts; such steps come before the others. A
step lasts at least hold from the candidate's first request in it, and until the candidate has
min_requests in it and every gate passes. A gate fails only if the candidate is over its limit and
worse than the baseline in the same time; a failing gate acts at once.

The judge "sequential" also asks whether that may be chance: it fails a rate when the evidence that
the candidate is worse reaches 1/alpha, at any time in the rollout. That takes three failures of
three clients where the baseline has none, at a share of 10%; and of a hundred rollouts of a
release no worse than its baseline, a gate fails one at most. Each client counts once.
"threshold" fails a rate that is over the limit and higher than the baseline's after min_requests.

deadline bounds each step from its start; None is hold and 10 minutes. A step that reaches it
without enough requests asks a person ("approve") or is rolled back, as on_no_data says. No data is
never a pass.

until = "confident" ends a step as soon as its hold is over and every rate is proven to be less than
twice the baseline's, or under its limit without any event, however many requests that takes.

on_fail = "freeze" pauses instead, with the share as it is: for changes that a rollback does not
undo. on_conflict = "supersede" takes the candidate of the live rollout out and starts; "queue"
starts when that one has ended.

approve lets a person decide: before each step after the first ("each-step"), before all traffic
("promotion"), or both ("all"). resume() approves.

With shield, people do not see what the candidate fails: where it answers a GET or HEAD with a 5xx, or
muru has to, the baseline is asked instead. The gates see the candidate's failure. Not on a sticky
route, whose clients are to stay with one release.

Returns when the release is promoted and raises when the rollout ends otherwise; with wait = False
it returns the running rollout, and the run waits for its end when the recipe is done.`,
	Params: []Param{
		{Name: "release", Type: releaseNoun, Pass: Positional, Doc: "the candidate, held or warm"},
		{Name: "steps", Type: stepsType, Default: ints(10, 50), Doc: `shares, such as [10, 50] or [(0, "1h"), "0.5%", 10]`},
		{Name: "hold", Type: durationType, Default: seconds(30), Doc: "how long a step lasts at least"},
		gatesParam,
		{Name: "approve", Type: enumType("each-step", "promotion", "all"), Default: starlark.None, Doc: "what a person is asked before"},
		{Name: "judge", Type: enumType("sequential", "threshold"), Default: starlark.String("sequential"), Doc: "how rates fail: sequential by evidence, threshold by comparing them"},
		{Name: "alpha", Type: alphaType, Default: starlark.String("1%"), Doc: "sequential: the false alarms of one gate over the whole rollout, at most"},
		{Name: "min_requests", Type: intType(0), Default: starlark.MakeInt(100), Doc: "requests of the candidate in each step before gates can pass (threshold: or rates fail)"},
		{Name: "deadline", Type: positive(durationType), Default: starlark.None, Doc: "how long a step may last"},
		{Name: "on_no_data", Type: enumType("approve", "rollback"), Default: starlark.String("approve"), Doc: "what happens at the deadline"},
		{Name: "until", Type: enumType("hold", "confident"), Default: starlark.String("hold"), Doc: "what ends a step: hold and min_requests, or hold and proof"},
		{Name: "on_fail", Type: enumType("rollback", "freeze"), Default: starlark.String("rollback"), Doc: "what a failing gate does"},
		{Name: "on_conflict", Type: enumType("refuse", "supersede", "queue"), Default: starlark.String("refuse"), Doc: "what happens while another rollout of the app is live"},
		{Name: "shield", Type: boolType, Default: starlark.False, Doc: "the baseline answers each GET or HEAD that the candidate fails"},
		{Name: "wait", Type: boolType, Default: starlark.True, Doc: "wait for the end"},
	},
	Returns: "Rollout",
	Errors: []string{
		"rolled_back: a gate failed, data was missing, or the candidate was not ready",
		"aborted: somebody ended it", "superseded: another rollout took its place",
		"refused: the release serves or has failed, nothing serves yet, or a rollout of the app is live; shield on a sticky route",
	},
	Example: `canary("shop@r6", steps = [10, 50], hold = "1m", gates = [gate("p95", max = "250ms")])`,
	Effect:  Change,
	Fn:      canary,
}).check()

func canary(c *Call) (starlark.Value, error) {
	steps := arg[[]muru.Step](c, "steps")
	hold := arg[time.Duration](c, "hold")
	for i := range steps {
		if steps[i].Hold == holdOfRollout {
			steps[i].Hold = hold
		}
	}
	gates, err := c.gates()
	if err != nil {
		return nil, err
	}
	r, report, err := c.engine().Canary(c.ctx, rollout.CanaryRequest{
		Caller: c.caller(), Release: arg[muru.ReleaseID](c, "release"), Steps: steps, Gates: gates,
		Approve: approvals[arg[string](c, "approve")], Judge: arg[string](c, "judge"), Alpha: arg[float64](c, "alpha"),
		MinRequests: arg[int](c, "min_requests"), Deadline: arg[time.Duration](c, "deadline"),
		OnNoData: noData[arg[string](c, "on_no_data")], Until: untils[arg[string](c, "until")],
		OnFail: onFail[arg[string](c, "on_fail")], OnConflict: onConflict[arg[string](c, "on_conflict")],
		Shield: arg[bool](c, "shield"),
	})
	if err == nil && arg[string](c, "until") == "hold" { // otherwise the proof decides whether there were enough
		c.set.needs(r.Number, arg[int](c, "min_requests"))
	}
	return c.started(r, report, err)
}

// started reports that a rollout was started, and waits for its end if the
// call does. What waits for it is shown first: who interrupts when they read
// the report is asked what becomes of the rollout.
func (c *Call) started(r muru.Rollout, report rollout.Report, err error) (starlark.Value, error) {
	wait := err == nil && arg[bool](c, "wait")
	if wait && r.Live() {
		c.set.env.Terminal.Progress(r.Number, ProgressLine(r, c.set.leastOf(r.Number)))
	}
	c.say(report)
	switch {
	case err != nil:
		return nil, err
	case !wait:
		return c.set.rollout(r), nil
	}
	return c.waitRollout(c.ctx, r.Number)
}

var approvals = map[string]muru.Approve{
	"": muru.ApproveNothing, "each-step": muru.ApproveEachStep, "promotion": muru.ApprovePromotion, "all": muru.ApproveAll,
}

var (
	untils     = map[string]rollout.Until{"hold": rollout.UntilHold, "confident": rollout.UntilConfident}
	onFail     = map[string]rollout.OnFail{"rollback": rollout.OnFailRollback, "freeze": rollout.OnFailFreeze}
	onConflict = map[string]rollout.OnConflict{
		"refuse": rollout.ConflictRefuse, "supersede": rollout.ConflictSupersede, "queue": rollout.ConflictQueue,
	}
)

var noData = map[string]muru.NoData{"approve": muru.NoDataApprove, "rollback": muru.NoDataRollback}

// gates are the gates of a call, each name once.
func (c *Call) gates() ([]muru.Gate, error) {
	gates := arg[[]muru.Gate](c, "gates")
	seen := make(map[string]bool, len(gates))
	for i, g := range gates {
		if seen[g.Name] {
			return nil, at(fmt.Sprintf("gates[%d]", i), usagef("there are two gates %s", g.Name))
		}
		seen[g.Name] = true
	}
	return gates, nil
}

// waitRollout waits for the end of a rollout and shows it on the terminal.
func (c *Call) waitRollout(ctx context.Context, number int) (starlark.Value, error) {
	w := watcher{terminal: c.set.env.Terminal, least: c.set.leastOf(number)}
	r, err := c.engine().WaitRollout(ctx, number, w.see)
	if err != nil {
		return nil, err
	}
	return c.set.rollout(r), nil
}

// Finish waits for the live rollouts that the run started and did not wait
// for, and shows them as wait() does. How they end is no error: a recipe that
// wants to know waits itself. It returns early, with the cause of ctx, when
// ctx ends; the rollouts then go on.
func (s *Set) Finish(ctx context.Context) error {
	all, err := s.env.Engine.Rollouts("")
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Run != s.env.Run || !r.Live() {
			continue
		}
		w := watcher{terminal: s.env.Terminal, least: s.leastOf(r.Number)}
		if _, err := s.env.Engine.WaitRollout(ctx, r.Number, w.see); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// A watcher says what changes in a rollout: a line at the first look, one at
// each new step, one at every other change and so one at the end, and one for
// a gate that cannot judge: it holds the step up, and only its author can help.
type watcher struct {
	terminal Terminal
	least    int // requests that a step needs, 0: not known
	last     string
	errors   map[string]string // gate: what went wrong, as it was said
}

func (w *watcher) see(r muru.Rollout) {
	for _, v := range r.Verdicts {
		if v.Result != muru.GateError || w.errors[v.Gate] == v.Message {
			continue
		}
		if w.errors == nil {
			w.errors = make(map[string]string)
		}
		w.errors[v.Gate] = v.Message
		w.terminal.Say(fmt.Sprintf("rollout %d gate %s cannot judge: %s", r.Number, v.Gate, v.Message))
	}
	progress := ""
	if r.Live() {
		progress = ProgressLine(r, w.least)
	}
	if line := StatusLine(r); line != w.last {
		if w.last == "" && r.Live() {
			w.terminal.Progress(r.Number, progress) // before the first line, as in started
		}
		w.last = line
		w.terminal.Say(line)
	}
	w.terminal.Progress(r.Number, progress)
}

// StatusLine words the state of a rollout for somebody who waits for it:
//
//	rollout 2 running step 1 of 2: 10% for 20s
//	rollout 2 promoted: every step passed its gates
func StatusLine(r muru.Rollout) string {
	switch {
	case r.State == muru.Running && r.Step != nil:
		return fmt.Sprintf("rollout %d running %s", r.Number, *r.Step)
	case r.Message == "":
		return fmt.Sprintf("rollout %d %s", r.Number, r.State)
	}
	return fmt.Sprintf("rollout %d %s: %s", r.Number, r.State, r.Message)
}

// alphaType takes the false-alarm budget of a gate, in percent.
var alphaType Type = typeOf{"percentage", func(_ *Call, v starlark.Value) (any, error) {
	p, err := toPercent(v)
	switch {
	case err != nil:
		return nil, err
	case p <= 0:
		return nil, usagef("%s is no budget: evidence is never perfect", v).WithHint(`"0.1%%" is one in a thousand`)
	case p > 50:
		return nil, usagef("%s is over 50%%", muru.FormatRate(p))
	}
	return p, nil
}}

// holdOfRollout marks a step that names no hold of its own.
const holdOfRollout time.Duration = -1

// stepsType takes shares and (share, hold) pairs that go up.
var stepsType Type = typeOf{"list of share or (share, duration)", func(c *Call, v starlark.Value) (any, error) {
	steps, err := listType[muru.Step](stepType).Convert(c, v)
	if err != nil {
		return nil, err
	}
	list := steps.([]muru.Step)
	if len(list) == 0 {
		return nil, usagef("there is none").WithHint("promote gives all traffic without a step")
	}
	for i := 1; i < len(list); i++ {
		if list[i].Shadow == list[i-1].Shadow && list[i].Share <= list[i-1].Share {
			return nil, at(fmt.Sprintf("[%d]", i), usagef("%s is not above %s", list[i].ShareText(), list[i-1].ShareText()))
		}
	}
	for i := range list {
		list[i].Number, list[i].Of = i+1, len(list)
	}
	return list, nil
}}

var stepType Type = typeOf{"share or (share, duration)", func(_ *Call, v starlark.Value) (any, error) {
	step := muru.Step{Hold: holdOfRollout}
	if pair, ok := v.(starlark.Tuple); ok {
		if len(pair) != 2 {
			return nil, usagef("%d values, want (share, hold)", len(pair)).WithHint(`such as (10, "1h")`)
		}
		hold, err := toDuration(pair[1])
		if err != nil {
			return nil, err
		}
		v, step.Hold = pair[0], hold
	}
	if text, ok := starlark.AsString(v); ok {
		if share, copies := strings.CutSuffix(text, " shadow"); copies {
			v, step.Shadow = starlark.String(share), true
		}
	}
	percent, err := toPercent(v)
	if err != nil {
		return nil, err
	}
	if percent > 100 {
		return nil, usagef("%s%% is over 100%%", formatNumber(percent)).WithHint("%s", "40 means 40%")
	}
	step.Share, err = muru.ShareFromPercent(percent)
	return step, err
}}
