package main

import (
	"errors"
	"fmt"
	"io"

	"muru"
	"muru/control"
	"muru/edge"
	"muru/store"
)

// The exit statuses of every verb.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // nothing was started
	exitRefused     = 3
	exitUnavailable = 4 // no daemon, port taken, state locked
	exitTimeout     = 124
	exitInterrupted = 130
)

// errStateLocked is returned when another process uses the state directory.
var errStateLocked = errors.New("the state directory is in use")

// A recipeError is a recipe's own failure: whatever its kind, the recipe was
// started and ended badly.
type recipeError struct{ err error }

func (e *recipeError) Error() string { return e.err.Error() }
func (e *recipeError) Unwrap() error { return e.err }

// An exitError ends the process with a status, whatever kind err is of.
type exitError struct {
	status int
	told   bool // the person has been told: nothing more is printed
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// report prints err for the person who asked and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); !ok || !e.told {
		fmt.Fprintln(stderr, "muru: "+errorText(err))
	}
	return exitStatus(err)
}

func exitStatus(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.status
	}
	if _, ok := errors.AsType[interruptedError](err); ok {
		return exitInterrupted
	}
	if _, ok := errors.AsType[*recipeError](err); ok {
		return exitFailed
	}
	for _, unavailable := range []error{
		edge.ErrPortTaken, errStateLocked, control.ErrSocketTaken, store.ErrLocked,
		control.ErrNoDaemon, control.ErrDaemonGone, control.ErrOtherVersion, control.ErrStopping,
	} {
		if errors.Is(err, unavailable) {
			return exitUnavailable
		}
	}
	switch control.KindOf(err) {
	case muru.KindUsage:
		return exitUsage
	case muru.KindNotFound, muru.KindRefused, muru.KindDenied:
		return exitRefused
	case muru.KindCanceled:
		return exitInterrupted
	}
	return exitFailed
}

// errorText renders err as people see it: position, stack, details and the
// way out.
func errorText(err error) string { return control.ErrorText(err) }
