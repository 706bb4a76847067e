package builtins

import (
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

// A target is an app, a release of it, or a rollout; exactly one is set.
type target struct {
	app     string
	release muru.ReleaseID
	rollout int
	load    *load // traffic, for stop and wait
	poll    starlark.Callable
}

// The nouns a call is about.
var (
	// appNoun is an App or its name; a string.
	appNoun Type = typeOf{"app", func(_ *Call, v starlark.Value) (any, error) {
		t, err := toTarget(v, "an app")
		if err != nil {
			return nil, err
		}
		if t.app == "" {
			return nil, wanted("an app", v).WithHint(`an app is an App or its name, such as "shop"`)
		}
		return t.app, nil
	}}
	// releaseNoun is a Release or its full name; a muru.ReleaseID.
	releaseNoun Type = typeOf{"release", func(_ *Call, v starlark.Value) (any, error) { return toRelease(v, "") }}
	// rolloutNoun is a Rollout, its number, or an app for its live or latest
	// one; a target.
	rolloutNoun Type = typeOf{"rollout", func(_ *Call, v starlark.Value) (any, error) {
		t, err := toTarget(v, "a rollout")
		if err != nil {
			return nil, err
		}
		if t.rollout == 0 && t.app == "" {
			return nil, wanted("a rollout", v).WithHint(`a rollout is a Rollout, its number, or an app for its live one`)
		}
		return t, nil
	}}
	// appOrRelease is one of the two; a target.
	appOrRelease Type = typeOf{"app or release", func(_ *Call, v starlark.Value) (any, error) {
		t, err := toTarget(v, "an app or a release")
		if err == nil && t.rollout != 0 {
			return nil, wanted("an app or a release", v)
		}
		return t, err
	}}
	// anyTarget is an app, a release or a rollout; a target.
	anyTarget Type = typeOf{"app, release or rollout", func(_ *Call, v starlark.Value) (any, error) {
		return toTarget(v, "an app, a release or a rollout")
	}}
	// stoppable is what stop takes: an app, a release or traffic; a target.
	stoppable Type = typeOf{"app, release or Traffic", func(_ *Call, v starlark.Value) (any, error) {
		if l, ok := native[*load](v); ok {
			return target{load: l}, nil
		}
		t, err := toTarget(v, "an app, a release or Traffic")
		if err == nil && t.rollout != 0 {
			return nil, wanted("an app, a release or Traffic", v).WithHint("abort ends a rollout")
		}
		return t, err
	}}
	// waitable is what wait takes: a rollout, traffic or a function; a target.
	waitable Type = typeOf{"rollout, Traffic or function", func(c *Call, v starlark.Value) (any, error) {
		if l, ok := native[*load](v); ok {
			return target{load: l}, nil
		}
		if f, ok := v.(starlark.Callable); ok {
			return target{poll: f}, nil
		}
		return rolloutNoun.Convert(c, v)
	}}
)

func toTarget(v starlark.Value, what string) (target, error) {
	switch v := v.(type) {
	case *Record:
		switch x := v.native.(type) {
		case muru.App:
			return target{app: x.Name}, nil
		case muru.Release:
			return target{release: x.ID}, nil
		case muru.Rollout:
			return target{rollout: x.Number}, nil
		}
	case starlark.Int:
		if n, ok := v.Int64(); ok && n > 0 && n < 1<<31 {
			return target{rollout: int(n)}, nil
		}
	case starlark.String:
		if strings.Contains(string(v), "@") {
			id, err := muru.ParseReleaseID(string(v), "")
			return target{release: id}, err
		}
		return target{app: string(v)}, muru.CheckName(string(v))
	}
	return target{}, wanted(what, v)
}

// toRelease takes a Release, its full name, or "r6" where app is known.
func toRelease(v starlark.Value, app string) (muru.ReleaseID, error) {
	switch v := v.(type) {
	case *Record:
		if r, ok := v.native.(muru.Release); ok {
			if app != "" && r.ID.App != app {
				return muru.ReleaseID{}, usagef("%s is not a release of %s", r.ID, app)
			}
			return r.ID, nil
		}
		if a, ok := v.native.(muru.App); ok {
			return muru.ReleaseID{}, wanted("a release", v).WithHint("what serves it is its baseline: status(%q).baseline", a.Name)
		}
	case starlark.String:
		return muru.ParseReleaseID(string(v), app)
	}
	return muru.ReleaseID{}, wanted("a release", v).WithHint(`a release is a Release or its name, such as "shop@r6"`)
}

// rolloutNumber is the rollout a call is about.
func (c *Call) rolloutNumber(name string) (int, error) {
	return c.numberOf(arg[target](c, name))
}

func (c *Call) numberOf(t target) (int, error) {
	if t.rollout != 0 {
		return t.rollout, nil
	}
	r, err := c.engine().LiveOrLatest(t.app)
	return r.Number, err
}

// releasesOf are the releases a look at t is about: one, those of an app that
// keep reports true for, or those of all apps if t is empty.
func (c *Call) releasesOf(t target, keep func(muru.Release) bool) ([]muru.ReleaseID, error) {
	if !t.release.IsZero() {
		_, err := c.engine().Release(t.release)
		return []muru.ReleaseID{t.release}, err
	}
	all, err := c.engine().Releases(t.app)
	if err != nil {
		return nil, err
	}
	var ids []muru.ReleaseID
	for _, r := range all {
		if keep(r) {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}
