package control

import (
	"context"
	"errors"
	"strings"

	"muru"
)

// The reasons a call ends that are the way's and not the call's. Those a
// client returns have a [muru.Error] with words and a hint in their chain
// too.
var (
	// ErrNoDaemon is in the chain of what a client returns when nobody
	// answers at the socket.
	ErrNoDaemon = errors.New("no muru serves")

	// ErrDaemonGone is in the chain of what a client returns when the
	// connection ended, or fell silent, before the answer did. What was
	// asked for may have been done.
	ErrDaemonGone = errors.New("muru ended before it answered")

	// ErrSessionGone is returned by the methods of a session that the server
	// does not have (any more): it was started again, or closed it.
	ErrSessionGone = errors.New("the session is gone")

	// ErrStopping is returned for changes that a server refuses because it
	// stops, and is the cause that calls are cancelled with when it closes.
	ErrStopping = errors.New("muru is stopping")

	// ErrOtherVersion is returned when client and server do not speak the
	// same version of the API.
	ErrOtherVersion = errors.New("another version of muru serves")

	// ErrWatcherGone is the cause a server cancels the context of a call, an
	// input or a stream with when the client that asked is gone, or has read
	// nothing for long. A call that waits for a rollout ends; any other is
	// cancelled.
	ErrWatcherGone = errors.New("the client went away")
)

// codes are the names under which sentinels cross the socket.
var codes = map[string]error{
	"session_gone":  ErrSessionGone,
	"stopping":      ErrStopping,
	"other_version": ErrOtherVersion,
}

// An Error is a failure as it crosses the socket. Its chain holds a
// [muru.Error] of the same kind, message, hint, detail and rollout, and the
// sentinel of this package it was made from, so muru.KindOf, errors.As and
// errors.Is work on the client's side as on the server's. Causes below that
// do not cross. It is immutable and safe for concurrent use.
type Error struct {
	Kind    muru.ErrorKind
	Message string   // one line, with the position in the recipe if there is one
	Full    string   // as people see it: position, stack, details and hint
	Hint    string   // empty: no way out is known
	Detail  []string // lines shown below the message
	Rollout int      // the rollout the error is about, 0 if none

	cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Text returns the error as people see it, several lines without a final line
// end and without "muru: ".
func (e *Error) Text() string { return e.Full }

// Unwrap returns the [muru.Error] of the same words.
func (e *Error) Unwrap() error {
	return &muru.Error{
		Kind: e.Kind, Message: e.Message, Hint: e.Hint, Detail: e.Detail, Rollout: e.Rollout, Err: e.cause,
	}
}

// wireError is an [Error] as JSON.
type wireError struct {
	Kind    string   `json:"kind"`
	Message string   `json:"message"`
	Text    string   `json:"text"`
	Hint    string   `json:"hint,omitempty"`
	Detail  []string `json:"detail,omitempty"`
	Rollout int      `json:"rollout,omitempty"`
	Code    string   `json:"code,omitempty"`
}

// toWire returns what is sent of err.
func toWire(err error) *wireError {
	w := &wireError{Kind: KindOf(err).String(), Message: err.Error(), Text: ErrorText(err)}
	if e, ok := errors.AsType[*muru.Error](err); ok {
		w.Hint, w.Detail, w.Rollout = e.Hint, e.Detail, e.Rollout
	}
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			w.Code = code
		}
	}
	return w
}

// error returns the error that was sent. What a server of another version may
// send that is not known here is taken as a plain failure.
func (w *wireError) error() *Error {
	e := &Error{
		Message: w.Message, Full: w.Text, Hint: w.Hint, Detail: w.Detail, Rollout: w.Rollout,
		Kind: parseKind(w.Kind), cause: codes[w.Code],
	}
	if e.Message == "" {
		e.Message = "muru failed without saying why"
	}
	if e.Full == "" {
		e.Full = e.Message
	}
	return e
}

// KindOf is [muru.KindOf], but a bare context error is canceled or timeout.
func KindOf(err error) muru.ErrorKind {
	if _, ok := errors.AsType[*muru.Error](err); ok {
		return muru.KindOf(err)
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, ErrWatcherGone), errors.Is(err, ErrStopping):
		return muru.KindCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return muru.KindTimeout
	}
	return muru.KindFailed
}

// parseKind returns the kind of a name, KindFailed for one that is unknown.
func parseKind(name string) muru.ErrorKind {
	for k := muru.KindFailed; k <= muru.KindBudget; k++ {
		if k.String() == name {
			return k
		}
	}
	return muru.KindFailed
}

// ErrorText renders err as people see it, without "muru: ": what the error
// itself has as its Text, else its message, the details and the way out.
func ErrorText(err error) string {
	if t, ok := errors.AsType[interface {
		error
		Text() string
	}](err); ok {
		return t.Text()
	}
	e, ok := errors.AsType[*muru.Error](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(err.Error())
	for _, line := range e.Detail {
		b.WriteString("\n  " + line)
	}
	if e.Hint != "" {
		b.WriteString("\nhint: " + e.Hint)
	}
	return b.String()
}
