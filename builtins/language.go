package builtins

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"

	"muru"
	"muru/rollout"
	script "muru/starlark"
)

var nowSpec = (&Spec{
	Name:    "now",
	Group:   GroupLanguage,
	Summary: "is the time",
	Doc:     "In the time zone of the machine muru runs on.",
	Returns: "Time",
	Example: `print(now() - duration("1h"))`,
	Effect:  Observe,
	Fn:      func(c *Call) (starlark.Value, error) { return Time(c.now().Local()), nil },
}).check()

var durationSpec = (&Spec{
	Name:    "duration",
	Group:   GroupLanguage,
	Summary: "makes a Duration of a text",
	Doc:     "Units: ns us ms s m h d. A Duration adds, is multiplied and compares.",
	Params:  []Param{{Name: "text", Type: durationType, Pass: Positional, Doc: `such as "1m30s"`}},
	Returns: "Duration",
	Example: `print(1.5 * duration("1m"))`,
	Fn:      func(c *Call) (starlark.Value, error) { return Duration(arg[time.Duration](c, "text")), nil },
}).check()

var sleepSpec = (&Spec{
	Name:    "sleep",
	Group:   GroupLanguage,
	Summary: "waits",
	Doc:     "It ends early, with the run, when the run is cancelled.",
	Params:  []Param{{Name: "duration", Type: durationType, Pass: Positional, Doc: "how long"}},
	Returns: "None",
	Example: `sleep("2s")`,
	Effect:  Wait,
	Fn: func(c *Call) (starlark.Value, error) {
		return nil, rollout.Sleep(c.ctx, c.clock(), arg[time.Duration](c, "duration"))
	},
}).check()

var hereSpec = (&Spec{
	Name:    "here",
	Group:   GroupLanguage,
	Summary: "is a path beside the file it is called in",
	Doc:     "The file is the one the call stands in, also when that is a module which another file loaded, so a recipe finds what it brings along wherever it is started.",
	Params:  []Param{{Name: "path", Type: textType, Pass: Positional, Default: starlark.String(""), Doc: "path from there; empty: the directory itself"}},
	Returns: "text",
	Errors:  []string{"refused: the code is in no file"},
	Example: `print(here("shop/v5"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		file, ok := script.FileOf(c.thread)
		if !ok {
			return nil, muru.Errorf(muru.KindRefused, "this code is in no file of yours, so nothing is beside it").
				WithHint("relative paths start at the caller's directory")
		}
		path := arg[string](c, "path")
		if filepath.IsAbs(path) {
			return nil, usagef("%q is absolute already", path)
		}
		return starlark.String(filepath.Join(filepath.Dir(file), path)), nil
	},
}).check()

var parallelSpec = (&Spec{
	Name:    "parallel",
	Group:   GroupLanguage,
	Summary: "calls functions side by side and returns their results in order",
	Doc: `The first failure cancels the others and is the failure of the call. Values that the functions see
are frozen, the globals of their file included.`,
	Params: []Param{
		{Name: "functions", Type: listType[starlark.Callable](functionType), Pass: Positional, Doc: "functions without parameters"},
		{Name: "limit", Type: intType(1), Default: starlark.None, Doc: "how many run at once; None: all"},
	},
	Returns: "list",
	Errors:  []string{"that of the first function that failed"},
	Example: `parallel([lambda: sleep("1s"), lambda: sleep("1s")])`,
	Fn:      parallel,
}).check()

func parallel(c *Call) (starlark.Value, error) {
	functions := arg[[]starlark.Callable](c, "functions")
	for _, fn := range functions {
		script.Freeze(fn)
	}
	defer script.Waiting(c.thread)()
	results := make([]starlark.Value, len(functions))
	group, ctx := errgroup.WithContext(c.ctx)
	if limit := arg[int](c, "limit"); limit > 0 {
		group.SetLimit(limit)
	}
	for i, fn := range functions {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err // another one failed before this one began
			}
			v, err := script.Call(ctx, fn, nil, script.CallOptions{})
			results[i] = v
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return starlark.NewList(results), nil
}

var attemptSpec = (&Spec{
	Name:    "attempt",
	Group:   GroupLanguage,
	Summary: "calls a function and returns (result, error), one of which is None",
	Doc:     "The end of the run and of its budget cannot be caught.",
	Params:  []Param{{Name: "function", Type: functionType, Pass: Positional, Doc: "a function without parameters"}},
	Returns: "(any, Error)",
	Example: `_, err = attempt(lambda: fail("no"))
print(err.kind)`,
	Fn: func(c *Call) (starlark.Value, error) {
		v, err := starlark.Call(c.thread, arg[starlark.Callable](c, "function"), nil, nil)
		if err == nil {
			return starlark.Tuple{v, starlark.None}, nil
		}
		caught, ok := script.Catch(c.thread, err)
		if !ok {
			return nil, asIs{err}
		}
		return starlark.Tuple{starlark.None, c.set.failure(caught)}, nil
	},
}).check()

var failSpec = (&Spec{
	Name:    "fail",
	Group:   GroupLanguage,
	Summary: "fails with a message, or with an Error that was caught",
	Doc:     "An Error keeps its kind, hint and rollout.",
	Params:  []Param{{Name: "message", Type: anyType, Pass: Positional, Doc: "a text or an Error"}},
	Returns: "None",
	Errors:  []string{"failed, or the kind of the Error"},
	Example: `_, err = attempt(lambda: fail("the smoke test found nothing"))`,
	Fn: func(c *Call) (starlark.Value, error) {
		v := arg[starlark.Value](c, "message")
		if e, ok := native[*script.Error](v); ok {
			return nil, asIs{&muru.Error{Kind: e.Kind, Message: e.Message, Hint: e.Hint, Detail: e.Detail, Rollout: e.Rollout, Err: e}}
		}
		return nil, asIs{&muru.Error{Kind: muru.KindFailed, Message: Text(v)}}
	},
}).check()

var printSpec = (&Spec{
	Name:    "print",
	Group:   GroupLanguage,
	Summary: "prints values",
	Doc: `One value prints in full: a value with columns as its table, a list of such values as one table, a
list of texts or events one a line. Several values print in their short forms on one line.`,
	Params: []Param{
		{Name: "values", Type: anyType, Pass: Variadic, Doc: "what to print"},
		{Name: "sep", Type: textType, Default: starlark.String(" "), Doc: "between several values"},
	},
	Returns: "None",
	Example: `print("apps:", len(status()))`,
	Fn: func(c *Call) (starlark.Value, error) {
		values := arg[starlark.Tuple](c, "values")
		for _, v := range values {
			if err := script.CheckExtent("print", v); err != nil {
				return nil, asIs{err}
			}
		}
		text := ""
		if len(values) == 1 {
			text = Format(values[0])
		} else {
			texts := make([]string, len(values))
			for i, v := range values {
				texts[i] = Text(v)
			}
			text = strings.Join(texts, arg[string](c, "sep"))
		}
		c.print(text)
		return nil, nil
	},
}).check()

// print shows text through the thread, which may be told to keep it back.
func (c *Call) print(text string) {
	if c.thread.Print != nil {
		c.thread.Print(c.thread, text)
		return
	}
	c.set.env.Terminal.Print(text)
}
