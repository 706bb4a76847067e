package muru

import (
	"errors"
	"fmt"
)

// Causes a [Backend] gives in [Outcome.Err]. The edge turns each into one
// status and reason; nobody else decides on them.
var (
	// ErrApp is returned when the application raised before it answered.
	ErrApp = errors.New("the application raised an exception")

	// ErrWorkerDied is returned when the worker (or upstream) that had the
	// request died, closed its connection or broke the protocol.
	ErrWorkerDied = errors.New("the worker answering the request died")

	// ErrHardTimeout is returned when the request ran past the release's hard
	// timeout.
	ErrHardTimeout = errors.New("the request ran past its hard timeout")

	// ErrQueueTimeout is returned when no worker was free within the release's
	// queue timeout.
	ErrQueueTimeout = errors.New("no worker was free in time")

	// ErrQueueFull is returned at once when the release's queue holds its
	// limit of requests.
	ErrQueueFull = errors.New("too many requests are waiting")

	// ErrDraining is returned by a backend that takes no new requests: it is
	// stopping or gone. The request was not started; pick again.
	ErrDraining = errors.New("the release takes no new requests")

	// ErrClientGone is returned when the client went away before its answer
	// was complete. It is no error of the release.
	ErrClientGone = errors.New("the client went away")

	// ErrBodyTooLarge is what an [Exchange] body's Read returns past the
	// route's max_body.
	ErrBodyTooLarge = errors.New("the request body is too large")

	// ErrMalformedBody is what an [Exchange] body's Read returns when the
	// client's framing of it is broken.
	ErrMalformedBody = errors.New("the request body is malformed")

	// ErrBodyTooSlow is what an [Exchange] body's Read returns when the client
	// sends it so slowly that nobody shall wait for the rest.
	ErrBodyTooSlow = errors.New("the request body came too slowly")

	// ErrDrainCut is the cause when a drain ended a request at its deadline.
	ErrDrainCut = errors.New("cut by the end of the drain")
)

// ClientFault reports whether err is something that the client of a request
// did: it left, or its body cannot be taken.
func ClientFault(err error) bool {
	return errors.Is(err, ErrClientGone) || errors.Is(err, ErrBodyTooLarge) || errors.Is(err, ErrBodyTooSlow) || errors.Is(err, ErrMalformedBody)
}

// ErrorKind says what sort of failure an [Error] is: what recipes compare
// (err.kind) and exit codes are chosen by.
type ErrorKind uint8

// The kinds, in the order of the reference. Canceled and Budget cannot be
// caught by a recipe's attempt().
const (
	KindFailed ErrorKind = iota // the zero value: anything without a better kind
	KindUsage
	KindNotFound
	KindRefused
	KindDenied
	KindNotReady
	KindRolledBack
	KindAborted
	KindSuperseded
	KindGateFailed
	KindNoData
	KindTimeout
	KindInterrupted
	KindCommandFailed
	KindHTTPFailed
	KindCanceled
	KindBudget
)

var errorKindNames = [...]string{
	"failed", "usage", "not_found", "refused", "denied", "not_ready", "rolled_back",
	"aborted", "superseded", "gate_failed", "no_data", "timeout", "interrupted",
	"command_failed", "http_failed", "canceled", "budget",
}

func (k ErrorKind) String() string { return enumName(errorKindNames[:], k, "ErrorKind") }

// Catchable reports whether a recipe's attempt() may catch the error.
func (k ErrorKind) Catchable() bool { return k != KindCanceled && k != KindBudget }

// An Error is a failure worded for the person who asked. Message is lower
// case without a full stop and says what and where; Hint, when set, says the
// way out. Err, when set, is the cause for errors.Is and errors.As and is not
// part of the text.
type Error struct {
	Kind    ErrorKind
	Message string
	Hint    string
	Detail  []string // lines shown below the message, such as the end of a log
	Rollout int      // the rollout the error is about, 0 if none
	Err     error
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error] of kind; a %w verb sets its cause.
func Errorf(kind ErrorKind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint returns e with its hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// KindOf returns the kind of the first [Error] in err's chain, KindFailed if
// there is none.
func KindOf(err error) ErrorKind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindFailed
}

// enumName names the values of our small integer types.
func enumName[T ~uint8](names []string, v T, typ string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}
