// Package upstream speaks HTTP/1.1 to one server: a worker of a release that
// listens on a port or a unix socket, or a server somebody else runs.
//
// It is no http.Transport, because that costs two goroutines and a handful of
// channel hand-overs for every connection. Here the goroutine that has the
// request drives the connection: it writes the head (and a small body) with
// one write, parses the answer in place and passes it on.
//
//   - [Client] is the pool of idle connections to one server, last in first
//     out; [Client.Do] sends one request and passes on its answer
//   - [Hooks] tell the caller how far a request has come
//   - [AnswerError], [RequestError], [GoneError], [ErrConnect] and [ErrReset]
//     say how it failed
//
// Inside: conn.go is a connection and its read buffer, call.go is one request
// on one connection, request.go writes its head, sender.go its body; head.go
// and framing.go are the strict parser of answers, body.go and chunk.go read
// their bodies, tunnel.go takes over after 101 and websocket.go finds the place
// for a close frame.
//
// Ownership: a connection belongs either to the pool or to one Do. Do starts
// a goroutine only for a body that does not fit into the first write and for
// an upgraded connection, and waits for its end. The pool owns one timer,
// which [Client.Close] stops; there is no other background work.
//
// What an answer may look like is decided strictly, since a lenient reading
// is how answers of one client end up with another: a field name followed by
// a space, a folded line, a bare CR, two lengths, a length beside a transfer
// coding, any coding but chunked end the request with [ErrReset]. A line of
// the head may end in LF alone, as RFC 9112 allows; a line of the chunked
// coding may not.
//
// Start reading at [Client.Do].
package upstream
