package builtins

import (
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

var rolloutKind = &kind{
	name:   "Rollout",
	doc:    "one attempt to move an app from its baseline to a candidate",
	byName: true,
	attrs: []attr{
		{"number", "int", "counts up per installation"},
		{"app", "text", "name of its app"},
		{"candidate", "Release", "is being tried"},
		{"baseline", "Release", "serves everything else"},
		{"state", "text", "queued running paused awaiting_approval promoted rolled_back aborted superseded"},
		{"live", "bool", "it has not ended"},
		{"share", "float", "percent of the traffic the candidate has now"},
		{"step", "Step or None", "the current one"},
		{"steps", "list of Step", "the plan"},
		{"gates", "list of Gate", "what the candidate must hold"},
		{"verdicts", "list of Verdict", "the latest of each gate"},
		{"message", "text", "why it is in its state"},
		{"started", "Time", "when it was started"},
		{"ended", "Time or None", "when it ended"},
		{"by", "text", "who started it"},
		{"run", "int or None", "number of the run that started it"},
	},
	columns: []string{"APP", "ROLLOUT", "CANDIDATE", "BASELINE", "STATE", "TRAFFIC", "MESSAGE"},
}

// rollout makes a Rollout with its releases as they are now.
func (s *Set) rollout(r muru.Rollout) *Record {
	run := starlark.Value(starlark.None)
	if r.Run != 0 {
		run = starlark.MakeInt(r.Run)
	}
	row := []string{
		r.Candidate.App, strconv.Itoa(r.Number), r.Candidate.Name(), r.Baseline.Name(),
		r.State.String(), r.Share.String(), r.Message,
	}
	return rolloutKind.record(r, r.String(), [][]string{row},
		starlark.MakeInt(r.Number), starlark.String(r.Candidate.App), s.releaseByID(r.Candidate), s.releaseByID(r.Baseline),
		starlark.String(r.State.String()), starlark.Bool(r.Live()), starlark.Float(r.Share.Percent()),
		stepOrNone(r.Step), listOf(r.Steps, stepRecord), listOf(r.Gates, gateRecord), listOf(r.Verdicts, verdictRecord),
		starlark.String(r.Message), timeOrNone(r.Started), timeOrNone(r.Ended), starlark.String(r.By), run)
}

var stepKind = &kind{
	name: "Step",
	doc:  "a share and how long it is held",
	attrs: []attr{
		{"number", "int", "from 1"},
		{"of", "int", "how many there are"},
		{"share", "float", "percent"},
		{"shadow", "bool", "the candidate gets copies of that share's requests"},
		{"hold", "Duration", "how long it lasts at least"},
		{"elapsed", "Duration", "of the hold"},
		{"requests", "int", "of the candidate, ended or overdue, in this step"},
	},
	columns: []string{"STEP", "SHARE", "HOLD", "ELAPSED", "REQUESTS"},
}

func stepRecord(s muru.Step) *Record {
	row := []string{
		fmt.Sprintf("%d of %d", s.Number, s.Of), s.ShareText(), muru.FormatDuration(s.Hold),
		muru.FormatMeasured(s.Elapsed), strconv.Itoa(s.Requests),
	}
	return stepKind.record(s, s.String(), [][]string{row},
		starlark.MakeInt(s.Number), starlark.MakeInt(s.Of), starlark.Float(s.Share.Percent()), starlark.Bool(s.Shadow),
		Duration(s.Hold), Duration(s.Elapsed), starlark.MakeInt(s.Requests))
}

func stepOrNone(s *muru.Step) starlark.Value {
	if s == nil {
		return starlark.None
	}
	return stepRecord(*s)
}

var gateKind = &kind{
	name: "Gate",
	doc:  "one condition a candidate must hold",
	attrs: []attr{
		{"name", "text", "such as 5xx"},
		{"max", "float, int, Duration or None", "the limit; a rate in percent"},
		{"ratio", "float", "how many times worse than the baseline is tolerated"},
		{"kind", "text", "builtin check header query"},
	},
	columns: []string{"GATE", "MAX", "RATIO", "KIND"},
}

func gateRecord(g muru.Gate) *Record {
	limit := ""
	if g.Max.IsSet() {
		limit = g.Max.String()
	}
	row := []string{g.Name, limit, formatNumber(g.Ratio), g.Kind.String()}
	return gateKind.record(g, g.String(), [][]string{row},
		starlark.String(g.Name), measure(g.Max), starlark.Float(g.Ratio), starlark.String(g.Kind.String()))
}

var verdictKind = &kind{
	name: "Verdict",
	doc:  "what a gate said at one moment, with the numbers it was said from",
	attrs: []attr{
		{"gate", "text", "its name"},
		{"result", "text", "pass fail no_data error"},
		{"candidate", "float, int, Duration or None", "what was measured; a rate in percent"},
		{"baseline", "float, int, Duration or None", "the same of the baseline"},
		{"limit", "float, int, Duration or None", "what it was held against"},
		{"count", "int", "events of the candidate: failures, slow requests, crashes"},
		{"requests", "int", "of the candidate"},
		{"baseline_count", "int", "events of the baseline"},
		{"baseline_requests", "int", "of the baseline"},
		{"clients", "int", "clients of the candidate with an event"},
		{"baseline_clients", "int", "clients of the baseline with an event"},
		{"evidence", "float or None", "that the candidate is worse, where the judge weighs it"},
		{"needed", "float or None", "the evidence a failure needs"},
		{"message", "text", "why it failed, or what went wrong"},
		{"at", "Time or None", "when it was said"},
	},
	columns: []string{"GATE", "VERDICT", "CANDIDATE", "BASELINE", "LIMIT", "EVIDENCE"},
}

func verdictRecord(v muru.Verdict) *Record {
	evidence, needed, weighed := starlark.Value(starlark.None), starlark.Value(starlark.None), ""
	if v.Needed > 0 {
		evidence, needed = starlark.Float(v.Evidence), starlark.Float(v.Needed)
		weighed = fmt.Sprintf("%d of %d", int(min(v.Evidence+1e-9, 1_000_000)), int(min(v.Needed+1e-9, 1_000_000)))
	}
	row := []string{
		v.Gate, v.Result.String(), measureCell(v.Candidate, v.Count, v.Requests),
		measureCell(v.Baseline, v.BaselineCount, v.BaselineRequests), measureCell(v.Limit, 0, 0), weighed,
	}
	return verdictKind.record(v, v.String(), [][]string{row},
		starlark.String(v.Gate), starlark.String(v.Result.String()), measure(v.Candidate), measure(v.Baseline), measure(v.Limit),
		starlark.MakeInt(v.Count), starlark.MakeInt(v.Requests), starlark.MakeInt(v.BaselineCount), starlark.MakeInt(v.BaselineRequests),
		starlark.MakeInt(v.Clients), starlark.MakeInt(v.BaselineClients), evidence, needed,
		starlark.String(v.Message), timeOrNone(v.At))
}

// measureCell shows a measure; a rate with the counts it was made of.
func measureCell(m muru.Measure, count, requests int) string {
	switch {
	case !m.IsSet():
		return ""
	case m.Unit == muru.UnitPercent && requests > 0:
		return fmt.Sprintf("%s (%d/%d)", m, count, requests)
	}
	return m.String()
}

// measure makes the value of a measure in its unit: percent as float, time as
// Duration, count as int.
func measure(m muru.Measure) starlark.Value {
	switch m.Unit {
	case muru.UnitTime:
		return Duration(m.Duration())
	case muru.UnitCount:
		return starlark.MakeInt(int(m.Value))
	case muru.UnitPercent, muru.UnitNumber:
		return starlark.Float(m.Value)
	case muru.UnitNone:
	}
	return starlark.None
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// ProgressLine words a rollout as the line that is redrawn while somebody
// waits for it:
//
//	rollout 1 running step 1 of 2: 10%, 5 s of 30s, 82 requests 18 5xx (baseline 760 0), 5xx pass
//
// least is how many requests of the candidate each step needs, 0 if that is
// not known: while a step lacks some, the line ends with how many.
func ProgressLine(r muru.Rollout, least int) string {
	text := fmt.Sprintf("rollout %d %s", r.Number, r.State)
	if r.Step == nil {
		if r.Message != "" {
			text += ": " + r.Message
		}
		return text
	}
	text += fmt.Sprintf(" step %d of %d: %s, %s of %s", r.Step.Number, r.Step.Of, r.Step.ShareText(),
		muru.FormatMeasured(r.Step.Elapsed), muru.FormatDuration(r.Step.Hold))
	counts := fmt.Sprintf(", %d requests", r.Step.Requests)
	var verdicts strings.Builder
	for _, v := range r.Verdicts {
		if v.Gate == muru.Gate5xx && v.Requests+v.BaselineRequests > 0 {
			counts = fmt.Sprintf(", %d requests %d 5xx (baseline %d %d)", v.Requests, v.Count, v.BaselineRequests, v.BaselineCount)
		}
		verdicts.WriteString(", " + v.String())
	}
	text += counts + verdicts.String()
	if missing := least - r.Step.Requests; missing > 0 && r.State == muru.Running && r.Step.Share > 0 {
		text += fmt.Sprintf(", needs %d more requests", missing)
	}
	return text
}
