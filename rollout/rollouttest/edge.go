// Package rollouttest has stand-ins for what the engine drives: an edge and a
// host that remember what they were told and do what a test says. The zero
// values work; set a func to change what one method does, before the engine
// has the fake.
package rollouttest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"muru"
)

// An Edge is a [rollout.Edge] that remembers what it was told and can play
// the clients.
type Edge struct {
	RouteFunc  func(muru.Routing)
	RemoveFunc func(app string)
	JudgeFunc  func(app string, thresholds []muru.Threshold, sink muru.Sink)
	URLFunc    func(muru.Route) string
	Now        func() time.Time // of Send's requests; time.Now by default

	mu      sync.Mutex // guards what is below
	routing map[string]muru.Routing
	judges  map[string]judge
	removed map[string]int
	swaps   []muru.Routing
}

type judge struct {
	thresholds []muru.Threshold
	sink       muru.Sink
}

// Route remembers r.
func (e *Edge) Route(r muru.Routing) {
	e.mu.Lock()
	if e.routing == nil {
		e.routing = map[string]muru.Routing{}
	}
	e.routing[r.Route.App] = r
	e.swaps = append(e.swaps, r)
	e.mu.Unlock()
	if e.RouteFunc != nil {
		e.RouteFunc(r)
	}
}

// Remove forgets an app.
func (e *Edge) Remove(app string) {
	e.mu.Lock()
	delete(e.routing, app)
	if e.removed == nil {
		e.removed = map[string]int{}
	}
	e.removed[app]++
	e.mu.Unlock()
	if e.RemoveFunc != nil {
		e.RemoveFunc(app)
	}
}

// Judge remembers who listens.
func (e *Edge) Judge(app string, thresholds []muru.Threshold, sink muru.Sink) {
	e.mu.Lock()
	if e.judges == nil {
		e.judges = map[string]judge{}
	}
	e.judges[app] = judge{slices.Clone(thresholds), sink}
	e.mu.Unlock()
	if e.JudgeFunc != nil {
		e.JudgeFunc(app, thresholds, sink)
	}
}

// URL returns http://edge/ and the route's path.
func (e *Edge) URL(r muru.Route) string {
	if e.URLFunc != nil {
		return e.URLFunc(r)
	}
	if r.Path == "" {
		return "http://edge/"
	}
	return "http://edge" + r.Path
}

// Routing returns what the edge has for an app, and whether it has anything.
func (e *Edge) Routing(app string) (muru.Routing, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.routing[app]
	return r, ok
}

// Swaps returns every Routing the edge was given, oldest first.
func (e *Edge) Swaps() []muru.Routing {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.swaps)
}

// Apps returns the names of the apps the edge has, sorted.
func (e *Edge) Apps() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.routing))
}

// Thresholds returns the times the edge was told to watch for an app.
func (e *Edge) Thresholds(app string) []muru.Threshold {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.judges[app].thresholds
}

// Sink returns who hears of an app's requests; nil if nobody does.
func (e *Edge) Sink(app string) muru.Sink {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.judges[app].sink
}

// Send plays n requests of n new clients that a release answered with status
// after took, and tells the sink as the edge would: overdue thresholds first,
// then the end. The facts are of the routing in force now, whatever share the
// release has in it.
func (e *Edge) Send(id muru.ReleaseID, n, status int, took time.Duration) {
	for range n {
		f := e.Begin(id)
		f.Status, f.Duration = status, took
		e.End(f)
	}
}

// Begin returns the fact of a request to a release that has just arrived,
// under the routing in force, of a client never seen before that came with an
// identity of its own.
func (e *Edge) Begin(id muru.ReleaseID) muru.Fact {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	clients.Lock()
	clients.n++
	client := clients.n
	clients.Unlock()
	r := e.routing[id.App]
	var share muru.Share // of the candidate, as the edge tells it
	if len(r.Split.Arms) > 1 {
		share = r.Split.Arms[0].Share
	}
	return muru.Fact{
		App: id.App, Release: id, Generation: r.Generation, Share: share,
		Client: client, Arrived: now(),
	}
}

// End tells the sink that a request has ended.
func (e *Edge) End(f muru.Fact) {
	e.mu.Lock()
	j := e.judges[f.App]
	e.mu.Unlock()
	if j.sink == nil {
		return
	}
	for _, t := range j.thresholds {
		if t.Of == muru.OfDuration && f.Duration > t.After || t.Of == muru.OfQueueWait && f.QueueWait > t.After {
			over := f
			over.Status, over.Duration = 0, t.After
			j.sink.Overdue(over, t)
		}
	}
	j.sink.Done(f)
}

// clients numbers the clients of Begin.
var clients struct {
	sync.Mutex
	n uint64
}
