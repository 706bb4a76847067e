package starlark

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime/debug"

	"go.starlark.net/starlark"

	"muru"
)

// A Bug is a panic that was turned into the failure of its run. People see
// the ID; the rest is for a log.
type Bug struct {
	ID    string // such as "3f9a2c1d", also in the error's text
	In    string // the builtin, or the thread
	Where string // position in the recipe, "" if it was lost
	Value any    // what was panicked with
	Stack []byte // of the goroutine
}

// bugError marks an error as a panic, which attempt() must not catch.
type bugError struct{ bug Bug }

func (e *bugError) Error() string { return fmt.Sprintf("bug %s: panic: %v", e.bug.ID, e.bug.Value) }

// Recover turns a panic into an error: it is deferred by the one wrapper of
// all builtins, with the address of its error result, and knows where in the
// recipe the builtin was called. Panics outside of builtins, such as in the
// method of a value, are recovered by the run, but their position is lost.
func Recover(thread *starlark.Thread, builtin string, err *error) {
	if p := recover(); p != nil {
		*err = newBug(scopeOf(thread), builtin, Where(thread), p)
	}
}

// guard calls do and turns a panic into an error.
func (r *run) guard(thread *starlark.Thread, do func(*starlark.Thread) (starlark.Value, error)) (v starlark.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, newBug(scopeOf(thread), thread.Name, "", p)
		}
	}()
	return do(thread)
}

func newBug(s *scope, in, where string, value any) error {
	bug := Bug{ID: bugID(), In: in, Where: where, Value: value, Stack: debug.Stack()}
	if s != nil && s.run.file.rt.options.Bug != nil {
		s.run.file.rt.options.Bug(bug)
	}
	e := muru.Errorf(muru.KindFailed, "%s: a bug in muru ended this run (bug %s)", in, bug.ID).
		WithHint("report it with the lines of muru's log that name %s", bug.ID)
	e.Err = &bugError{bug}
	return e
}

func bugID() string {
	var id [4]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
