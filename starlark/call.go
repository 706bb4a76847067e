package starlark

import (
	"context"

	"go.starlark.net/starlark"
)

// CallOptions say how [Call] calls. The zero value inherits everything.
type CallOptions struct {
	// Name of the thread, such as "gate carts"; by default the function's.
	Name string

	// Limits of this call alone. Without a limit of steps it uses up the
	// budget of its run. Memory is not looked at.
	Limits Limits

	// Pure refuses every builtin that is not pure, through [CheckEffect],
	// as gate functions need it.
	Pure bool
}

// Gate are the options for calling a gate function.
func Gate(name string) CallOptions {
	return CallOptions{Name: "gate " + name, Limits: Limits{Steps: GateSteps}, Pure: true}
}

// Call calls fn from Go on a fresh thread and returns its value, which is
// frozen. It may be called by any goroutine, also concurrently. ctx bounds
// the call; it is [ContextOf] the calling thread or derived from it, which
// passes on the restrictions and the budget of that thread. From elsewhere,
// such as the engine, any context will do: a function knows the run it was
// defined in. An error is an [*Error] with the position and stack of this
// thread alone.
//
// fn and args are frozen first. That is enough while the thread that made
// them waits, as in parallel. A builtin that returns before its callback's
// last call has to call [Freeze] before it returns, and to refuse a function
// that is [Rebound].
func Call(ctx context.Context, fn starlark.Callable, args starlark.Tuple, o CallOptions) (starlark.Value, error) {
	parent := scopeFrom(ctx)
	if parent == nil {
		r := runOf(fn)
		if r == nil {
			panic("BUG: Call of " + fn.Name() + " without a run: pass ContextOf(thread) or a context derived from it")
		}
		parent = &scope{run: r}
	}
	if err := checkArity(fn, len(args)); err != nil {
		return nil, err
	}
	Freeze(fn)
	Freeze(args...)
	if o.Limits.Wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Limits.Wall, wallBudget(o.Limits.Wall))
		defer cancel()
	}
	t := threadOptions{name: o.Name, place: parent.place, depth: parent.depth + 1, meter: parent.meter}
	if t.name == "" {
		t.name = fn.Name()
	}
	if o.Pure && t.place == anywhere {
		t.place = inGate
	}
	if o.Limits.Steps > 0 {
		t.meter = newMeter(o.Limits.Steps, nil)
	}
	v, err := parent.run.onThread(ctx, t, func(thread *starlark.Thread) (starlark.Value, error) {
		return starlark.Call(thread, fn, args, nil)
	})
	if err != nil {
		return nil, err
	}
	Freeze(v)
	return v, nil
}

// checkArity refuses a call from Go whose arguments fn cannot take: the
// interpreter would report it inside fn.
func checkArity(fn starlark.Callable, given int) error {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return nil
	}
	positional, required, keywords := 0, 0, 0
	for _, p := range functionParams(f) {
		switch {
		case p.Variadic || p.Keywords:
		case p.KeywordOnly && p.Required:
			keywords++
		case p.KeywordOnly:
		default:
			positional++
			if p.Required {
				required++
			}
		}
	}
	if given < required || given > positional && !f.HasVarargs() || keywords > 0 {
		return usageAt(f.Position(), "", "%s cannot be called with %d arguments", f.Name(), given)
	}
	return nil
}
