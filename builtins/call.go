package builtins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
	script "muru/starlark"
)

// A Call is one call of a builtin, with its arguments bound. It is used by
// the goroutine of its thread alone.
type Call struct {
	set      *Set // nil for methods of values
	spec     *Spec
	thread   *starlark.Thread
	ctx      context.Context
	receiver starlark.Value   // of a method
	given    []starlark.Value // what was written, by the index of the spec's parameters; nil: nothing
	args     []any            // given or default, converted; nil: not set
}

// invoke is the one way into every builtin and every method: context, effect,
// arguments, run, error.
func invoke(c *Call, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
	defer script.Recover(c.thread, c.spec.Name, &err)
	if err := context.Cause(c.ctx); err != nil {
		return nil, err
	}
	if c.spec.Effect != Pure {
		if err := script.CheckEffect(c.thread, c.spec.Name); err != nil {
			return nil, err
		}
		if err := c.checkPoll(); err != nil {
			return nil, err
		}
		defer script.Waiting(c.thread)()
		defer c.begin(args, kwargs)()
	}
	if err := c.unpack(args, kwargs); err != nil {
		return nil, c.named(err)
	}
	v, err = c.spec.Fn(c)
	if err != nil {
		return nil, c.named(err)
	}
	if v == nil {
		v = starlark.None
	}
	if c.set != nil && c.set.env.Recorder != nil {
		c.set.env.Recorder.record(c, args, kwargs, v)
	}
	return v, nil
}

// begin says that a call has begun and returns how to say that it has ended.
func (c *Call) begin(args starlark.Tuple, kwargs []starlark.Tuple) (done func()) {
	if c.set == nil || c.set.env.OnCall == nil {
		return func() {}
	}
	return c.set.env.OnCall(c.spec.Name, c.about(args, kwargs))
}

// about shortens the arguments to the noun that the call is about.
func (c *Call) about(args starlark.Tuple, kwargs []starlark.Tuple) string {
	if len(c.spec.Params) == 0 {
		return ""
	}
	var noun starlark.Value
	if len(args) > 0 {
		noun = args[0]
	}
	for _, kw := range kwargs {
		if noun == nil && string(kw[0].(starlark.String)) == c.spec.Params[0].Name {
			noun = kw[1]
		}
	}
	switch v := noun.(type) {
	case nil:
		return ""
	case starlark.String:
		return starlark.String(start(string(v), 60)).String()
	case *Record:
		if v.kind.byName {
			return starlark.String(v.text).String()
		}
		return start(v.String(), 60)
	case starlark.Callable:
		return v.Name()
	case starlark.NoneType, starlark.Bool, starlark.Int, starlark.Float, Duration, Time, Secret:
		return start(v.String(), 60)
	case *starlark.List:
		if words, err := listType[string](textType).Convert(c, v); err == nil {
			return starlark.String(shortCommand(words.([]string))).String()
		}
	}
	return "..."
}

// bind makes a method of a value callable.
func (s *Spec) bind(receiver starlark.Value) *starlark.Builtin {
	return starlark.NewBuiltin(s.Name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return invoke(newCall(nil, s, thread, receiver), args, kwargs)
	}).BindReceiver(receiver)
}

// builtin makes a builtin of the set callable.
func (s *Spec) builtin(set *Set) *starlark.Builtin {
	return starlark.NewBuiltin(s.Name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return invoke(newCall(set, s, thread, nil), args, kwargs)
	})
}

func newCall(set *Set, spec *Spec, thread *starlark.Thread, receiver starlark.Value) *Call {
	return &Call{
		set: set, spec: spec, thread: thread, ctx: script.ContextOf(thread), receiver: receiver,
		given: make([]starlark.Value, len(spec.Params)), args: make([]any, len(spec.Params)),
	}
}

// asIs marks an error whose text does not get the builtin's name.
type asIs struct{ err error }

func (e asIs) Error() string { return e.err.Error() }
func (e asIs) Unwrap() error { return e.err }

// named puts the builtin's name before the message of its own failures. What
// a function of the recipe failed with has its place and text already.
func (c *Call) named(err error) error {
	if e, ok := errors.AsType[asIs](err); ok {
		return e.err
	}
	if _, ok := errors.AsType[*script.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*starlark.EvalError](err); ok {
		return err
	}
	m := asMuru(err)
	m.Message = c.spec.Name + ": " + m.Message
	return m
}

// arg returns an argument converted by its type, the zero value if it is not
// set. T is what the parameter's Type returns.
func arg[T any](c *Call, name string) T {
	i := c.spec.index(name)
	if i < 0 {
		panic("BUG: " + c.spec.Name + " has no parameter " + name)
	}
	t, ok := c.args[i].(T)
	if !ok && c.args[i] != nil {
		panic(fmt.Sprintf("BUG: %s: %s is a %T", c.spec.Name, name, c.args[i]))
	}
	return t
}

// isSet reports whether an argument has a value: given and not None, or by
// default.
func (c *Call) isSet(name string) bool {
	i := c.spec.index(name)
	return i >= 0 && c.args[i] != nil
}

// isGiven reports whether an argument was written, None included.
func (c *Call) isGiven(name string) bool {
	i := c.spec.index(name)
	return i >= 0 && c.given[i] != nil
}

// engine, clock and caller are what most builtins begin with.
func (c *Call) engine() Engine       { return c.set.env.Engine }
func (c *Call) clock() rollout.Clock { return c.set.env.Engine.Clock() }
func (c *Call) now() time.Time       { return c.clock().Now() }

func (c *Call) caller() rollout.Caller {
	return rollout.Caller{Run: c.set.env.Run, By: c.set.env.By}
}

// say reports what a change did. It is called on failure, too: some failures
// have more to show than their error says.
func (c *Call) say(r rollout.Report) {
	if r != "" {
		c.set.env.Terminal.Say(string(r))
	}
}

// within runs do under a context that ends after d on the engine's clock with
// the error late, or with the call. d 0 is no limit.
func (c *Call) within(d time.Duration, late *muru.Error, do func(ctx context.Context) error) error {
	if d <= 0 {
		return do(c.ctx)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	elapsed, stop := c.clock().After(d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-elapsed:
			cancel(late)
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	timedOut := context.Cause(ctx) == error(late)
	cancel(nil)
	stop()
	<-ended
	if err != nil && timedOut {
		return late
	}
	return err
}

// pollKey marks the context of a function that wait() polls.
type pollKey struct{}

// checkPoll refuses what a polled function may not do: it may look, and GET.
// The method is checked by http itself.
func (c *Call) checkPoll() error {
	if c.ctx.Value(pollKey{}) == nil || c.spec.Effect == Observe || c.spec.Name == "http" {
		return nil
	}
	return muru.Errorf(muru.KindRefused, "%s: a function that wait() polls may only look", c.spec.Name).
		WithHint("status, probe, events and http GET are allowed")
}
