// Package rollout is the engine: it moves apps between releases and decides,
// on what the edge saw, whether a candidate deserves all the traffic. It knows
// no process and no Starlark, and of HTTP only what a probe needs.
//
// # Map
//
//   - [Engine] is what others call; requests.go has what it is asked with,
//     ports.go the [Edge], [Host] and [Clock] it works with
//   - [Log] is the record of what happened, [Reporter] the way into it for
//     edge and host, which are made before the engine; log_disk.go and
//     log_commit.go keep it in a store, log_older.go reads what memory lacks
//   - actor.go: the goroutine that owns one app; commit.go: the one way an
//     app changes; ask.go: changes that are written or undone
//   - record.go and record_*.go: what is kept, save.go and save_parcel.go: when;
//     restore.go and mend.go: how it comes back after a restart; gc.go: how it goes
//   - deploy.go, serve.go, drain.go, stop.go, split.go, rollback.go: releases
//   - canary.go (plans), start.go, queue.go and retry.go (how one begins),
//     live.go (steps), ends.go, missing.go, approve.go, watch.go: rollouts;
//     observe.go: the judge without the hands; why.go: what decided, again
//   - judge.go is the interface of judges; threshold.go and verdicts.go the
//     plain one, counts.go what it counts; sequential.go the default one,
//     which weighs evidence.go of clients.go on top of that, and memory.go what
//     it carries on; balance.go looks at the split itself
//   - examiner.go asks a judge together with gates' functions (Starlark, for
//     all we know), query.go's stores and probes
//   - feed.go takes the edge's facts to the judges
//   - texts.go and texts_events.go have every text
//   - sync.go is for simulations, such as bench/judge
//
// # Who owns what
//
// An app's state belongs to its actor. A call is a func sent to the actor,
// which runs one at a time and waits for nothing: starting, draining, stopping
// and asking functions happen on goroutines that send their results back the
// same way. Two things are read elsewhere: the view that each commit
// publishes, and a judge, which has a mutex because it is fed by requests.
// Numbers, the overlap of routes and what a run has made are the Engine's,
// under its mutex. No mutex is held while edge or host are called.
//
// # From a call to an effect
//
// A change reaches the edge's table first, then state and events are written
// in one transaction of the store, then those who wait are woken. So a crash
// brings back what was written last, and never more traffic for a candidate
// than that. What nobody is told of (how far a rollout is in its step, and what
// could not be written before) is written by the engine's scribe, so that a disk
// that hangs keeps no actor from a verdict. States move along the tables of
// package muru only; anything else is a bug and refused ([Options.Bug]).
//
// A rollout is looked at every second, when its judge wakes the actor (a
// harm, the first request, the minimum reached, evidence enough), when a function or probe has
// answered and when its hold or deadline is over. Each look asks every gate: a
// failing one ends the rollout there, or freezes it; a step passes when its hold
// is over, its minimum (or its proof) is there and every gate passes.
//
// Start reading at [Engine.Canary], then live.go.
package rollout
