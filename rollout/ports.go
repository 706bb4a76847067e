package rollout

import (
	"context"
	"time"

	"muru"
)

// Edge is what the engine needs of the HTTP edge. Its methods are safe for
// concurrent use and return at once: a change is in force for every request
// that is picked after the call has returned.
type Edge interface {
	// Route puts r in the place of what the edge had for r.Route.App.
	Route(r muru.Routing)
	// Remove forgets an app.
	Remove(app string)
	// Judge makes sink hear of the app's randomised requests from the next
	// Routing on, and of each threshold that passes. A nil sink ends it; facts
	// of requests that were picked before still arrive.
	Judge(app string, thresholds []muru.Threshold, sink muru.Sink)
	// URL is where people reach a route, such as http://127.0.0.1:8080/.
	URL(r muru.Route) string
}

// Host is what the engine needs of the worker host.
type Host interface {
	// Start starts a release's workers and returns when all of them are ready,
	// or with a *muru.Error of kind not_ready whose Detail is the end of the
	// release's log. It may be called again after Stop.
	Start(ctx context.Context, r muru.Release) (muru.Backend, error)
	// Drain waits for the requests that are in the release at the call, cuts
	// each class of them at its deadline and says what it cut. The release
	// keeps answering new requests.
	Drain(ctx context.Context, id muru.ReleaseID) (muru.Drained, error)
	// Stop drains and ends a release; from the call on its backend returns
	// muru.ErrDraining.
	Stop(ctx context.Context, id muru.ReleaseID) (muru.Drained, error)
	// Recall gives back the requests that wait for a worker of a release and
	// were not started, with muru.ErrDraining, so that the edge picks again for
	// them. It returns at once; the release keeps answering.
	Recall(id muru.ReleaseID)
	// InFlight counts what is in the release now.
	InFlight(id muru.ReleaseID) (requests, streams, websockets int)
	// Ready reports whether at least one worker can answer.
	Ready(id muru.ReleaseID) bool
	Workers(id muru.ReleaseID) []muru.Worker
	// Stacks captures the stacks of a release's workers; worker -1 is all.
	Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error)
	// Logs returns lines oldest first, each stamped as in the log.
	Logs(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error)
}

// Clock is the engine's time, and that of everything a recipe waits on. The
// real one is [RealClock]; a virtual one makes a recipe's hours take no time.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets one value after d, and a stop func
	// that must be called when it is no longer waited for.
	After(d time.Duration) (<-chan time.Time, func())
}

// RealClock is the machine's clock.
type RealClock struct{}

// Now returns the time.
func (RealClock) Now() time.Time { return time.Now() }

// After is time.NewTimer.
func (RealClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Sleep waits on c for d or until ctx ends, and returns ctx's cause then.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	done, stop := c.After(d)
	defer stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
