package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"

	"muru"
)

// App declares an app, or changes its route by the keywords given. It errors
// with usage (the name), refused (the route overlaps another app's).
func (e *Engine) App(ctx context.Context, q AppRequest) (muru.App, Report, error) {
	return once(e, q.Caller, func() (muru.App, Report, error) {
		a, created, err := e.create(q.Name, q.Caller, q.Change)
		if err != nil {
			return muru.App{}, "", err
		}
		var app muru.App
		err = a.ask(ctx, func() error {
			defer func() { app = a.snapshot() }()
			if created {
				return nil
			}
			return a.changeRoute(q)
		})
		return app, "", err
	})
}

// changeRoute puts the keywords in force that differ from what the app has.
func (a *actor) changeRoute(q AppRequest) error {
	route := a.route
	var events []muru.Event
	for _, c := range q.Change {
		was := c.Print(route)
		c.Apply(&route)
		if is := c.Print(route); is != was {
			events = append(events, a.event(muru.LevelNotice, muru.AppChanged, a.name, q.Caller,
				eventAppChanged(c.Keyword, was, is, q.By)))
		}
	}
	if events == nil {
		return nil
	}
	old := a.route
	if err := a.e.reserve(route); err != nil {
		return err
	}
	a.route = route
	if err := a.commit(change{route: true, events: events}); err != nil {
		_ = a.e.reserve(old) // nobody can have taken it: calls that change routes are few, and this one just had it
		return err
	}
	return nil
}

// overlap reports whether some request is matched by both routes without one
// of them being the closer match. A named host is closer than *, a longer
// path than a shorter one, more required headers than fewer; so only routes
// that share a host entry, the path and the headers, and a method, overlap.
func overlap(a, b muru.Route) bool {
	return cleanPath(a.Path) == cleanPath(b.Path) && maps.Equal(a.Headers, b.Headers) &&
		share(cleanHosts(a.Hosts), cleanHosts(b.Hosts)) &&
		(len(a.Methods) == 0 || len(b.Methods) == 0 || share(a.Methods, b.Methods))
}

func cleanPath(p string) string { return strings.TrimRight(p, "/") }

func cleanHosts(hosts []string) []string {
	if len(hosts) == 0 {
		return []string{"*"}
	}
	clean := make([]string, len(hosts))
	for i, h := range hosts {
		clean[i] = strings.TrimSuffix(strings.ToLower(h), ".")
	}
	return clean
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
