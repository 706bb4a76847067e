package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"muru"
	"muru/rollout"
	"muru/rollout/rollouttest"
)

// A clock is virtual: it stands still until it is set.
type clock struct {
	mu     sync.Mutex // guards what is below
	now    time.Time
	timers map[*timer]struct{}
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC), timers: map[*timer]struct{}{}}
}

// Now implements [rollout.Clock].
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements [rollout.Clock].
func (c *clock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- c.now
		return t.c, func() {}
	}
	c.timers[t] = struct{}{}
	return t.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

// set moves the time on and fires what is due.
func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for t := range c.timers {
		if !t.at.After(now) {
			t.c <- now
			delete(c.timers, t)
		}
	}
}

// An edge keeps what it was told last. It has one app.
type edge struct {
	mu         sync.Mutex // guards what is below
	routing    muru.Routing
	thresholds []muru.Threshold
	sink       muru.Sink
}

// Route implements [rollout.Edge].
func (e *edge) Route(r muru.Routing) { e.mu.Lock(); defer e.mu.Unlock(); e.routing = r }

// Remove implements [rollout.Edge].
func (e *edge) Remove(string) {}

// Judge implements [rollout.Edge].
func (e *edge) Judge(_ string, t []muru.Threshold, s muru.Sink) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.thresholds, e.sink = t, s
}

// URL implements [rollout.Edge].
func (e *edge) URL(muru.Route) string { return "http://edge/" }

// A world is one app with a baseline and a candidate under trial, on a clock
// of its own.
type world struct {
	rand   *rand.Rand
	clock  *clock
	edge   *edge
	engine *rollout.Engine
	number int // of the rollout

	// What is in force, as of the last look.
	generation uint64
	share      muru.Share
	shadow     muru.Share // of the clients whose requests are copied
	live       bool
	thresholds []muru.Threshold
	sink       muru.Sink

	requests, failures int // of the candidate, copies included
	met                int // by people: those of the failures that were no copies
	minted             uint64
}

var baseline, candidate = muru.ReleaseID{App: "shop", Number: 1}, muru.ReleaseID{App: "shop", Number: 2}

// newWorld deploys two releases and starts a rollout of the second.
func newWorld(seed uint64, change func(*rollout.CanaryRequest)) *world {
	c := newClock()
	w := &world{rand: rand.New(rand.NewPCG(seed, 0)), clock: c, edge: &edge{}, minted: 1 << 40}
	w.engine = rollout.New(rollout.Options{Edge: w.edge, Host: &rollouttest.Host{}, Clock: c, Log: rollout.NewLog(c, 100)})
	ctx := context.Background()
	for _, hold := range []bool{false, true} {
		plan := muru.ReleasePlan{Source: "/srv/shop", Workers: 1, Threads: 1, Timeouts: muru.DefaultTimeouts()}
		if _, _, err := w.engine.Deploy(ctx, rollout.DeployRequest{App: "shop", Plan: plan, Hold: hold}); err != nil {
			panic("BUG: deploy: " + err.Error())
		}
	}
	q := rollout.NewCanary(candidate)
	change(&q)
	r, _, err := w.engine.Canary(ctx, q)
	if err != nil {
		panic("BUG: canary: " + err.Error())
	}
	w.number = r.Number
	w.look()
	return w
}

// look lets the engine do what it has to, and reads what is in force then.
func (w *world) look() {
	if err := w.engine.Sync(context.Background()); err != nil {
		panic("BUG: sync: " + err.Error())
	}
	w.edge.mu.Lock()
	defer w.edge.mu.Unlock()
	w.generation, w.live = w.edge.routing.Generation, w.edge.routing.Rollout != 0
	w.share, _ = w.edge.routing.Split.Share(candidate)
	w.shadow = 0
	if s := w.edge.routing.Shadow; s != nil {
		w.shadow = s.Share
	}
	w.thresholds, w.sink = w.edge.thresholds, w.edge.sink
}

// A request is what becomes of what one visitor asks for.
type request struct {
	took   time.Duration
	failed bool
	hangs  bool // until its hard timeout, or until its client leaves
}

// How long a request that hangs is waited for.
const (
	patience    = 10 * time.Second // by people
	hardTimeout = 30 * time.Second // by muru
)

// picked reports whether a client is one of a share of all: by chance, or by a
// hash of who it is. Those of a small share are among those of a larger one.
func (w *world) picked(client uint64, seed uint64, share muru.Share) bool {
	if client == 0 {
		return w.rand.IntN(muru.Buckets) < int(share)
	}
	x := (client ^ seed*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>29) * 0x94d049bb133111eb
	return (x^x>>32)%muru.Buckets < uint64(share)
}

// arrive begins the fact of a request to the baseline. A client of 0 has no
// cookie.
func (w *world) arrive(client uint64, at time.Time) muru.Fact {
	f := muru.Fact{App: "shop", Release: baseline, Generation: w.generation, Share: w.share, Client: client, Arrived: at}
	if client == 0 {
		w.minted++
		f.Client, f.Minted = w.minted*0x9e3779b97f4a7c15, true
	}
	return f
}

// visit has a client make a request: which of what the releases would do with
// it happens is up to who answers it, or has a copy of it.
func (w *world) visit(client, seed uint64, plain, tried request, at time.Time) {
	f := w.arrive(client, at)
	switch {
	case w.shadow > 0 && w.picked(client, seed, w.shadow):
		f.Share = w.shadow
		w.sendPair(f, plain, tried)
	case w.shadow == 0 && w.picked(client, seed, w.share):
		f.Release = candidate
		w.send(f, tried)
	default:
		w.send(f, plain)
	}
}

// send tells the judge of a request as the edge would, and has the engine
// look if it is one that may decide.
func (w *world) send(f muru.Fact, r request) {
	f = r.ended(f)
	event := r.failed
	if f.Release == candidate {
		w.count(r)
		if r.failed {
			w.met++
		}
	}
	for _, t := range w.thresholds {
		if t.Of == muru.OfDuration && f.Duration > t.After {
			over := f
			over.Status, over.Duration = 0, t.After
			w.sink.Overdue(over, t)
			event = true
		}
	}
	w.sink.Done(f)
	// The plain judge decides by its minimum, which any request can complete.
	if f.Release == candidate && (event || w.requests%100 == 0) {
		w.look()
	}
}

// sendPair tells the judge of a request and its copy.
func (w *world) sendPair(f muru.Fact, plain, tried request) {
	copied := f
	copied.Release = candidate
	if tried.hangs { // a copy has nobody who leaves
		tried = request{took: hardTimeout, failed: true}
	}
	w.count(tried)
	w.sink.Pair(plain.ended(f), tried.ended(copied))
	slow := func(t muru.Threshold) bool { return t.Of == muru.OfDuration && tried.took > t.After }
	if tried.failed || slices.ContainsFunc(w.thresholds, slow) || w.requests%100 == 0 {
		w.look()
	}
}

func (w *world) count(r request) {
	w.requests++
	if r.failed {
		w.failures++
	}
}

// ended completes a fact by what happened to its request.
func (r request) ended(f muru.Fact) muru.Fact {
	f.Duration, f.Status = r.took, 200
	switch {
	case r.hangs:
		f.Duration, f.Status, f.Reason = patience, muru.ReasonClientGone.Status(), muru.ReasonClientGone
	case r.failed:
		f.Status = 500
	}
	return f
}

// close ends the engine.
func (w *world) close() { _ = w.engine.Close(context.Background()) }
