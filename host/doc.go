// Package host runs releases: their worker processes, the queue of each
// release, its requests' way to a worker and back, hard timeouts, stacks,
// logs and drains.
//
//   - [Host] is everything of one daemon: Start, Drain and Stop releases, and
//     look into them
//   - release (release.go) is one of them and a [muru.Backend]: dispatch.go is
//     the way of a request, ahead.go what is read of its body before it takes a
//     thread, pythonrequest.go and httprequest.go its last part
//   - worker (worker.go) is one process; supervise.go decides what its death
//     means, stuck.go what a request past the hard timeout leads to
//   - request, slot, queue (request.go) are guarded by their release's mu
//   - life (life.go) is the context of a request at an HTTP server, which ends
//     when we say so
//   - port.go: whose port a command worker's is; oom.go: whom the kernel killed
//   - drain (drain.go): how requests end when a release does
//   - releaseLog, follower, readLog: what workers print
//   - wire and upstream, below this folder, speak to workers
//
// # Who owns what
//
// A release's mutex guards who is on which slot and who waits. It is held for
// moments only: whoever takes a request off its slot claims the slot for the
// next one under it and then sends outside it.
//
// One goroutine, the supervisor, owns a worker process: it alone signals it,
// reaps it and decides what follows. Others ask it with worker.order.
//
// A request's own goroutine does all its work; nothing else writes to its
// client. Whoever must end it (a timeout, a drain) says so with release.cut,
// which closes what it is blocked on.
//
// # Choices
//
// The client of a plain request may leave: the request then keeps its place
// in the queue, and its worker until that answers, because nothing can be
// taken back from a thread. A stream or upgraded connection ends with its
// client, and so does every request to an external server.
//
// A worker that is cut off from a request (hard timeout, end of a drain)
// notices when it answers: its thread then connects again, and takes part
// again.
//
// Start reading at [release.Do] for requests and at worker.supervise for
// processes.
package host
