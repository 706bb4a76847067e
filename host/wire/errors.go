package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrNotSent is in the chain of an error of [Link.Send] when the worker
	// cannot have started the request: it may be given to another one.
	ErrNotSent = errors.New("the request did not reach the worker")

	// ErrClosed is in the chain of an error when the connection ended: the
	// worker died or closed it, or we did.
	ErrClosed = errors.New("the worker closed its connection")

	// ErrUnresponsive is returned by [Control.Stacks] and [Dump] when the
	// worker did not answer in time.
	ErrUnresponsive = errors.New("the worker does not respond")
)

// A ProtocolError says how a worker broke the protocol. Its connection is of
// no more use; the worker should be replaced. What completes the sentence
// "the worker broke the protocol: ".
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "broke the protocol: " + e.What }

func protocolError(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}

// A BodyError is returned when the client's request body could not be read.
// Err is what its Read returned. The worker is in order: its thread was told
// and is free again.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "read the request's body: " + e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }
