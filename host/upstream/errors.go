package upstream

import (
	"errors"
	"fmt"

	"muru"
)

// How a request fails at the server. Both are found with errors.Is.
var (
	// ErrConnect is returned when the server could not be reached: nothing of
	// the request was sent.
	ErrConnect = errors.New("the upstream cannot be reached")

	// ErrReset is returned when the server closed the connection before its
	// answer was complete or answered something that is not HTTP/1.1. The
	// error is an [AnswerError], which says what.
	ErrReset = errors.New("the upstream broke off")
)

// An AnswerError says what was wrong with an answer. errors.Is finds
// [ErrReset] in it and, when there was one, the error of the connection.
type AnswerError struct {
	What string // such as "two Content-Length fields"
	Err  error  // of the connection; nil when the answer itself was at fault
}

func (e *AnswerError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("answer of the upstream: %s: %v", e.What, e.Err)
	}
	return "answer of the upstream: " + e.What
}

// Unwrap returns ErrReset and the connection's error.
func (e *AnswerError) Unwrap() []error { return []error{ErrReset, e.Err} }

// malformed makes the error of an answer that breaks the protocol.
func malformed(format string, args ...any) error {
	return &AnswerError{What: fmt.Sprintf(format, args...)}
}

// A RequestError says why a request cannot be written as HTTP/1.1: a line
// break in a value, a space in the target. Nothing was sent. The edge checks
// all of this, so it is a second line of defence; errors.Is finds
// [muru.ErrMalformedBody] in it, so that it is answered like other malformed
// input.
type RequestError struct{ What string }

func (e *RequestError) Error() string { return "request cannot be sent: " + e.What }

// Unwrap returns muru.ErrMalformedBody.
func (e *RequestError) Unwrap() error { return muru.ErrMalformedBody }

// A GoneError is returned when the client went away while its answer was
// passed on. errors.Is finds [muru.ErrClientGone] in it.
type GoneError struct {
	Answered bool  // the server's answer was complete; nobody was left to read it
	Err      error // what the exchange's Answer returned
}

func (e *GoneError) Error() string { return fmt.Sprintf("pass on the answer: %v", e.Err) }

// Unwrap returns muru.ErrClientGone and the error of the Answer.
func (e *GoneError) Unwrap() []error { return []error{muru.ErrClientGone, e.Err} }
