package starlark

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.starlark.net/starlark"

	"muru"
)

func readyBuiltin(reached chan struct{}) *starlark.Builtin {
	return starlark.NewBuiltin("ready", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		close(reached)
		return starlark.None, nil
	})
}

// keep is a builtin that hands its argument to the test, as gate() hands a
// check to the engine.
func (s *stage) keep() (kept func() *starlark.Function) {
	var fn atomic.Pointer[starlark.Function]
	s.options.Predeclared["keep"] = starlark.NewBuiltin("keep", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		fn.Store(args[0].(*starlark.Function))
		return starlark.None, nil
	})
	return fn.Load
}

func TestEveryThreadHasContextSetupPrintAndName(t *testing.T) {
	s := newStage(t, map[string]string{
		"lib.star": "print('module', user())\ndef f():\n    print('in module', user())\n",
		"main.star": `
load("lib.star", "f")
print("top", user())
def branch():
    print("branch", user())
    parallel([lambda: print("inner branch", user())])
def main():
    f()
    print("key", sorted([1], key = lambda x: user()))
    attempt(lambda: print("attempt", user()))
    parallel([branch])
`})
	var names []string
	s.options.Setup = func(ctx context.Context, thread *starlark.Thread) {
		names = append(names, thread.Name)
		thread.SetLocal("setup", ctx.Value(userKey{}).(string)+" was set up")
	}
	ctx := context.WithValue(context.Background(), userKey{}, "ana")
	if _, err := s.runFile(ctx, "main.star"); err != nil {
		t.Fatal(text(t, err))
	}
	if got, want := strings.Join(names, " "), "main.star lib.star branch lambda"; got != want {
		t.Errorf("threads %q, want %q", got, want)
	}
	for _, line := range s.printed {
		if !strings.HasSuffix(line, "ana/ana was set up") && !strings.HasPrefix(line, "key") {
			t.Errorf("context or setup is missing: %q", line)
		}
	}
	if len(s.printed) != 7 {
		t.Errorf("printed %q", s.printed)
	}
}

func TestAFunctionIsCalledFromElsewhereAfterTheRunWentOn(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
limits = [10]
def main():
    seen = {}
    keep(lambda w: w <= limits[0] or "%d is over" % w)
`})
	kept := s.keep()
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	for arg, want := range map[int]string{5: "True", 50: `"50 is over"`} {
		got, err := Call(context.Background(), kept(), starlark.Tuple{starlark.MakeInt(arg)}, Gate("carts"))
		if err != nil || got.String() != want {
			t.Errorf("check(%d) = %v, %v, want %s", arg, got, err, want)
		}
	}
}

func TestAGateFunctionMayOnlyComputeAndNotForLong(t *testing.T) {
	tests := map[string]struct{ check, want string }{
		"acts":          {"lambda w: deploy('x')", "main.star:2:16: deploy: a gate function may only compute\n  at main.star:2:16 in lambda\nhint: let it judge the window it is given"},
		"acts deeper":   {"lambda w: parallel([lambda: attempt(deploy)])", ""},
		"too long":      {"lambda w: [1 for _ in range(1000000)]", "the budget of 100000 steps is used up"},
		"raises":        {"lambda w: 1 // 0", "main.star:2:18: floored division by zero\n  at main.star:2:18 in lambda"},
		"changes state": {"lambda w: state.append(1)", "append: cannot append to frozen list"},
		"wrong arity":   {"lambda: 1", "main.star:2:6: lambda cannot be called with 1 arguments"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, map[string]string{"main.star": "state = []\nkeep(" + tt.check + ")\n"})
			kept := s.keep()
			if _, err := s.run(); err != nil {
				t.Fatal(text(t, err))
			}
			v, err := Call(context.Background(), kept(), starlark.Tuple{starlark.None}, Gate("x"))
			if tt.want == "" {
				if err != nil || !strings.Contains(v.String(), "refused|main.star:2:") {
					t.Errorf("got %v, %v", v, err)
				}
			} else if got := text(t, err); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if len(s.acted) > 0 {
				t.Error("it acted")
			}
		})
	}
}

func TestGateBudgetIsItsOwn(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "keep(lambda w: [1 for _ in range(1000)] and True)\n"})
	s.options.Limits.Steps = 1000
	kept := s.keep()
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	for range 50 {
		if _, err := Call(context.Background(), kept(), starlark.Tuple{starlark.None}, Gate("x")); err != nil {
			t.Fatal(text(t, err))
		}
	}
}

func TestBranchesSeeFrozenValues(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
def main():
    mine = [1]
    def branch():
        mine.append(2)
    print(attempt(lambda: parallel([branch]))[1])
    mine.append(3)
`})
	_, err := s.run()
	if got := s.output(); !strings.Contains(got, "main.star:5:20: append: cannot append to frozen list") &&
		!strings.Contains(got, "append: cannot append to frozen list") {
		t.Errorf("the branch changed a value: %q", got)
	}
	if got := text(t, err); !strings.Contains(got, "main.star:7:") {
		t.Errorf("the value is not frozen for its maker: %q", got)
	}
}

func TestAFailedBranchShowsBothStacks(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
def branch():
    fail("no")
def main():
    parallel([branch])
`})
	_, err := s.run()
	want := `main.star:3:5: fail: no
  at main.star:3:5 in branch
  at main.star:5:5 in main
  the end of a log
hint: do it otherwise`
	if got := text(t, err); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if muru.KindOf(err) != muru.KindGateFailed {
		t.Errorf("kind %v", muru.KindOf(err))
	}
}

func TestThreadsThatMakeThreadsEnd(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def f():\n    parallel([f])\ndef main():\n    f()\n"})
	_, err := s.run()
	if got := text(t, err); !strings.Contains(got, "nested more than 50 deep") {
		t.Errorf("got %q", got)
	}
}

func TestAPanicFailsItsRunOnlyAndHidesTheStack(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def main():\n    attempt(explode)\n    deploy()\n", "other.star": "deploy('b')\n"})
	_, err := s.run()
	got := text(t, err)
	if len(s.bugs) != 1 {
		t.Fatalf("%d bugs reported: %s", len(s.bugs), got)
	}
	bug := s.bugs[0]
	want := fmt.Sprintf("main.star:2:5: explode: a bug in muru ended this run (bug %s)\n  at main.star:2:5 in main\nhint: report it with the lines of muru's log that name %[1]s", bug.ID)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(string(bug.Stack), "main_test.go") || bug.Where != "main.star:2:5" || bug.In != "explode" {
		t.Errorf("bug %+v", bug)
	}
	if _, err := s.runFile(context.Background(), "other.star"); err != nil || len(s.acted) != 1 {
		t.Errorf("the next run: %v, acted %v", err, s.acted)
	}
}

// fragile is a value whose methods panic.
type fragile struct{ starlark.Value }

func (fragile) String() string { panic("fragile") }

func TestAPanicOutsideOfBuiltinsFailsItsRun(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def main():\n    x = str(thing)\n"})
	s.options.Predeclared["thing"] = fragile{starlark.None}
	_, err := s.run()
	if got := text(t, err); !strings.HasPrefix(got, "main.star: a bug in muru ended this run (bug ") || len(s.bugs) != 1 {
		t.Errorf("got %q, %d bugs", got, len(s.bugs))
	}
}
