package muru

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

// A Backend answers requests: one release. Do waits in the release's queue,
// gives the request to a worker and passes the answer to x.Answer. It returns
// when the worker's part has ended, which for a request whose client left may
// be later than the client; it never blocks past the release's own deadlines.
// Cancelling ctx means that the client has gone (or, with another cause, that
// the request must end). Do is safe for concurrent use; an Exchange is used
// by one Do at a time.
type Backend interface {
	Do(ctx context.Context, x *Exchange) Outcome
}

// A BusyBackend is a [Backend] that can tell whether one more request would
// have to wait, or make others wait. Busy is cheap, safe for concurrent use,
// and only a look: it reserves nothing.
type BusyBackend interface {
	Backend
	Busy() bool
}

// A Field is one header field. Names are in canonical form (Content-Type).
type Field struct{ Name, Value string }

// An Exchange is one request on its way to a worker and the place for its
// answer. It holds slices and strings, nothing of net/http, so that both
// fronts of the edge and every kind of worker share it.
type Exchange struct {
	ID      string // ULID; also in Header as X-Request-Id
	Method  string
	Target  string // as the client sent it: /orders/1?full=yes
	Path    string // percent-decoded
	Query   string // raw, without the question mark
	Proto   string // HTTP/1.1
	Scheme  string // http or https
	Host    string // as the client sent it, with a port if it had one
	Remote  string // the client's address, host:port
	Local   string // the listener's address, host:port
	Header  []Field
	Length  int64 // of the body; -1: unknown, 0: none
	Body    io.Reader
	Upgrade bool // the client asked for another protocol; Header has Connection and Upgrade
	Answer  Answer
	// Arrived is when its wait for a worker begins. Who reads its body before
	// that moves it on by the time of the client.
	Arrived time.Time

	started atomic.Int64 // unix nanoseconds, 0 until a worker has it
}

// Start records that a worker has the request from now on. The backend calls
// it; when a request moves to another worker the later call counts.
func (x *Exchange) Start(now time.Time) { x.started.Store(now.UnixNano()) }

// QueueWait returns how long the request waited for a worker, and whether a
// worker has it already. It is safe to call while Do runs.
func (x *Exchange) QueueWait() (wait time.Duration, started bool) {
	ns := x.started.Load()
	if ns == 0 {
		return 0, false
	}
	return max(0, time.Duration(ns-x.Arrived.UnixNano())), true
}

// Again returns a copy of x that can be given to another backend: same
// request, not started. Only requests without a body can be repeated.
func (x *Exchange) Again() *Exchange {
	return &Exchange{
		ID: x.ID, Method: x.Method, Target: x.Target, Path: x.Path, Query: x.Query, Proto: x.Proto,
		Scheme: x.Scheme, Host: x.Host, Remote: x.Remote, Local: x.Local, Header: x.Header,
		Length: x.Length, Body: x.Body, Upgrade: x.Upgrade, Answer: x.Answer, Arrived: x.Arrived,
	}
}

// An Answer takes what a worker answers and passes it to the client. Calls
// are made by one goroutine at a time, in the order Inform*, then Head,
// Write*, Trailer; or Upgrade alone. Every error means that the client can no
// longer be reached ([ErrClientGone] is in its chain); the backend then reads
// the rest of the answer and drops it, or ends the request at the worker.
type Answer interface {
	// Inform passes on an interim answer (1xx, not 101).
	Inform(status int, header []Field) error
	// Head begins the answer. length is its body's, -1 when unknown. The
	// fields are checked by the backend and safe to send; the slice is the
	// backend's again after the call, the strings stay valid.
	Head(status int, header []Field, length int64) error
	// Write sends a part of the body; it reaches the client at Flush, when
	// enough has gathered, or when Do returns.
	Write(p []byte) (int, error)
	// Flush sends what has gathered. Backends call it after every part of a
	// stream (see [IsStream]).
	Flush() error
	// Trailer adds trailer fields after the body.
	Trailer(fields []Field) error
	// Upgrade sends the head of a 101 answer and returns the client's side of
	// the connection. The backend then copies both ways and closes it.
	Upgrade(status int, header []Field) (io.ReadWriteCloser, error)
}

// An Outcome says how a request ended. Exactly one of the causes of errors.go
// is in Err's chain, or Err is nil and the answer is complete.
type Outcome struct {
	Err      error
	Answered bool // the worker finished its answer, even if nobody was left to read it
	Worker   int  // which had it last, -1 if none
}

// IsStream reports whether an answer counts as a stream: one without a
// Content-Length, or text/event-stream. Answers that have no body by
// definition (HEAD, 204, 304) are none. Timeouts and latency bound a stream
// only until its head.
func IsStream(method string, status int, header []Field, length int64) bool {
	if method == "HEAD" || status == 204 || status == 304 {
		return false
	}
	if length < 0 {
		return true
	}
	for _, f := range header {
		if f.Name == "Content-Type" {
			media, _, _ := strings.Cut(f.Value, ";")
			return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
		}
	}
	return false
}

// IsSafe reports whether a request may be repeated without harm (RFC 9110,
// section 9.2.1): it asks for nothing to be changed and carries no body.
func (x *Exchange) IsSafe() bool {
	switch x.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return x.Body == nil && !x.Upgrade
	}
	return false
}
