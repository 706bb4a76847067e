package starlark

import (
	"context"
	"errors"
	"sync/atomic"

	"go.starlark.net/starlark"

	"muru"
)

// place says what a thread executes, and so which builtins it may call.
type place uint8

const (
	anywhere  place = iota // the recipe itself: everything
	moduleTop              // the top level of a loaded module: pure builtins only
	inGate                 // a function that may only compute: the same
)

// scope is what a thread of ours carries: under scopeLocal on the thread and
// under scopeKey in its context, so that a thread made under that context
// inherits from it.
type scope struct {
	run   *run
	ctx   context.Context
	place place
	depth int // of threads made by threads
	meter *meter
	taken uint64 // steps the meter granted; the thread's goroutine only

	// stopped is set once, when the thread is told to stop, to what it then
	// fails with.
	stopped atomic.Pointer[muru.Error]
}

const scopeLocal = "muru.scope"

type scopeKey struct{}

// maxDepth bounds threads that make threads. The interpreter refuses
// recursion on one thread only.
const maxDepth = 50

func scopeOf(thread *starlark.Thread) *scope {
	s, _ := thread.Local(scopeLocal).(*scope)
	return s
}

func scopeFrom(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

type threadOptions struct {
	name  string
	place place
	depth int
	meter *meter
}

// onThread runs do on a new thread under ctx and returns when it ended. An
// error is an *Error; a panic is one, too.
func (r *run) onThread(ctx context.Context, o threadOptions, do func(*starlark.Thread) (starlark.Value, error)) (starlark.Value, error) {
	if o.depth > maxDepth {
		return nil, newError(nil, muru.Errorf(muru.KindRefused, "calls through parallel, wait or load are nested more than %d deep", maxDepth))
	}
	s := &scope{run: r, place: o.place, depth: o.depth, meter: o.meter}
	s.ctx = context.WithValue(ctx, scopeKey{}, s)
	thread := r.newThread(s, o.name)
	release := context.AfterFunc(s.ctx, func() { s.stop(thread, stopFor(s.ctx)) })
	defer release()
	r.compute.enter()
	defer r.compute.leave()
	defer s.settle(thread)
	v, err := r.guard(thread, do)
	if err != nil {
		return nil, newError(s, err)
	}
	return v, nil
}

// newThread is the one place that makes threads: name, scope, print, load,
// steps, then the caller's setup.
func (r *run) newThread(s *scope, name string) *starlark.Thread {
	options := &r.file.rt.options
	thread := &starlark.Thread{
		Name: name,
		Print: func(_ *starlark.Thread, text string) {
			if options.Print != nil {
				options.Print(text)
			}
		},
		Load: r.load,
	}
	thread.SetLocal(scopeLocal, s)
	s.attachMeter(thread)
	if s.ctx.Err() != nil {
		s.stop(thread, stopFor(s.ctx))
	}
	if options.Setup != nil {
		options.Setup(s.ctx, thread)
	}
	return thread
}

// stop makes the thread fail with cause before its next step. The order
// matters: a range that sees stopped ends its loop early, and the code after
// the loop must not get a step.
func (s *scope) stop(thread *starlark.Thread, cause *muru.Error) {
	thread.Cancel(cause.Message)
	s.stopped.CompareAndSwap(nil, cause)
}

// stopCause returns what the thread was told to fail with, nil if nothing. A
// builtin that saw the end of its context may get here before the thread
// was told.
func (s *scope) stopCause() *muru.Error {
	if s.stopped.Load() == nil && s.ctx.Err() != nil {
		s.stopped.CompareAndSwap(nil, stopFor(s.ctx))
	}
	return s.stopped.Load()
}

// stopFor words the end of ctx: a budget as it is, everything else as
// canceled, for the reason given as the context's cause.
func stopFor(ctx context.Context) *muru.Error {
	cause := context.Cause(ctx)
	m, ok := errors.AsType[*muru.Error](cause)
	if ok && m.Kind == muru.KindBudget {
		return m
	}
	stop := &muru.Error{Kind: muru.KindCanceled, Message: "canceled", Err: errors.Join(ctx.Err(), cause)}
	switch {
	case ok && m.Kind == muru.KindCanceled:
		stop.Message, stop.Hint, stop.Detail = m.Message, m.Hint, m.Detail
	case errors.Is(cause, context.DeadlineExceeded):
		stop.Message = "canceled: out of time"
	case !errors.Is(cause, context.Canceled):
		stop.Message = "canceled: " + cause.Error()
	}
	return stop
}

// ContextOf returns the context of a thread of ours: it ends with the run or
// call the thread belongs to, with the reason as its cause. Every builtin
// that waits waits under it, and passes it, or one derived from it, to
// [Call]. For a thread that was not made here it is context.Background.
func ContextOf(thread *starlark.Thread) context.Context {
	if s := scopeOf(thread); s != nil {
		return s.ctx
	}
	return context.Background()
}

// AtModuleTop reports whether the thread executes the top level of a loaded
// module, directly or through functions it calls.
func AtModuleTop(thread *starlark.Thread) bool {
	s := scopeOf(thread)
	return s != nil && s.place == moduleTop
}

// CheckEffect returns the error to give when the builtin called name, which
// is not pure, must not be called where the thread is: at the top level of a
// loaded module or in a gate function. Otherwise nil.
func CheckEffect(thread *starlark.Thread, name string) error {
	s := scopeOf(thread)
	if s == nil {
		return nil
	}
	switch s.place {
	case moduleTop:
		return muru.Errorf(muru.KindRefused, "%s: a loaded module may not act at its top level", name).
			WithHint("call it in a function of the module")
	case inGate:
		return muru.Errorf(muru.KindRefused, "%s: a gate function may only compute", name).
			WithHint("let it judge the window it is given")
	}
	return nil
}

// Waiting says that the thread is about to wait in Go rather than compute,
// until the returned func is called. A run of which all threads wait is not
// held responsible for memory that the process needs meanwhile. The wrapper
// of every builtin that is not pure calls it.
func Waiting(thread *starlark.Thread) (done func()) {
	s := scopeOf(thread)
	if s == nil {
		return func() {}
	}
	s.run.compute.leave()
	return s.run.compute.enter
}

// Where returns the position "file:line:col" of the Starlark code that
// called the builtin the thread is in, "" if there is none.
func Where(thread *starlark.Thread) string {
	frame := callerFrame(thread)
	if frame.Pos.Line == 0 {
		return ""
	}
	return scopeOf(thread).frame(frame).where()
}

// Stack returns the active calls of the thread, innermost first.
func Stack(thread *starlark.Thread) []Frame {
	return stackOf(scopeOf(thread), thread.CallStack())
}

// FileOf returns the absolute path of the file that the code calling the
// builtin stands in, not of the recipe. It is false if that is no file: a
// module of the stdlib, an input of a session, or a call from Go.
func FileOf(thread *starlark.Thread) (path string, ok bool) {
	s := scopeOf(thread)
	if s == nil {
		return "", false
	}
	src := s.run.file.sources[callerFrame(thread).Pos.Filename()]
	if src == nil || src.path == "" || src.input {
		return "", false
	}
	return src.path, true
}

// DirOf returns the absolute directory that relative paths in builtins start
// from: the caller's working directory.
func DirOf(thread *starlark.Thread) string {
	if s := scopeOf(thread); s != nil {
		return s.run.file.rt.options.Dir
	}
	return ""
}

// callerFrame returns the innermost frame of Starlark code, the zero value
// if there is none.
func callerFrame(thread *starlark.Thread) starlark.CallFrame {
	for depth := range thread.CallStackDepth() {
		if f := thread.CallFrame(depth); f.Pos.Line > 0 {
			return f
		}
	}
	return starlark.CallFrame{}
}
