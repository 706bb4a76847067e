package main

import (
	"errors"
	"fmt"
	"io"

	"muru"
	"muru/cmd/muru/daemon"
	"muru/cmd/muru/person"
	"muru/control"
	"muru/edge"
	"muru/store"
)

// report prints err for the person who asked and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return person.StatusOK
	}
	if e, ok := errors.AsType[*person.ExitError](err); !ok || !e.Told {
		fmt.Fprintln(stderr, "muru: "+control.ErrorText(err))
	}
	return exitStatus(err)
}

func exitStatus(err error) int {
	if e, ok := errors.AsType[*person.ExitError](err); ok {
		return e.Status
	}
	if _, ok := errors.AsType[person.InterruptedError](err); ok {
		return person.StatusInterrupted
	}
	if _, ok := errors.AsType[*daemon.RecipeError](err); ok {
		return person.StatusFailed
	}
	for _, unavailable := range []error{
		edge.ErrPortTaken, daemon.ErrStateLocked, control.ErrSocketTaken, store.ErrLocked,
		control.ErrNoDaemon, control.ErrDaemonGone, control.ErrOtherVersion, control.ErrStopping,
	} {
		if errors.Is(err, unavailable) {
			return person.StatusUnavailable
		}
	}
	switch control.KindOf(err) {
	case muru.KindUsage:
		return person.StatusUsage
	case muru.KindNotFound, muru.KindRefused, muru.KindDenied:
		return person.StatusRefused
	case muru.KindCanceled:
		return person.StatusInterrupted
	}
	return person.StatusFailed
}
