package rollout

import (
	"context"
	"fmt"
	"slices"

	"muru"
)

// The calls here read what the actors have published and change nothing.

// Apps returns every app, by name.
func (e *Engine) Apps() []muru.App {
	var apps []muru.App
	for _, a := range e.all() {
		apps = append(apps, a.shown())
	}
	return apps
}

// AppNamed returns one app, or an error of kind not_found.
func (e *Engine) AppNamed(name string) (muru.App, error) {
	a, err := e.actorOf(name)
	if err != nil {
		return muru.App{}, err
	}
	return a.shown(), nil
}

// shown returns the app as people see it. Its URL is the edge's of now: what
// the actor showed last may be from before the edge listened.
func (a *actor) shown() muru.App {
	app := a.view.Load().app
	app.URL = a.e.edge.URL(app.Route)
	return app
}

// Releases returns an app's releases, oldest first, or those of every app if
// app is empty.
func (e *Engine) Releases(app string) ([]muru.Release, error) {
	actors, err := e.some(app)
	var all []muru.Release
	for _, a := range actors {
		all = append(all, a.view.Load().releases...)
	}
	return all, err
}

// some returns the actor of an app, or all of them if app is empty.
func (e *Engine) some(app string) ([]*actor, error) {
	if app == "" {
		return e.all(), nil
	}
	a, err := e.actorOf(app)
	if err != nil {
		return nil, err
	}
	return []*actor{a}, nil
}

// Release returns one release, or an error of kind not_found.
func (e *Engine) Release(id muru.ReleaseID) (muru.Release, error) {
	a, err := e.actorOf(id.App)
	if err != nil {
		return muru.Release{}, err
	}
	v := a.view.Load()
	i, ok := slices.BinarySearchFunc(v.releases, id.Number, func(r muru.Release, n int) int { return r.ID.Number - n })
	if !ok {
		return muru.Release{}, noRelease(id, v.last)
	}
	return v.releases[i], nil
}

// Rollouts returns an app's rollouts, oldest first, or those of every app by
// number if app is empty.
func (e *Engine) Rollouts(app string) ([]muru.Rollout, error) {
	actors, err := e.some(app)
	var all []muru.Rollout
	for _, a := range actors {
		all = append(all, a.view.Load().rollouts...)
	}
	slices.SortStableFunc(all, func(x, y muru.Rollout) int { return x.Number - y.Number })
	return all, err
}

// Rollout returns one rollout, or an error of kind not_found.
func (e *Engine) Rollout(number int) (muru.Rollout, error) {
	a, err := e.actorOfRollout(number)
	if err != nil {
		return muru.Rollout{}, err
	}
	return a.view.Load().rollout(number), nil
}

// actorOfRollout returns the actor of the app that a rollout is of.
func (e *Engine) actorOfRollout(number int) (*actor, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.rollouts[number]; a != nil {
		return a, nil
	}
	err := muru.Errorf(muru.KindNotFound, "there is no rollout %d", number)
	if e.last > 0 {
		err = err.WithHint("the latest is rollout %d", e.last)
	}
	return nil, err
}

// rollout returns the rollout of that number; the zero Rollout if the view is
// older than it.
func (v *view) rollout(number int) muru.Rollout {
	i, ok := slices.BinarySearchFunc(v.rollouts, number, func(r muru.Rollout, n int) int { return r.Number - n })
	if !ok {
		return muru.Rollout{}
	}
	return v.rollouts[i]
}

// LiveOrLatest returns an app's live rollout, else its latest (which may be
// queued for a moment), or an error of
// kind not_found.
func (e *Engine) LiveOrLatest(app string) (muru.Rollout, error) {
	a, err := e.actorOf(app)
	if err != nil {
		return muru.Rollout{}, err
	}
	all := a.view.Load().rollouts
	if len(all) == 0 {
		return muru.Rollout{}, muru.Errorf(muru.KindNotFound, "%s has had no rollout", app)
	}
	for _, r := range slices.Backward(all) {
		if r.Live() && r.State != muru.Queued {
			return r, nil
		}
	}
	return all[len(all)-1], nil
}

// Logs returns lines of a release's log, oldest first.
func (e *Engine) Logs(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error) {
	if _, err := e.Release(id); err != nil {
		return nil, err
	}
	lines, err := e.host.Logs(ctx, id, q)
	return lines, described(err, "read the log of %s", id)
}

// Stacks returns where the threads of a release's workers are; worker -1 is
// all of them.
func (e *Engine) Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error) {
	if _, err := e.Release(id); err != nil {
		return nil, err
	}
	stacks, err := e.host.Stacks(ctx, id, worker)
	return stacks, described(err, "read the stacks of %s", id)
}

// Workers returns a release's workers; none if it has stopped.
func (e *Engine) Workers(id muru.ReleaseID) ([]muru.Worker, error) {
	if _, err := e.Release(id); err != nil {
		return nil, err
	}
	return e.host.Workers(id), nil
}

// described adds what was done to an error that is not worded for people.
func described(err error, format string, args ...any) error {
	if err == nil || muru.KindOf(err) != muru.KindFailed {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
