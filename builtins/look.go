package builtins

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

var maybeApp = Param{Name: "app", Type: appNoun, Pass: Positional, Default: starlark.None, Doc: "the app; None: all"}

var statusSpec = (&Spec{
	Name:    "status",
	Group:   GroupLooking,
	Summary: "shows the apps, or one: what serves, is tried, held and warm",
	Doc:     "A snapshot: ask again for news. Its baseline, candidate and rollout are snapshots of the same moment.",
	Params:  []Param{maybeApp},
	Returns: "list of App, or App",
	Errors:  []string{"not_found: there is no such app"},
	Example: `print(status())`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		if !c.isSet("app") {
			return listOf(c.engine().Apps(), c.set.app), nil
		}
		a, err := c.engine().AppNamed(arg[string](c, "app"))
		if err != nil {
			return nil, err
		}
		return c.set.app(a), nil
	},
}).check()

var releasesSpec = (&Spec{
	Name:    "releases",
	Group:   GroupLooking,
	Summary: "lists the releases of an app, or all, oldest first",
	Doc:     "Stopped and failed ones are listed, too: numbers are never used again.",
	Params:  []Param{maybeApp},
	Returns: "list of Release",
	Errors:  []string{"not_found: there is no such app"},
	Example: `print(releases("shop"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		all, err := c.engine().Releases(arg[string](c, "app"))
		if err != nil {
			return nil, err
		}
		return listOf(all, c.set.release), nil
	},
}).check()

var rolloutsSpec = (&Spec{
	Name:    "rollouts",
	Group:   GroupLooking,
	Summary: "lists the rollouts of an app, or all, oldest first",
	Doc:     "A live one comes with its step and the latest verdict of each gate.",
	Params:  []Param{maybeApp},
	Returns: "list of Rollout",
	Errors:  []string{"not_found: there is no such app"},
	Example: `print(rollouts("shop"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		all, err := c.engine().Rollouts(arg[string](c, "app"))
		if err != nil {
			return nil, err
		}
		return listOf(all, c.set.rollout), nil
	},
}).check()

var eventsSpec = (&Spec{
	Name:    "events",
	Group:   GroupLooking,
	Summary: "lists what happened, oldest first, the newest of it",
	Doc:     "An app: its own events and those of its releases. A release: those of its workers and rollouts, too. Kinds begin with what they are about: app, release, worker, rollout or run.",
	Params: []Param{
		{Name: "target", Type: anyTarget, Pass: Positional, Default: starlark.None, Doc: "an app, a release or a rollout; None: everything"},
		{Name: "since", Type: pointType, Default: starlark.None, Doc: `a time, or a duration meaning that long ago`},
		{Name: "kind", Type: kindType, Default: starlark.None, Doc: `such as "rollout.gate_failed"; may end in *`},
		{Name: "level", Type: enumType("notice", "warning", "error"), Default: starlark.None, Doc: "this level and above"},
		{Name: "limit", Type: intType(1), Default: starlark.MakeInt(50), Doc: "the newest ones are kept"},
	},
	Returns: "list of Event",
	Errors:  []string{"not_found: there is no such app, release or rollout"},
	Example: `print(events("shop", since = "1h", level = "warning"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		t := arg[target](c, "target")
		if err := c.exists(t); err != nil {
			return nil, err
		}
		q := rollout.EventQuery{
			App: t.app, Release: t.release, Rollout: t.rollout, Since: arg[time.Time](c, "since"),
			Kind: arg[string](c, "kind"), Limit: arg[int](c, "limit"),
		}
		if c.isSet("level") {
			level, err := muru.ParseLevel(arg[string](c, "level"))
			if err != nil {
				return nil, err
			}
			q.Level = &level
		}
		events, err := c.engine().FindEvents(c.ctx, q)
		if err != nil {
			return nil, err // a list that was cut is none
		}
		return listOf(events, c.set.event), nil
	},
}).check()

// exists reports the error for a target that is not there.
func (c *Call) exists(t target) (err error) {
	switch {
	case t.app != "":
		_, err = c.engine().AppNamed(t.app)
	case !t.release.IsZero():
		_, err = c.engine().Release(t.release)
	case t.rollout != 0:
		_, err = c.engine().Rollout(t.rollout)
	}
	return err
}

var logsSpec = (&Spec{
	Name:    "logs",
	Group:   GroupLooking,
	Summary: "lists lines that the workers of a release printed, oldest first, the newest of them",
	Doc:     "An app: those of all its live releases, by time.",
	Params: []Param{
		{Name: "target", Type: appOrRelease, Pass: Positional, Doc: "the release or app"},
		{Name: "lines", Type: intType(1), Default: starlark.MakeInt(100), Doc: "the newest ones are kept"},
		{Name: "since", Type: pointType, Default: starlark.None, Doc: "a time, or a duration meaning that long ago"},
		{Name: "grep", Type: regexpType, Default: starlark.None, Doc: "regular expression a line must match"},
		{Name: "worker", Type: intType(0), Default: starlark.None, Doc: "of that worker alone"},
		{Name: "request", Type: textType, Default: starlark.None, Doc: "id of a request a line must name"},
	},
	Returns: "list of text",
	Errors:  []string{"not_found: there is no such app or release", "refused: muru does not run an upstream"},
	Example: `print(logs("shop@r6", grep = "Error", lines = 20))`,
	Effect:  Observe,
	Fn:      readLogs,
}).check()

func readLogs(c *Call) (starlark.Value, error) {
	t, limit := arg[target](c, "target"), arg[int](c, "lines")
	q := muru.LogQuery{
		Lines: limit, Since: arg[time.Time](c, "since"), Match: arg[string](c, "grep"),
		Worker: arg[int](c, "worker"), OneWorker: c.isSet("worker"), Request: arg[string](c, "request"),
	}
	// What an app runs itself: an upstream has no log here.
	ids, err := c.releasesOf(t, func(r muru.Release) bool { return r.State.Live() && r.Kind != muru.External })
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, id := range ids {
		some, err := c.engine().Logs(c.ctx, id, q)
		if err != nil {
			return nil, err
		}
		lines = append(lines, some...)
	}
	if len(ids) > 1 {
		slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(stamp(a), stamp(b)) })
	}
	return textList(lines[max(0, len(lines)-limit):]), nil
}

// stamp is the time a log line begins with; it sorts as text.
func stamp(line string) string {
	at, _, _ := strings.Cut(line, " ")
	return at
}

// regexpType takes regular expressions that compile.
var regexpType Type = typeOf{"regular expression", func(c *Call, v starlark.Value) (any, error) {
	s, ok := v.(starlark.String)
	if !ok {
		return nil, wanted("a regular expression", v)
	}
	if _, err := regexp.Compile(string(s)); err != nil {
		return nil, usagef("%s", regexpProblem(err))
	}
	return string(s), nil
}}

var stacksSpec = (&Spec{
	Name:    "stacks",
	Group:   GroupLooking,
	Summary: "shows where each thread of a release's workers is, and the request it is on",
	Doc:     "An app: what serves it now. Stacks that were captured before a stuck worker was replaced are shown until it is gone.",
	Params: []Param{
		{Name: "target", Type: appOrRelease, Pass: Positional, Doc: "the release or app"},
		{Name: "worker", Type: intType(0), Default: starlark.None, Doc: "that worker alone"},
	},
	Returns: "list of Stack",
	Errors:  []string{"not_found: there is no such app or release", "refused: muru does not run an upstream"},
	Example: `print(stacks("shop@r6", worker = 0))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		worker := -1
		if c.isSet("worker") {
			worker = arg[int](c, "worker")
		}
		ids, err := c.releasesOf(arg[target](c, "target"), serves)
		if err != nil {
			return nil, err
		}
		var all []muru.Stack
		for _, id := range ids {
			some, err := c.engine().Stacks(c.ctx, id, worker)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return listOf(all, c.set.stack), nil
	},
}).check()

func serves(r muru.Release) bool { return r.State == muru.Serving }

var workersSpec = (&Spec{
	Name:    "workers",
	Group:   GroupLooking,
	Summary: "lists the processes of a release, of what serves an app, or all",
	Doc:     "A worker that was replaced is listed until it is gone. An upstream has none.",
	Params: []Param{
		{Name: "target", Type: appOrRelease, Pass: Positional, Default: starlark.None, Doc: "the release or app; None: all that runs"},
	},
	Returns: "list of Worker",
	Errors:  []string{"not_found: there is no such app or release"},
	Example: `print(workers("shop"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		t := arg[target](c, "target")
		keep := serves
		if t.app == "" {
			keep = func(r muru.Release) bool { return r.State.Live() }
		}
		ids, err := c.releasesOf(t, keep)
		if err != nil {
			return nil, err
		}
		var all []muru.Worker
		for _, id := range ids {
			some, err := c.engine().Workers(id)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return listOf(all, c.set.worker), nil
	},
}).check()

var probeSpec = (&Spec{
	Name:    "probe",
	Group:   GroupLooking,
	Summary: "sends one request to a release, held or warm ones too, past the split",
	Doc:     "It is never counted. No answer in time is a 504.",
	Params: []Param{
		{Name: "release", Type: releaseNoun, Pass: Positional, Doc: "the release"},
		{Name: "path", Type: pathAndQuery, Pass: Positional, Default: starlark.String("/"), Doc: "path, may have a query"},
		{Name: "method", Type: methodType, Default: starlark.String("GET"), Doc: "method"},
		{Name: "headers", Type: headersType, Default: emptyDict(), Doc: "request headers"},
		{Name: "body", Type: bodyType, Default: starlark.None, Doc: "text; a dict or list is sent as JSON"},
		{Name: "within", Type: positive(durationType), Default: seconds(5), Doc: "time to answer"},
		{Name: "check", Type: boolType, Default: starlark.True, Doc: "raise on a status of 400 and above"},
	},
	Returns: "Response",
	Errors:  []string{"http_failed: the status is 400 or above", "not_found: there is no such release"},
	Example: `print(probe("shop@r6", "/orders/3", check = False))`,
	Effect:  Observe,
	Fn:      probe,
}).check()

func probe(c *Call) (starlark.Value, error) {
	id, method, path := arg[muru.ReleaseID](c, "release"), arg[string](c, "method"), arg[string](c, "path")
	body := arg[requestBody](c, "body")
	header := body.fields(arg[map[string]string](c, "headers"))
	answer, err := c.engine().Probe(c.ctx, rollout.ProbeRequest{
		Release: id, Method: method, Path: path, Header: header, Body: body.data, Within: arg[time.Duration](c, "within"),
	})
	if err != nil {
		return nil, err
	}
	r := response{
		status: answer.Status, header: joinFields(answer.Header), body: answer.Body, took: answer.Took,
		requestID: answer.RequestID, release: id.String(),
	}
	if arg[bool](c, "check") && r.status >= 400 {
		return nil, httpFailed(fmt.Sprintf("%s answered %s to %s %s", id, statusText(r.status), method, path), r)
	}
	return r.record(), nil
}

// httpFailed is the error for a status of 400 and above; it shows how the
// body begins.
func httpFailed(what string, r response) *muru.Error {
	err := muru.Errorf(muru.KindHTTPFailed, "%s", what).WithHint("check = False returns the response instead")
	for line := range strings.Lines(start(string(r.body), 400)) {
		if line = strings.TrimSpace(line); line != "" && len(err.Detail) < 5 {
			err.Detail = append(err.Detail, line)
		}
	}
	return err
}
