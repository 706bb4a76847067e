package builtins

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

var workerKind = &kind{
	name: "Worker",
	doc:  "one process of a release",
	attrs: []attr{
		{"release", "Release", "that it works for"},
		{"number", "int", "from 0"},
		{"pid", "int", "of the process"},
		{"state", "text", "starting ready stuck draining"},
		{"served", "int", "requests finished"},
		{"busy", "int", "requests in it"},
		{"request", "text or None", "path of the oldest one in it"},
		{"age", "Duration or None", "of that request"},
		{"rss", "int", "bytes of memory"},
		{"cpu", "float", "percent of a core since it started"},
		{"restarts", "int", "how often it was replaced"},
		{"started", "Time or None", "when it was started"},
	},
	columns: []string{"RELEASE", "WORKER", "PID", "STATE", "SERVED", "BUSY", "REQUEST", "AGE", "RSS", "CPU"},
}

func (s *Set) worker(w muru.Worker) *Record {
	age, ageText := starlark.Value(starlark.None), ""
	if w.Request != "" {
		age, ageText = Duration(w.Age), muru.FormatMeasured(w.Age)
	}
	row := []string{
		w.Release.String(), strconv.Itoa(w.Number), strconv.Itoa(w.PID), w.State.String(), strconv.Itoa(w.Served),
		strconv.Itoa(w.Busy), w.Request, ageText, formatSize(w.RSS), fmt.Sprintf("%.1f%%", w.CPU),
	}
	return workerKind.record(w, w.String(), [][]string{row},
		s.releaseByID(w.Release), starlark.MakeInt(w.Number), starlark.MakeInt(w.PID), starlark.String(w.State.String()),
		starlark.MakeInt(w.Served), starlark.MakeInt(w.Busy), textOrNone(w.Request), age, starlark.MakeInt64(w.RSS),
		starlark.Float(w.CPU), starlark.MakeInt(w.Restarts), timeOrNone(w.Started))
}

// formatSize prints bytes in the unit in which people read memory.
func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

var stackKind = &kind{
	name: "Stack",
	doc:  "where one thread of a worker was",
	attrs: []attr{
		{"release", "Release", "of the worker"},
		{"worker", "int", "its number"},
		{"pid", "int", "of its process"},
		{"thread", "int", "which thread"},
		{"request", "text or None", "id of the request it was on"},
		{"path", "text or None", "of that request"},
		{"age", "Duration or None", "of that request"},
		{"stuck", "bool", "the request ran past its limit"},
		{"frames", "list of Frame", "innermost first"},
	},
	lines: true,
}

var frameKind = &kind{
	name: "Frame",
	doc:  "one line of a stack",
	attrs: []attr{
		{"file", "text", "relative to the release's source where it lies inside"},
		{"line", "int", "number of the line"},
		{"function", "text", "its name"},
	},
	lines: true,
}

func (s *Set) stack(t muru.Stack) *Record {
	age := starlark.Value(starlark.None)
	if t.Request != "" {
		age = Duration(t.Age)
	}
	frames := listOf(t.Frames, func(f muru.Frame) *Record {
		return frameKind.record(f, f.String(), nil, starlark.String(f.File), starlark.MakeInt(f.Line), starlark.String(f.Function))
	})
	return stackKind.record(t, t.String(), nil,
		s.releaseByID(t.Release), starlark.MakeInt(t.Worker), starlark.MakeInt(t.PID), starlark.MakeInt(t.Thread),
		textOrNone(t.Request), textOrNone(t.Path), age, starlark.Bool(t.Stuck), frames)
}

var eventKind = &kind{
	name: "Event",
	doc:  "a numbered fact",
	attrs: []attr{
		{"seq", "int", "counts up per installation"},
		{"time", "Time", "when"},
		{"level", "text", "notice warning error"},
		{"kind", "text", "such as rollout.gate_failed"},
		{"subject", "text", `an app, a release, "run N" or "muru"`},
		{"message", "text", "one line"},
		{"by", "text", "who caused it; may be empty"},
		{"data", "dict", "the numbers behind it"},
	},
	lines: true,
}

// event makes an Event that prints as its line of today.
func (s *Set) event(e muru.Event) *Record {
	return eventKind.record(e.Kind, e.Line(s.env.Engine.Clock().Now(), time.Local), nil,
		starlark.MakeInt(e.Seq), timeOrNone(e.Time), starlark.String(e.Level.String()), starlark.String(e.Kind),
		starlark.String(e.Subject), starlark.String(e.Message), starlark.String(e.By), sortedDict(e.Data, fromGo))
}

// fromGo makes a value of what events carry in their data.
func fromGo(v any) starlark.Value {
	switch v := v.(type) {
	case nil:
		return starlark.None
	case starlark.Value:
		return v
	case bool:
		return starlark.Bool(v)
	case int:
		return starlark.MakeInt(v)
	case int64:
		return starlark.MakeInt64(v)
	case float64:
		return starlark.Float(v)
	case string:
		return starlark.String(v)
	case time.Duration:
		return Duration(v)
	case time.Time:
		return timeOrNone(v)
	case muru.Measure:
		return measure(v)
	case []string:
		return textList(v)
	case map[string]any:
		return sortedDict(v, fromGo)
	case fmt.Stringer:
		return starlark.String(v.String())
	}
	return starlark.String(strings.TrimSpace(fmt.Sprint(v)))
}
