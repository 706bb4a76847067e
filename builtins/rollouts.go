package builtins

import (
	"context"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
	script "muru/starlark"
)

var rolloutParam = Param{
	Name: "rollout", Type: rolloutNoun, Pass: Positional,
	Doc: "a Rollout, its number, or an app for its live one (else its latest)",
}

var observeSpec = (&Spec{
	Name:    "observe",
	Group:   GroupRollouts,
	Summary: "judges a release that gets traffic, and moves nothing",
	Doc: `The judge without the hands: it watches for hold, and raises as soon as a gate fails, or when
the release has not had min_requests by the deadline (None: hold and 10 minutes).`,
	Params: []Param{
		{Name: "release", Type: releaseNoun, Pass: Positional, Doc: "the release"},
		gatesParam,
		{Name: "hold", Type: durationType, Default: starlark.String("5m"), Doc: "how long to watch"},
		{Name: "min_requests", Type: intType(0), Default: starlark.MakeInt(100), Doc: "requests of the release before gates can pass or rates fail"},
		{Name: "deadline", Type: positive(durationType), Default: starlark.None, Doc: "how long it may take"},
	},
	Returns: "Window",
	Errors:  []string{"gate_failed: a gate failed", "no_data: too few requests by the deadline"},
	Example: `observe("shop@r6", hold = "1m", gates = [gate("p95", max = "400ms")])`,
	Effect:  Wait,
	Fn: func(c *Call) (starlark.Value, error) {
		gates, err := c.gates()
		if err != nil {
			return nil, err
		}
		w, err := c.engine().Observe(c.ctx, rollout.ObserveRequest{
			Caller: c.caller(), Release: arg[muru.ReleaseID](c, "release"), Gates: gates, Hold: arg[time.Duration](c, "hold"),
			MinRequests: arg[int](c, "min_requests"), Deadline: arg[time.Duration](c, "deadline"),
		}, nil)
		if err != nil {
			return nil, err
		}
		return c.set.window(w), nil
	},
}).check()

var pauseSpec = (&Spec{
	Name:    "pause",
	Group:   GroupRollouts,
	Summary: "stops the clock of a rollout's step; share and gates stay",
	Doc:     "A gate that fails still takes the candidate out. resume() goes on where the step was.",
	Params:  []Param{rolloutParam, reasonParam},
	Returns: "Rollout",
	Errors:  []string{"refused: the rollout does not run"},
	Example: `pause("shop", reason = "the database is being moved")`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		return c.steer(c.engine().Pause, 0)
	},
}).check()

var abortSpec = (&Spec{
	Name:    "abort",
	Group:   GroupRollouts,
	Summary: "takes the candidate of a rollout out of traffic at once and ends it",
	Doc:     "It is allowed whatever the rollout is doing. The candidate is kept for inspection.",
	Params:  []Param{rolloutParam, reasonParam},
	Returns: "Rollout",
	Errors:  []string{"not_found: there is no such rollout"},
	Example: `abort("shop", reason = "r8 itself is bad")`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		return c.steer(c.engine().Abort, 0)
	},
}).check()

var resumeSpec = (&Spec{
	Name:    "resume",
	Group:   GroupRollouts,
	Summary: "ends a pause, or approves the step a rollout waits for, once",
	Doc:     "The gates are asked again first.",
	Params: []Param{
		rolloutParam,
		{Name: "step", Type: intType(1), Default: starlark.None, Doc: "number of the step that is approved; None: whichever it waits for"},
		reasonParam,
	},
	Returns: "Rollout",
	Errors:  []string{"refused: it waits for another step, or for nothing"},
	Example: `resume("shop", step = 2)`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		return c.steer(c.engine().Resume, arg[int](c, "step"))
	},
}).check()

// steer makes one of the three requests about a rollout.
func (c *Call) steer(ask func(context.Context, rollout.RolloutRequest) (muru.Rollout, rollout.Report, error), step int) (starlark.Value, error) {
	number, err := c.rolloutNumber("rollout")
	if err != nil {
		return nil, err
	}
	r, report, err := ask(c.ctx, rollout.RolloutRequest{
		Caller: c.caller(), Rollout: number, Step: step, Reason: arg[string](c, "reason"),
	})
	c.say(report)
	if err != nil {
		return nil, err
	}
	return c.set.rollout(r), nil
}

var waitSpec = (&Spec{
	Name:    "wait",
	Group:   GroupRollouts,
	Summary: "waits for a rollout, for traffic, or until a function returns something true",
	Doc: `A rollout: to its end, also through approvals; raises as canary does. Traffic: until it has run its
duration. A function: it is called every so often, without arguments, until what it returns is
true, and that is returned; it may look (status, probe, events) and GET, nothing else.`,
	Params: []Param{
		{Name: "what", Type: waitable, Pass: Positional, Doc: "a Rollout, its number or app, a Traffic, or a function"},
		{Name: "every", Type: positive(durationType), Default: seconds(5), Doc: "how often a function is called"},
		{Name: "timeout", Type: positive(durationType), Default: starlark.None, Doc: "how long to wait at most"},
	},
	Returns: "Rollout, Traffic or any",
	Errors:  []string{"timeout: it took longer", "rolled_back, aborted, superseded: as canary"},
	Example: `wait(lambda: probe("shop@r6", "/healthz", check = False).ok, every = "1s", timeout = "1m")`,
	Effect:  Wait,
	Fn:      wait,
}).check()

func wait(c *Call) (v starlark.Value, err error) {
	t := arg[target](c, "what")
	timeout := arg[time.Duration](c, "timeout")
	late := func(what string) *muru.Error {
		return muru.Errorf(muru.KindTimeout, "%s within %s", what, muru.FormatDuration(timeout))
	}
	switch {
	case t.load != nil:
		err = c.within(timeout, late("traffic did not end"), func(ctx context.Context) error {
			v, err = t.load.wait(ctx)
			return err
		})
	case t.poll != nil:
		err = c.within(timeout, late(t.poll.Name()+" returned nothing true"), func(ctx context.Context) error {
			v, err = poll(ctx, c.clock(), t.poll, arg[time.Duration](c, "every"))
			return err
		})
	default:
		number, notFound := c.numberOf(t)
		if notFound != nil {
			return nil, notFound
		}
		m := muru.Errorf(muru.KindTimeout, "rollout %d did not end within %s", number, muru.FormatDuration(timeout))
		m.Rollout = number
		err = c.within(timeout, m, func(ctx context.Context) error {
			v, err = c.waitRollout(ctx, number)
			return err
		})
	}
	return v, err
}

// poll calls fn until it returns something true.
func poll(ctx context.Context, clock rollout.Clock, fn starlark.Callable, every time.Duration) (starlark.Value, error) {
	looking := context.WithValue(ctx, pollKey{}, true)
	for {
		v, err := script.Call(looking, fn, nil, script.CallOptions{})
		if err != nil {
			return nil, err
		}
		if v.Truth() {
			return v, nil
		}
		if err := rollout.Sleep(ctx, clock, every); err != nil {
			return nil, err
		}
	}
}
