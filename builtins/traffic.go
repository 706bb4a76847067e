package builtins

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

var trafficSpec = (&Spec{
	Name:    "traffic",
	Group:   GroupWorld,
	Summary: "sends requests to an app or a URL, as visitors would",
	Doc: `Each of the clients requests one of paths at random, waits for the answer and goes on. With rate,
that many requests are sent in all, however long answers take, by as many clients as that needs (at
most 1000). A client without cookies is a new one with each request, also to a split; with cookies
it is the same one all the time. A request that is not answered within timeout is given up.

With wait = False it runs on by itself: stop() ends it and returns the counts, wait() waits for its
end, and it ends with the run.`,
	Params: []Param{
		{Name: "target", Type: loadTarget, Pass: Positional, Doc: "an app, or a URL that paths are added to"},
		{Name: "clients", Type: intType(1), Default: starlark.MakeInt(4), Doc: "how many clients"},
		{Name: "duration", Type: positive(durationType), Default: seconds(25), Doc: "how long"},
		{Name: "paths", Type: listType[string](pathAndQuery), Default: list("/"), Doc: "what is requested, chosen at random"},
		{Name: "rate", Type: rateType, Default: starlark.None, Doc: `requests in all, such as "20/s"; None: as fast as answers come`},
		{Name: "cookies", Type: boolType, Default: starlark.False, Doc: "keep cookies"},
		{Name: "headers", Type: headersType, Default: emptyDict(), Doc: "request headers"},
		{Name: "timeout", Type: positive(durationType), Default: seconds(5), Doc: "until a request is given up"},
		{Name: "wait", Type: boolType, Default: starlark.True, Doc: "wait for the end"},
	},
	Returns: "Traffic",
	Errors:  []string{"http_failed: nothing answered at all", "not_found: there is no such app"},
	Example: `print(traffic("shop", paths = ["/", "/orders/1"], duration = "2s"))`,
	Effect:  HTTP,
	Fn:      sendTraffic,
}).check()

func sendTraffic(c *Call) (starlark.Value, error) {
	plan := loadPlan{
		clients: arg[int](c, "clients"), duration: arg[time.Duration](c, "duration"), paths: arg[[]string](c, "paths"),
		rate: arg[float64](c, "rate"), cookies: arg[bool](c, "cookies"), timeout: arg[time.Duration](c, "timeout"),
		clock: c.clock(),
	}
	switch {
	case plan.clients > maxClients:
		return nil, usagef("clients: %d is over %d", plan.clients, maxClients)
	case len(plan.paths) == 0:
		return nil, usagef("paths: there is none")
	case c.isSet("rate") && c.isGiven("clients"):
		return nil, usagef("rate and clients are both given: a rate takes the clients it needs")
	}
	plan.header = requestBody{}.fields(arg[map[string]string](c, "headers"))
	if err := c.aim(&plan, arg[any](c, "target")); err != nil {
		return nil, err
	}
	l, err := c.set.loads.start(plan)
	if err != nil {
		return nil, err
	}
	if !arg[bool](c, "wait") {
		return trafficRecord(l, l.tally()), nil
	}
	v, err := l.wait(c.ctx)
	if err != nil {
		l.cancel(context.Cause(c.ctx))
	}
	if c.ctx.Err() != nil { // who gave it up wants to know what it was good for
		c.set.env.Terminal.Say(l.tally().String())
	}
	return v, err
}

// aim sets where a load goes. An app is reached through this edge, under its
// first host; the token makes the edge say which release answered.
func (c *Call) aim(plan *loadPlan, target any) error {
	if u, ok := target.(*url.URL); ok {
		plan.base, plan.target = u, u.Redacted()
		return nil
	}
	a, err := c.engine().AppNamed(target.(string))
	if err != nil {
		return err
	}
	plan.base, err = url.Parse(a.URL)
	if err != nil || plan.base.Host == "" {
		return muru.Errorf(muru.KindRefused, "%s is not served at an address: %q", a.Name, a.URL)
	}
	// A prefix is never stripped, so paths are given whole, as to probe.
	if !c.isGiven("paths") {
		plan.paths = []string{routePath(a.Route)}
	}
	plan.base.Path, plan.target = "", a.Name
	plan.dial, plan.token = c.set.env.EdgeAddress, c.set.env.EdgeToken
	if len(a.Route.Hosts) > 0 && a.Route.Hosts[0] != "*" {
		plan.host = strings.Replace(a.Route.Hosts[0], "*", "www", 1)
	}
	for name, value := range a.Route.Headers {
		plan.header = append(plan.header, muru.Field{Name: name, Value: value})
	}
	return nil
}

// loadTarget is an app's name (a string) or a *url.URL.
var loadTarget Type = typeOf{"app or URL", func(c *Call, v starlark.Value) (any, error) {
	if s, ok := v.(starlark.String); ok && strings.Contains(string(s), "://") {
		return parseURL(string(s))
	}
	if r, ok := native[muru.Release](v); ok {
		return nil, wanted("an app or a URL", v).
			WithHint("traffic goes to whoever the split picks: traffic(%q), or probe(%q) for one request", r.ID.App, r.ID)
	}
	return appNoun.Convert(c, v)
}}

// nothingAnswered is the error of traffic that got no answer at all.
func (l *load) nothingAnswered(t tally) error {
	if t.requests() == 0 || len(t.statuses) > 1 || len(t.statuses) == 1 && t.statuses[0] == 0 {
		return nil
	}
	why := t.failure
	if why == "" {
		why = fmt.Sprintf("%d requests given up after %s", t.gaveUp, muru.FormatMeasured(l.plan.timeout))
	}
	return muru.Errorf(muru.KindHTTPFailed, "nothing answered at %s: %s", l.plan.target, why)
}
