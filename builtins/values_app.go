package builtins

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

var appKind = &kind{
	name:   "App",
	doc:    "a web application: where it is reached and what serves it",
	byName: true,
	attrs: []attr{
		{"name", "text", "such as shop"},
		{"url", "text", "where it is served"},
		{"hosts", "list of text", "host names of its route"},
		{"path", "text", "path prefix of its route"},
		{"key", "text", "what tells clients apart"},
		{"sticky", "Duration or None", "the grace in which clients keep a release that left"},
		{"preview", "text", `"open", "off" or "secret"`},
		{"maintenance", "text or None", "what visitors are told instead"},
		{"baseline", "Release or None", "serves everything else"},
		{"candidate", "Release or None", "is being tried"},
		{"split", "dict", "Release: percent"},
		{"held", "list of Release", "ready and out of traffic"},
		{"warm", "list of Release", "kept running after they served"},
		{"rollout", "Rollout or None", "the live one"},
	},
	columns: []string{"APP", "BASELINE", "CANDIDATE", "TRAFFIC", "HELD", "WARM", "ROLLOUT"},
}

// app makes an App with the releases and the rollout it names, as they are
// now.
func (s *Set) app(a muru.App) *Record {
	id := func(n int) muru.ReleaseID { return muru.ReleaseID{App: a.Name, Number: n} }
	releases := func(numbers []int) (list []starlark.Value, names string) {
		for i, n := range numbers {
			list = append(list, s.releaseByID(id(n)))
			if i > 0 {
				names += ", "
			}
			names += id(n).Name()
		}
		return list, names
	}
	one := func(n int) (starlark.Value, string) {
		if n == 0 {
			return starlark.None, ""
		}
		return s.releaseByID(id(n)), id(n).Name()
	}
	baseline, baselineName := one(a.Baseline)
	candidate, candidateName := one(a.Candidate)
	held, heldNames := releases(a.Held)
	warm, warmNames := releases(a.Warm)
	split := starlark.NewDict(len(a.Split.Arms))
	for _, arm := range a.Split.Arms {
		split.SetKey(s.releaseByID(arm.Release), starlark.Float(arm.Share.Percent()))
	}
	live, liveText := starlark.Value(starlark.None), ""
	if a.Rollout != 0 {
		if r, err := s.env.Engine.Rollout(a.Rollout); err == nil {
			live, liveText = s.rollout(r), strconv.Itoa(r.Number)+" "+r.State.String()
		}
	}
	hosts := a.Route.Hosts
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	row := []string{a.Name, baselineName, candidateName, a.Split.String(), heldNames, warmNames, liveText}
	return appKind.record(a, a.Name, [][]string{row},
		starlark.String(a.Name), starlark.String(a.URL), textList(hosts), starlark.String(routePath(a.Route)),
		starlark.String(a.Route.Key.String()), durationOrNone(a.Route.Sticky), starlark.String(previewText(a.Route)),
		textOrNone(a.Route.Maintenance), baseline, candidate, split,
		starlark.NewList(held), starlark.NewList(warm), live)
}

func routePath(r muru.Route) string {
	if r.Path == "" {
		return "/"
	}
	return r.Path
}

var releaseKind = &kind{
	name:   "Release",
	doc:    "one immutable deployed version of an app",
	byName: true,
	attrs: []attr{
		{"app", "text", "name of its app"},
		{"name", "text", "within the app, such as r6"},
		{"number", "int", "such as 6"},
		{"state", "text", "starting held serving draining warm stopped failed"},
		{"share", "float", "percent of the app's traffic"},
		{"kind", "text", "python command external"},
		{"source", "text or None", "directory; None for external"},
		{"digest", "text", "of the source's names, sizes and times of change"},
		{"workers", "int", "processes; 0 for external"},
		{"threads", "int", "requests at once per worker; 0: no bound"},
		{"timeouts", "dict", "text: Duration, None for off"},
		{"limits", "dict", "text: int"},
		{"created", "Time", "when it was deployed"},
		{"by", "text", "who deployed it"},
		{"message", "text", "why it is in its state; may be empty"},
	},
	columns: []string{"RELEASE", "STATE", "TRAFFIC", "WORKERS", "KIND", "SOURCE", "AGE"},
}

// release makes a Release.
func (s *Set) release(r muru.Release) *Record {
	timeouts := dict(
		"ready", Duration(r.Timeouts.Ready), "queue", Duration(r.Timeouts.Queue),
		"hard", durationOrNone(r.Timeouts.Hard), "soft", durationOrNone(r.Timeouts.Soft),
		"drain", Duration(r.Timeouts.Drain), "stream", Duration(r.Timeouts.Stream),
		"websocket", Duration(r.Timeouts.WebSocket),
	)
	limits := dict("queue", starlark.MakeInt(r.Limits.Queue))
	source, workers := s.shown(r.Source), strconv.Itoa(r.Workers)
	if r.Kind == muru.External {
		source, workers = r.Upstream, ""
	}
	age := ""
	if !r.Created.IsZero() {
		age = formatAge(s.env.Engine.Clock().Now().Sub(r.Created))
	}
	row := []string{r.ID.String(), r.State.String(), r.Share.String(), workers, r.Kind.String(), source, age}
	return releaseKind.record(r, r.ID.String(), [][]string{row},
		starlark.String(r.ID.App), starlark.String(r.ID.Name()), starlark.MakeInt(r.ID.Number),
		starlark.String(r.State.String()), starlark.Float(r.Share.Percent()), starlark.String(r.Kind.String()),
		textOrNone(r.Source), starlark.String(r.Digest), starlark.MakeInt(r.Workers), starlark.MakeInt(r.Threads),
		timeouts, limits, timeOrNone(r.Created), starlark.String(r.By), starlark.String(r.Message))
}

// releaseByID makes the Release of that name. One that the engine no longer
// knows keeps its name and is stopped.
func (s *Set) releaseByID(id muru.ReleaseID) starlark.Value { return s.named(id)() }

// named looks a release up now and returns what makes its value.
func (s *Set) named(id muru.ReleaseID) func() starlark.Value {
	if id.IsZero() {
		return func() starlark.Value { return starlark.None }
	}
	r, err := s.env.Engine.Release(id)
	if err != nil {
		r = muru.Release{ID: id, State: muru.Stopped}
	}
	return func() starlark.Value { return s.release(r) }
}

// shown shortens a path below the caller's directory for tables.
func (s *Set) shown(path string) string {
	if rel, err := filepath.Rel(s.env.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// formatAge prints an age as measured durations are, in whole seconds, and in
// days from two on.
func formatAge(d time.Duration) string {
	if d >= 48*time.Hour {
		return strconv.Itoa(int(d/(24*time.Hour))) + " d"
	}
	return muru.FormatMeasured(max(0, d).Round(time.Second))
}

func durationOrNone(d time.Duration) starlark.Value {
	if d == 0 {
		return starlark.None
	}
	return Duration(d)
}

func textOrNone(text string) starlark.Value {
	if text == "" {
		return starlark.None
	}
	return starlark.String(text)
}

func textList(texts []string) *starlark.List {
	list := make([]starlark.Value, len(texts))
	for i, t := range texts {
		list[i] = starlark.String(t)
	}
	return starlark.NewList(list)
}

// listOf makes a list of records.
func listOf[T any](items []T, record func(T) *Record) *starlark.List {
	list := make([]starlark.Value, len(items))
	for i, item := range items {
		list[i] = record(item)
	}
	return starlark.NewList(list)
}

// dict makes a dict of texts and values, given in turn.
func dict(pairs ...any) *starlark.Dict {
	d := starlark.NewDict(len(pairs) / 2)
	for i := 0; i < len(pairs); i += 2 {
		d.SetKey(starlark.String(pairs[i].(string)), pairs[i+1].(starlark.Value)) // a text as key cannot fail
	}
	return d
}

// sortedDict makes a dict of a map in the order of its keys.
func sortedDict[V any](m map[string]V, value func(V) starlark.Value) *starlark.Dict {
	d := starlark.NewDict(len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d.SetKey(starlark.String(key), value(m[key]))
	}
	return d
}
