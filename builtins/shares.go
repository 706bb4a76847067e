package builtins

import (
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

var reasonParam = Param{Name: "reason", Type: lineType, Default: starlark.String(""), Doc: "kept in the event with who asked"}

var splitSpec = (&Spec{
	Name:    "split",
	Group:   GroupTraffic,
	Summary: "sets the shares of releases by hand; the rest is the baseline's",
	Doc: `A share of 0 is a dark launch: the release serves previews only. {} gives everything back to the
baseline. Shares set by a run are put back when the run fails or is cancelled.`,
	Params: []Param{
		{Name: "app", Type: appNoun, Pass: Positional, Doc: "the app"},
		{Name: "shares", Type: sharesType, Pass: Positional, Doc: `release: share, such as {"r6": "10%"}`},
	},
	Returns: "App",
	Errors: []string{
		"refused: a rollout of the app is live, a release is not ready, or the shares add up to more than 100%",
	},
	Example: `split("shop", {"r6": "10%"})`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		a, report, err := c.engine().Split(c.ctx, rollout.SplitRequest{
			Caller: c.caller(), App: arg[string](c, "app"), Shares: arg[[]muru.SplitArm](c, "shares"),
		})
		if err != nil {
			return nil, err // the report is of the split as it still is
		}
		c.say(report)
		return c.set.app(a), nil
	},
}).check()

// sharesType takes the shares of releases of the app that was given before.
var sharesType Type = typeOf{"dict of share by release", func(c *Call, v starlark.Value) (any, error) {
	return toShares(v, arg[string](c, "app"))
}}

func toShares(v starlark.Value, app string) ([]muru.SplitArm, error) {
	d, ok := v.(*starlark.Dict)
	if !ok {
		return nil, wanted(`a dict such as {"r6": "10%"}`, v)
	}
	var arms []muru.SplitArm
	for _, item := range d.Items() {
		id, err := toRelease(item[0], app)
		if err != nil {
			return nil, err
		}
		share, err := toShare(item[1])
		if err != nil {
			return nil, at(fmt.Sprintf("[%q]", id.Name()), err)
		}
		for _, arm := range arms {
			if arm.Release == id {
				return nil, usagef("%s is given twice", id.Name())
			}
		}
		arms = append(arms, muru.SplitArm{Release: id, Share: share})
	}
	return arms, nil
}

var promoteSpec = (&Spec{
	Name:    "promote",
	Group:   GroupTraffic,
	Summary: "gives a release all traffic now, without gates",
	Doc: `Only routing changes: the workers that run keep running, and the release that served is drained and
kept warm. A live rollout of that release ends promoted.`,
	Params:  []Param{{Name: "release", Type: releaseNoun, Pass: Positional, Doc: "the release"}, reasonParam},
	Returns: "Release",
	Errors:  []string{"refused: the rollout of another release is live, or the release is not ready"},
	Example: `promote("shop@r6", reason = "tried by hand")`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		r, report, err := c.engine().Promote(c.ctx, rollout.ReleaseRequest{
			Caller: c.caller(), Release: arg[muru.ReleaseID](c, "release"), Reason: arg[string](c, "reason"),
		})
		c.say(report)
		return c.releaseOr(r, err)
	},
}).check()

func (c *Call) releaseOr(r muru.Release, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	return c.set.release(r), nil
}

var rollbackSpec = (&Spec{
	Name:    "rollback",
	Group:   GroupTraffic,
	Summary: "goes back to the release that served before, without gates",
	Doc: `An app: if a rollout is live, it is aborted and that is all; else the release that served before
serves again, never one that was rolled back from. A release: only if it still serves or is being
tried, otherwise nothing happens, so it never undoes somebody's newer one.

Returns what serves afterwards.`,
	Params: []Param{
		{Name: "target", Type: appOrRelease, Pass: Positional, Doc: "the app, or the release to take out"},
		{Name: "to", Type: releaseOfTarget, Default: starlark.None, Doc: "the release to go back to"},
		reasonParam,
	},
	Returns: "Release",
	Errors: []string{
		"refused: there is nothing to go back to, or the app was rolled back less than a minute ago (name the release with to)",
		"not_ready: the release to go back to does not start",
	},
	Example: `rollback("shop", reason = "locks the database")`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		t := arg[target](c, "target")
		req := rollout.RollbackRequest{Caller: c.caller(), App: t.app, Release: t.release, Reason: arg[string](c, "reason")}
		if req.App == "" {
			req.App = t.release.App
		}
		req.To = arg[muru.ReleaseID](c, "to")
		r, report, err := c.engine().Rollback(c.ctx, req)
		c.say(report)
		return c.releaseOr(r, err)
	},
}).check()

// releaseOfTarget takes a release of the app that the target is or belongs
// to, so that "r5" is enough.
var releaseOfTarget Type = typeOf{"release", func(c *Call, v starlark.Value) (any, error) {
	t := arg[target](c, "target")
	if t.app == "" {
		return toRelease(v, t.release.App)
	}
	return toRelease(v, t.app)
}}

var stopSpec = (&Spec{
	Name:    "stop",
	Group:   GroupTraffic,
	Summary: "drains and stops a release or an app, or ends traffic",
	Doc: `A release must be held, warm or failed. An app: every release of it, a live rollout is aborted, and
its route answers no_route until the next deploy. Traffic: no more requests are sent, those that
were are waited for, and the counts are returned.`,
	Params:  []Param{{Name: "target", Type: stoppable, Pass: Positional, Doc: "what to stop"}},
	Returns: "App, Release or Traffic",
	Errors:  []string{"refused: the release serves"},
	Example: `stop("shop@r4")`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		t := arg[target](c, "target")
		switch {
		case t.load != nil:
			return t.load.end(c.ctx)
		case t.app != "":
			a, report, err := c.engine().StopApp(c.ctx, c.caller(), t.app)
			c.say(report)
			if err != nil {
				return nil, err
			}
			return c.set.app(a), nil
		}
		r, report, err := c.engine().StopRelease(c.ctx, rollout.ReleaseRequest{Caller: c.caller(), Release: t.release})
		c.say(report)
		return c.releaseOr(r, err)
	},
}).check()

// seconds is a default duration.
func seconds(n int) starlark.Value {
	return starlark.String(muru.FormatDuration(time.Duration(n) * time.Second))
}
