package stdlib_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"muru"
	script "muru/starlark"
	"muru/stdlib"
)

// run runs source with fakes of the builtins the modules use, and the names
// a test asserts with: eq(got, want), fails(function, text).
func run(t *testing.T, source string) {
	t.Helper()
	rt := script.New(script.Options{Dir: t.TempDir(), Stdlib: stdlib.FS, Predeclared: starlark.StringDict{
		"eq":     starlark.NewBuiltin("eq", eq),
		"fails":  starlark.NewBuiltin("fails", fails),
		"fail":   starlark.NewBuiltin("fail", fail),
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
		"gate":   record("gate"),
		"http":   record("http"),
	}})
	file, err := rt.Parse("test.star", []byte(source))
	if err == nil {
		_, err = file.Run(t.Context(), nil)
	}
	if err != nil {
		if e, ok := err.(*script.Error); ok {
			t.Fatal(e.Text())
		}
		t.Fatal(err)
	}
}

func eq(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var got, want starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "got", &got, "want", &want); err != nil {
		return nil, err
	}
	same, err := starlark.Equal(got, want)
	if err == nil && !same {
		err = fmt.Errorf("got %v, want %v", got, want)
	}
	return starlark.None, err
}

func fails(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var text string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "function", &fn, "text", &text); err != nil {
		return nil, err
	}
	_, err := starlark.Call(thread, fn, nil, nil)
	if err == nil || !strings.Contains(err.Error(), text) {
		return nil, fmt.Errorf("got error %v, want %q", err, text)
	}
	return starlark.None, nil
}

func fail(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	text, _ := starlark.AsString(args[0])
	return nil, muru.Errorf(muru.KindFailed, "%s", text)
}

// record is a builtin that returns a struct of how it was called.
func record(name string) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		members := starlark.StringDict{"builtin": starlark.String(name), "args": args}
		for _, kv := range kwargs {
			members[string(kv[0].(starlark.String))] = kv[1]
		}
		return starlarkstruct.FromStringDict(starlarkstruct.Default, members), nil
	})
}

func TestNotifyPostsJSON(t *testing.T) {
	run(t, `
load("@std//notify.star", "slack", "webhook")
sent = slack("https://hooks.example/x", 12)
eq(sent.args, ("https://hooks.example/x",))
eq(sent.method, "POST")
eq(sent.body, {"text": "12"})
eq(webhook("https://hooks.example/y", ["a"]).body, ["a"])
fails(lambda: webhook("https://hooks.example/y", "a"), "webhook: value is a string: give a dict or a list")
`)
}

// window makes the window of a gate function with the given rates and times.
const window = `
def arm(rate, time, requests = 1000):
    return struct(rate = lambda what: {"5xx": rate, "2xx": 100 - rate}[what],
        count = lambda what: int(requests * rate / 100 + 0.5), quantile = lambda q, of = "duration": time)
def window(candidate, baseline):
    return struct(candidate = arm(*candidate), baseline = arm(*baseline) if baseline else None)
`

func TestGatesCompareWithTheBaseline(t *testing.T) {
	run(t, `
load("@std//gates.star", "at_least", "no_slower", "no_worse")
`+window+`
worse = no_worse("errors", ratio = 2)
eq(worse.args, ("errors",))
eq(worse.check(window((2.0, 1), (1.0, 1))), True)
eq(worse.check(window((2.004, 1), (1.0, 1))), "5xx rate 2.00% is over 2 times the baseline's 1.00%")
eq(worse.check(window((12.345, 1), (1.05, 1))), "5xx rate 12.35% is over 2 times the baseline's 1.05%")
eq(worse.check(window((9.0, 1), None)), True)

# A clean baseline, and what a healthy candidate may have all the same.
usual = no_worse("errors")
eq(usual.check(window((1.0, 1, 100), (0.0, 1))), True)
eq(usual.check(window((2.0, 1, 100), (0.0, 1))), True)
eq(usual.check(window((33.3, 1, 3), (0.0, 1))), True)
eq(usual.check(window((3.0, 1, 100), (0.0, 1))), "5xx rate 3.00% is over 1%, and the baseline's is 0.00%")
eq(usual.check(window((0.9, 1), (0.1, 1))), True)
eq(usual.check(window((3.0, 1), (2.0, 1))), True)
eq(usual.check(window((3.1, 1), (2.0, 1))), "5xx rate 3.10% is over 1.5 times the baseline's 2.00%")
strict = no_worse("errors", ratio = 1, floor = 0, least = 1)
eq(strict.check(window((0.1, 1), (0.0, 1))), "5xx rate 0.10% is over 1 times the baseline's 0.00%")

least = at_least("orders", ratio = 0.9)
eq(least.check(window((5.0, 1), (0.0, 1))), True)
eq(least.check(window((20.0, 1), (0.0, 1))), "2xx rate 80.00% is under 0.9 times the baseline's 100.00%")
eq(least.check(window((20.0, 1), None)), True)

slower = no_slower("times")
eq(slower.check(window((0, 30), (0, 20))), True)
eq(slower.check(window((0, 31), (0, 20))), "p95 of 31 is over 1.5 times the baseline's 20")
eq(slower.check(window((0, 31), None)), True)

fails(lambda: no_worse("x", ratio = 0), "no_worse: ratio is 0: give a number over 0")
fails(lambda: no_worse("x", floor = -1), "no_worse: floor is -1: give a number from 0 to 100")
fails(lambda: no_worse("x", least = 0), "no_worse: least is 0: give a number over 0")
fails(lambda: at_least("x", ratio = "1"), "at_least: ratio is \"1\": give a number over 0")
`)
}

func TestEveryModuleAndFunctionIsDocumented(t *testing.T) {
	names, err := fs.Glob(stdlib.FS, "*.star")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(stdlib.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), `"""`) {
			t.Errorf("%s has no docstring", name)
		}
		lines := strings.Split(string(data), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "def ") && !strings.HasPrefix(line, "def _") && !strings.HasPrefix(lines[i+1], `    """`) {
				t.Errorf("%s:%d: %s has no docstring", name, i+1, line)
			}
		}
	}
}
