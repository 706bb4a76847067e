package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"muru"
	"muru/edge"
	script "muru/starlark"
)

// The exit statuses of every verb.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // nothing was started
	exitRefused     = 3
	exitUnavailable = 4 // no daemon, port taken, state locked
	exitInterrupted = 130
)

// errStateLocked is returned when another process uses the state directory.
var errStateLocked = errors.New("the state directory is in use")

// A recipeError is a recipe's own failure: whatever its kind, the recipe was
// started and ended badly.
type recipeError struct{ err error }

func (e *recipeError) Error() string { return e.err.Error() }
func (e *recipeError) Unwrap() error { return e.err }

// report prints err for the person who asked and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "muru: "+errorText(err))
	return exitStatus(err)
}

func exitStatus(err error) int {
	if _, ok := errors.AsType[interruptedError](err); ok {
		return exitInterrupted
	}
	if _, ok := errors.AsType[*recipeError](err); ok {
		return exitFailed
	}
	if errors.Is(err, edge.ErrPortTaken) || errors.Is(err, errStateLocked) {
		return exitUnavailable
	}
	switch muru.KindOf(err) {
	case muru.KindUsage:
		return exitUsage
	case muru.KindNotFound, muru.KindRefused, muru.KindDenied:
		return exitRefused
	}
	return exitFailed
}

// errorText renders err as people see it: position, stack, details and the
// way out.
func errorText(err error) string {
	if e, ok := errors.AsType[*script.Error](err); ok {
		return e.Text()
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
