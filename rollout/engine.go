package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"muru"
)

// A Report is the line or lines a changing call reports to the person,
// without the leading "muru: "; several are separated by \n. It is empty when
// there is nothing to say.
type Report string

// and adds another line.
func (r Report) and(other Report) Report {
	if r == "" || other == "" {
		return r + other
	}
	return r + "\n" + other
}

// Options are what an [Engine] works with. Edge and Host are required; a nil
// Clock is [RealClock] and a nil Log a new one of 100,000 events, in memory.
//
// An engine is as durable as its Log: on one from [OpenLog] it keeps its state
// in the same store, and [Engine.Restore] brings it back. One in memory keeps
// nothing, which is right for simulations and tests.
type Options struct {
	Edge     Edge
	Host     Host
	Clock    Clock
	Log      *Log
	Reporter *Reporter // attached to the engine by New; may be nil

	// Query asks the stores of gates with a query; nil asks them over HTTP.
	Query QueryFunc

	// Bug is told of moves that the tables of states do not allow, which are
	// refused. nil logs them; tests panic.
	Bug func(message string)
}

// errClosed is what calls get once the engine is closing.
var errClosed error = muru.Errorf(muru.KindRefused, "muru is stopping")

// An Engine moves apps between releases. Its methods are safe for concurrent
// use. Nothing runs until the first app exists; [Engine.Close] ends
// everything.
//
// Numbers (of rollouts and runs), the overlap of routes and what each run's
// calls have made are the engine's; everything else of an app is its actor's.
type Engine struct {
	edge  Edge
	host  Host
	clock Clock
	log   *Log
	onBug func(string)
	query QueryFunc

	ctx   context.Context // ends with Close
	stop  context.CancelCauseFunc
	tasks sync.WaitGroup // every goroutine Close waits for

	mu       sync.RWMutex // guards what is below
	closed   bool
	apps     map[string]*actor
	routes   map[string]muru.Route // as reserved by their apps
	rollouts map[int]*actor        // by number
	last     int                   // the newest rollout's number
	runs     map[int]*run
	made     map[callKey]any // what calls with a key have made

	runCounter runCounter
	scribe     scribe // writes what no call waits for
}

// callKey is one call of one run.
type callKey struct {
	run int
	key string
}

// New returns an engine without apps.
func New(o Options) *Engine {
	if o.Edge == nil || o.Host == nil {
		panic("BUG: an engine needs an edge and a host")
	}
	if o.Clock == nil {
		o.Clock = RealClock{}
	}
	if o.Log == nil {
		o.Log = NewLog(o.Clock, 0)
	}
	e := &Engine{
		edge: o.Edge, host: o.Host, clock: o.Clock, log: o.Log, onBug: o.Bug,
		apps: map[string]*actor{}, routes: map[string]muru.Route{}, rollouts: map[int]*actor{},
		runs: map[int]*run{}, made: map[callKey]any{},
	}
	if e.query = o.Query; e.query == nil {
		e.query = queryStore
	}
	if e.onBug == nil {
		e.onBug = func(message string) { slog.Error(message) }
	}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	if o.Reporter != nil {
		o.Reporter.Attach(e)
	}
	return e
}

// Close ends the actors, drains and probes, and waits for them until ctx
// ends. It stops no release and changes no route: traffic goes on until edge
// and host are closed.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stop(errClosed)
	done := make(chan struct{})
	go func() {
		e.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the engine: %w", context.Cause(ctx))
	}
}

// spawn runs fn on a goroutine that Close waits for. It reports false, and
// runs nothing, once the engine is closing.
func (e *Engine) spawn(fn func()) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return false
	}
	e.tasks.Go(fn)
	return true
}

// spawnLoose runs fn on a goroutine that Close does not wait for: a request
// inside a release that only the host can end.
func (e *Engine) spawnLoose(fn func()) bool {
	if e.ctx.Err() != nil {
		return false
	}
	go fn()
	return true
}

// Clock returns the engine's time.
func (e *Engine) Clock() Clock { return e.clock }

// Report adds an event to the log.
func (e *Engine) Report(event muru.Event) { e.log.Append(event) }

// Harm counts a crash or a kill against a release, in the window that its
// app's rollout is in now. The rollout decides on it at once.
func (e *Engine) Harm(id muru.ReleaseID, h muru.Harm) {
	e.mu.RLock()
	a := e.apps[id.App]
	e.mu.RUnlock()
	if a != nil {
		a.feed.harm(id, h)
	}
}

// FindEvents returns the events that q selects, oldest first, and an error if
// older ones may be missing; see [Log.Find].
func (e *Engine) FindEvents(ctx context.Context, q EventQuery) ([]muru.Event, error) {
	return e.log.Find(ctx, q)
}

// Events is [Engine.FindEvents] for those who can do without events that
// cannot be read now.
func (e *Engine) Events(q EventQuery) []muru.Event { return e.log.Query(q) }

// actorOf returns an app's actor, or an error of kind not_found.
func (e *Engine) actorOf(app string) (*actor, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.apps[app]; a != nil {
		return a, nil
	}
	err := muru.Errorf(muru.KindNotFound, "no app is called %q", app)
	return nil, suggest(err, app, slices.Sorted(maps.Keys(e.apps)))
}

// all returns the actors in the order of their names.
func (e *Engine) all() []*actor {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var all []*actor
	for _, name := range slices.Sorted(maps.Keys(e.apps)) {
		all = append(all, e.apps[name])
	}
	return all
}

// create returns the app's actor, making it with the default route if it does
// not exist. It errors when that route overlaps another app's.
func (e *Engine) create(name string, by Caller, keywords []RouteChange) (a *actor, created bool, err error) {
	if err := muru.CheckName(name); err != nil {
		return nil, false, err
	}
	route := muru.Route{App: name}
	for _, c := range keywords {
		c.Apply(&route)
	}
	e.mu.Lock()
	if a := e.apps[name]; a != nil || e.closed {
		e.mu.Unlock()
		if a == nil {
			err = errClosed
		}
		return a, false, err
	}
	if err := e.overlapLocked(route); err != nil {
		e.mu.Unlock()
		return nil, false, err
	}
	a = newActor(e, route)
	e.apps[name], e.routes[name] = a, route
	e.tasks.Go(a.run)
	e.mu.Unlock()
	err = a.ask(context.Background(), func() error {
		return a.commit(change{route: true, events: []muru.Event{
			a.event(muru.LevelNotice, muru.AppCreated, name, by, eventAppCreated(route)),
		}})
	})
	if err != nil {
		e.uncreate(a)
		return nil, false, err
	}
	return a, true, nil
}

// uncreate takes an app back that could not be written.
func (e *Engine) uncreate(a *actor) {
	e.mu.Lock()
	delete(e.apps, a.name)
	delete(e.routes, a.name)
	e.mu.Unlock()
	close(a.quit)
	e.edge.Remove(a.name)
}

// bug reports a programmer's error that a running muru survives: the change
// that showed it is refused.
func (e *Engine) bug(format string, args ...any) error {
	message := "BUG: " + fmt.Sprintf(format, args...)
	e.onBug(message)
	return muru.Errorf(muru.KindFailed, "%s: nothing was changed", message)
}

// reserve takes a changed route for its app.
func (e *Engine) reserve(route muru.Route) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.overlapLocked(route); err != nil {
		return err
	}
	e.routes[route.App] = route
	return nil
}

// overlapLocked refuses a route that another app's route cannot be told from.
func (e *Engine) overlapLocked(route muru.Route) error {
	for _, name := range slices.Sorted(maps.Keys(e.routes)) {
		if other := e.routes[name]; name != route.App && overlap(route, other) {
			return muru.Errorf(muru.KindRefused, "%s at %s overlaps %s at %s",
				route.App, eventAppCreated(route), name, eventAppCreated(other)).
				WithHint("give %s hosts or a path of its own: app(%q, hosts = [\"%s.example\"])", route.App, route.App, route.App)
		}
	}
	return nil
}

// nextRollout numbers a rollout and notes whose it is.
func (e *Engine) nextRollout(a *actor) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.rollouts[e.last] = a
	return e.last
}

// forgetRollout takes a number back that was given to no rollout in the end.
func (e *Engine) forgetRollout(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rollouts, number)
	if e.last == number {
		e.last--
	}
}

// setRollout notes whose a rollout is; nil: there is none of that number any
// more.
func (e *Engine) setRollout(number int, a *actor) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a == nil {
		delete(e.rollouts, number)
	} else {
		e.rollouts[number] = a
	}
}

// rolloutOf returns the actor of a rollout's app; nil if there is no such
// rollout.
func (e *Engine) rolloutOf(number int) *actor {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.rollouts[number]
}

// again returns what an earlier call with the same key made, if there was one.
func again[T any](e *Engine, by Caller) (made T, ok bool) {
	if by.Key == "" {
		return made, false
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	made, ok = e.made[callKey{by.Run, by.Key}].(T)
	return made, ok
}

// remember keeps what a call with a key made, until its run ends.
func remember[T any](e *Engine, by Caller, made T) {
	if by.Key == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made[callKey{by.Run, by.Key}] = made
}

// outcome is what a changing call returned, for calls that are made again.
type outcome[T any] struct {
	value  T
	report Report
}

// once makes a changing call unless its key has been used, in which case it
// returns what the first call returned. Errors are not kept: a call that
// changed nothing may be tried again.
func once[T any](e *Engine, by Caller, call func() (T, Report, error)) (T, Report, error) {
	if o, ok := again[outcome[T]](e, by); ok {
		return o.value, o.report, nil
	}
	value, report, err := call()
	if err == nil {
		remember(e, by, outcome[T]{value, report})
	}
	return value, report, err
}

// asRefused turns a usage error of a request into a refusal.
func asRefused(err error) error {
	if e, ok := errors.AsType[*muru.Error](err); ok && e.Kind == muru.KindUsage {
		refused := *e
		refused.Kind = muru.KindRefused
		return &refused
	}
	return err
}
