// Package muru is the domain of muru: the words people use for releases and
// their traffic, as values and pure rules. It does no I/O, starts no
// goroutine and imports only the standard library; every other package of the
// project may import it, and it imports none of them.
//
// The nouns:
//
//   - [App], [Route]: a web application and where and how it is reached
//   - [Release], [ReleaseID], [ReleaseState]: one immutable deployed version
//   - [Split], [Share]: which release a client's bucket belongs to
//   - [Rollout], [Step], [RolloutState]: one attempt to move an app to a candidate
//   - [Gate], [Verdict], [Window], [Arm]: what a candidate must hold, and what was seen
//   - [Event]: a numbered fact, printed and parsed as one line
//   - [Worker], [Stack]: what runs, and where it is
//
// What crosses between the packages that do the work:
//
//   - [Backend] takes an [Exchange] (a parsed request, its body and a place
//     for the [Answer]) and returns an [Outcome]: edge to host
//   - [Sink] takes the [Fact] of each randomised request: edge to engine
//   - [Reporter] takes events and crashes: edge and host to engine
//   - [Routing] is everything the edge knows of one app: engine to edge
//
// Text for people has one form each: units.go parses and prints durations,
// shares, percentages and sizes; event.go prints and parses event lines;
// errors.go holds every error; [Suggest] finds the name somebody meant. The two
// state machines are tables: [ReleaseState.CanBecome] and
// [RolloutState.CanBecome].
//
// Start reading at [Exchange] for the path of a request and at [Rollout] for
// the path of a release.
package muru
