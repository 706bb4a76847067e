// Package control is how people reach a muru: one interface, [Muru], that
// every verb, REPL input and run goes through, and the way to one that serves
// in another process.
//
//   - control.go: [Muru], [Session] and what they are asked
//   - state.go, event.go, message.go: what they answer, and its JSON
//   - errors.go: [Error], a failure that crossed the socket
//   - caller.go: who asks
//   - path.go, [Listen]: where the socket is
//   - [Server] serves a Muru over HTTP on a unix socket
//   - [Client] is a Muru that asks such a server; leaving.go is how it gives up
//
// The API is HTTP and JSON, so that curl --unix-socket reads it too. A stream
// is a line of JSON per [Message], flushed at once, and ends with
// {"kind":"end"} or {"kind":"error","error":{…}}; {"kind":"alive"} now and
// then says that nothing happened. A stream without such an end was cut. Who
// closes the connection gives up what works there; who closes only their half of
// it gives it up too, and hears what it still says of what it did.
//
// Ownership: the implementation of Muru owns runs and what sessions know; the
// server owns connections and the table of sessions, and ends what it started
// when it closes.
//
// Start reading at [Muru], then [Server].
package control
