package starlark

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

// An Error is a failure of a recipe: what went wrong, where in its source,
// and how execution got there. Its chain always holds a [muru.Error], so
// muru.KindOf and errors.As work on it, and whatever the builtin returned.
// It is immutable and safe for concurrent use.
type Error struct {
	Kind    muru.ErrorKind
	Message string
	Where   string  // "file:line:col", empty if no source is involved
	Stack   []Frame // innermost first, builtins left out
	Detail  []string
	Hint    string
	Rollout int // the rollout the error is about, 0 if none

	err error
}

// A Frame is one call that was active: the function, and where in it.
type Frame struct {
	File      string
	Line, Col int
	Func      string
}

// String returns "FILE:LINE:COL in FUNC".
func (f Frame) String() string { return f.where() + " in " + f.Func }

func (f Frame) where() string { return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Col) }

// Error returns position and message on one line.
func (e *Error) Error() string {
	if e.Where == "" {
		return e.Message
	}
	return e.Where + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.err }

// Text returns the error as people see it, several lines without a final
// line end: position and message, a line for each frame, the details, and
// the way out if there is one.
func (e *Error) Text() string {
	var b strings.Builder
	b.WriteString(e.Error())
	for _, frame := range e.Stack {
		b.WriteString("\n  at " + frame.String())
	}
	for _, line := range e.Detail {
		b.WriteString("\n  " + line)
	}
	if e.Hint != "" {
		b.WriteString("\nhint: " + e.Hint)
	}
	return b.String()
}

// Catch says what attempt() hands to the recipe for err, which a call on
// thread returned. It is false for a failure that must not be caught: the
// thread was stopped, a budget is used up, a builtin panicked. Then err
// itself is to be returned.
func Catch(thread *starlark.Thread, err error) (*Error, bool) {
	s := scopeOf(thread)
	e := newError(s, err)
	if s != nil && s.stopCause() != nil {
		return nil, false
	}
	if _, bug := errors.AsType[*bugError](err); bug || !e.Kind.Catchable() {
		return nil, false
	}
	return e, true
}

// newError turns whatever came out of go.starlark.net into an Error. s is
// the scope of the thread it happened on, nil if there was none.
func newError(s *scope, err error) *Error {
	var e *Error
	frames, raised := evalFrames(err)
	if inner, ok := errors.AsType[*Error](err); ok {
		// From another thread (a loaded module, a branch): its position and
		// frames come first, then how this thread got there.
		copied := *inner
		e = &copied
		e.err = err
		e.Stack = slices.Concat(inner.Stack, stackOf(s, frames))
		if e.Where == "" && len(e.Stack) > 0 {
			e.Where = e.Stack[0].where() // a builtin was called there by itself
		}
	} else {
		e = &Error{Message: raised.Error(), err: err}
		e.describe(err)
		e.locate(s, frames, raised)
	}
	if s != nil {
		if stop := s.stopCause(); stop != nil {
			e.stopBy(stop)
		}
	}
	return e
}

// describe takes over what a muru.Error in the chain says, and puts one
// there if there is none.
func (e *Error) describe(err error) {
	m, ok := errors.AsType[*muru.Error](err)
	if !ok {
		e.err = &muru.Error{Kind: muru.KindFailed, Message: e.Message, Err: err}
		return
	}
	e.Kind, e.Hint, e.Detail, e.Rollout = m.Kind, m.Hint, m.Detail, m.Rollout
}

// locate sets where and stack from the frames of the thread that failed.
func (e *Error) locate(s *scope, frames starlark.CallStack, raised error) {
	if len(frames) == 0 {
		return
	}
	if s != nil {
		var told bool
		if frames, told = s.run.dropCallee(frames); !told && !isOurs(raised) {
			e.explainCall(s, frames)
		}
	}
	e.Stack = stackOf(s, frames)
	if len(e.Stack) > 0 {
		e.Where = e.Stack[0].where()
	}
}

// stopBy words e as the stop of its thread, which wins over whatever the
// stopped code made of it. The former chain stays below.
func (e *Error) stopBy(stop *muru.Error) {
	e.Kind, e.Message, e.Hint, e.Detail, e.Rollout = stop.Kind, stop.Message, stop.Hint, stop.Detail, 0
	e.err = errors.Join(stop, e.err)
}

// isOurs reports whether err was raised by code of ours, not by the
// interpreter.
func isOurs(err error) bool {
	_, ok := errors.AsType[*muru.Error](err)
	return ok
}

// evalFrames returns the frames of the innermost EvalError in err, which has
// the longest stack of its thread, and the error raised there. An *Error
// ends the search: what is below it happened on another thread.
func evalFrames(err error) (frames starlark.CallStack, raised error) {
	raised = err
	for e := err; e != nil; e = errors.Unwrap(e) {
		if _, ok := e.(*Error); ok {
			break
		}
		if eval, ok := e.(*starlark.EvalError); ok {
			frames = eval.CallStack
			if raised = eval.Unwrap(); raised == nil {
				raised = eval
			}
		}
	}
	return frames, raised
}

// stackOf converts frames, outermost first, to our form, innermost first,
// without those of builtins, which have no position.
func stackOf(s *scope, frames starlark.CallStack) []Frame {
	var out []Frame
	for i := range frames {
		if f := frames.At(i); f.Pos.Line > 0 {
			out = append(out, s.frame(f))
		}
	}
	return out
}

// frame converts a frame. A call's position in go.starlark.net is its "(";
// people are shown where the call begins.
func (s *scope) frame(f starlark.CallFrame) Frame {
	pos := f.Pos
	if s != nil {
		if site := s.run.callSite(pos); site != nil {
			pos, _ = site.call.Span()
		}
	}
	return Frame{File: pos.Filename(), Line: int(pos.Line), Col: int(pos.Col), Func: f.Name}
}

// usageAt is an Error of kind usage about the source at pos.
func usageAt(pos syntax.Position, hint, format string, args ...any) *Error {
	m := muru.Errorf(muru.KindUsage, format, args...)
	m.Hint = hint
	return &Error{Kind: m.Kind, Message: m.Message, Hint: hint, Where: wherePos(pos), err: m}
}

func wherePos(pos syntax.Position) string {
	if !pos.IsValid() {
		return ""
	}
	return Frame{File: pos.Filename(), Line: int(pos.Line), Col: int(pos.Col)}.where()
}
