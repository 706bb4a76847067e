package starlark

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

// inputs runs inputs in a new session and returns what each came to: its
// value as text, "" for none, or the text of its error.
func inputs(t *testing.T, s *stage, lines ...string) []string {
	t.Helper()
	session := New(s.options).NewSession()
	var out []string
	for _, line := range lines {
		out = append(out, eval(t, session, line))
	}
	return out
}

func eval(t *testing.T, session *Session, input string) string {
	t.Helper()
	v, err := session.Eval(context.Background(), input)
	switch {
	case err != nil:
		return text(t, err)
	case v == nil:
		return ""
	}
	return v.String()
}

func TestSessionKeepsItsVariables(t *testing.T) {
	for _, c := range []struct {
		name          string
		inputs, wants []string
	}{
		{"an expression has a value", []string{"1 + 1", "_", "None", "_ + 1"}, []string{"2", "2", "None", "3"}},
		{"a variable is assigned again", []string{"x = 1", "x = x + 1", "x += 1", "x"}, []string{"", "", "", "3"}},
		{"the last of several", []string{"x = 2; x * 2"}, []string{"4"}},
		{"for and if at top level", []string{"n = 0", "for i in range(4):\n    n += i\n", "n", "if n > 5:\n    n = 'many'\n", "n"}, []string{"", "", "6", "", `"many"`}},
		{"a function of an earlier input", []string{"def f(x):\n    return x + k\n", "k = 1", "def f(x):\n    return x + k\n", "f(1)", "k = 10", "f(1)"},
			[]string{"<input 1>:2:16: undefined: k", "", "", "2", "", "11"}},
		{"a function calls one that is defined again", []string{"def g():\n    return 1\n", "def f():\n    return g()\n", "f()", "def g():\n    return 2\n", "f()"}, []string{"", "", "1", "", "2"}},
		{"lists stay mutable", []string{"l = []", "l.append(1)", "def f():\n    l.append(2)\n", "f()", "l"}, []string{"", "None", "", "None", "[1, 2]"}},
		{"an error keeps what was assigned", []string{"a = 1; b = fail('no'); c = 2", "a", "c"}, []string{"fail: no\n  the end of a log\nhint: do it otherwise", "1", "<input 3>:1:1: undefined: c"}},
		{"a failing assignment keeps the old value", []string{"x = 1", "x = x // 0", "x"}, []string{"", "floored division by zero", "1"}},
		{"a builtin is hidden", []string{"app = 3", "app + 1"}, []string{"", "4"}},
		{"unpacking", []string{"a, (b, c) = 1, (2, 3)", "a, b = b, a", "[a, b, c]"}, []string{"", "", "[2, 1, 3]"}},
		{"a comprehension's variable is its own", []string{"x = 7", "[x for x in range(2)]", "x"}, []string{"", "[0, 1]", "7"}},
		{"nothing", []string{"", "# only a remark", "   "}, []string{"", "", ""}},
		{"a near name", []string{"release = 1", "relaese"}, []string{"", "<input 2>:1:1: undefined: relaese\nhint: did you mean release?"}},
		{"a mistake", []string{"x = = 1"}, []string{"<input 1>:1:5: got '=', want primary expression"}},
		{"where it happened", []string{"def f():\n    return fail('no')\n", "f()"},
			[]string{"", "<input 1>:2:12: fail: no\n  at <input 1>:2:12 in f\n  at <input 2>:1:1 in <toplevel>\n  the end of a log\nhint: do it otherwise"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, nil)
			for i, got := range inputs(t, s, c.inputs...) {
				if got != c.wants[i] {
					t.Errorf("%q gives %q, want %q", c.inputs[i], got, c.wants[i])
				}
			}
		})
	}
}

func TestSessionLoadsFromItsDirectoryAndReadsAnew(t *testing.T) {
	s := newStage(t, map[string]string{"lib/k.star": "def f():\n    return 1\n"})
	session := New(s.options).NewSession()
	if got := eval(t, session, `load("lib/k.star", "f", g = "f")`) + eval(t, session, "f() + g()"); got != "2" {
		t.Errorf("got %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "lib/k.star"), []byte("def f():\n    return 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := eval(t, session, `load("lib/k.star", "f")`) + eval(t, session, "f()"); got != "2" {
		t.Errorf("loaded again: %q", got)
	}
	if got := eval(t, session, `load("lib/none.star", "f")`); got != "<input 5>:1:6: load: lib/none.star: no such file" {
		t.Errorf("got %q", got)
	}
	if got := eval(t, session, "f()"); got != "2" {
		t.Errorf("after a failed load: %q", got)
	}
}

func TestSessionFreezesOnlyWhatIsHandedToAnotherThread(t *testing.T) {
	s := newStage(t, nil)
	got := inputs(t, s,
		"mine = []", "given = []", "inner = []", "def h():\n    return inner\n", "helpers = {'h': h}",
		"def f():\n    return len(given) + len(helpers['h']())\n",
		"parallel([f, f])",
		"mine.append(1)", "given.append(1)", "inner.append(1)", "given = [1]", "given.append(2)", "given", "f()")
	want := []string{"", "", "", "", "", "", "(0, 0)", "None",
		"append: cannot append to frozen list", "append: cannot append to frozen list", "", "None", "[1, 2]",
		"0"} // f was handed over: it keeps what it saw
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("input %d gives %q, want %q", i+1, got[i], want[i])
		}
	}
}

func TestSessionGoesOnWhileAFunctionOfItRunsElsewhere(t *testing.T) {
	s := newStage(t, nil)
	session := New(s.options).NewSession()
	eval(t, session, "limit = 10")
	eval(t, session, "def check():\n    return limit + len(parallel([lambda: 1]))\n")
	fn := session.Lookup("check").(starlark.Callable)
	Freeze(fn) // what canary(wait = False) does
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if v, err := Call(context.Background(), fn, nil, Gate("g")); err != nil || v.String() != "11" {
				t.Errorf("the gate says %v, %v", v, err)
				return
			}
		}
	}()
	for range 50 {
		if got := eval(t, session, "limit = limit + 1"); got != "" {
			t.Fatal(got)
		}
	}
	close(stop)
	<-done
	if got := eval(t, session, "limit"); got != "60" {
		t.Errorf("limit is %s", got)
	}
}

func TestAFunctionThatUsesAVariableOfALoopIsRebound(t *testing.T) {
	s := newStage(t, nil)
	session := New(s.options).NewSession()
	eval(t, session, "fs = []\nn = 1\nfor i in range(2):\n    fs.append(lambda: i)\n    fs.append(lambda: n)\n")
	list := session.Lookup("fs").(*starlark.List)
	if got := Rebound(list.Index(0).(*starlark.Function)); got != "i" {
		t.Errorf("rebound %q, want i", got)
	}
	if got := Rebound(list.Index(1).(*starlark.Function)); got != "" {
		t.Errorf("rebound %q, want none", got)
	}
}

func TestCancelEndsAnInputWithin200msAndKeepsVariables(t *testing.T) {
	for name, input := range map[string]string{
		"a loop":            "for _ in range(1000000000000):\n    x = x + 1\n",
		"a blocked builtin": "x = 2; block()",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			session := New(s.options).NewSession()
			eval(t, session, "x = 1")
			ctx, cancel := context.WithCancel(context.Background())
			cancelled := make(chan time.Time, 1)
			timer := time.AfterFunc(50*time.Millisecond, func() { cancelled <- time.Now(); cancel() })
			defer timer.Stop()
			_, err := session.Eval(ctx, input)
			took := time.Since(<-cancelled)
			if !errors.Is(err, context.Canceled) || muru.KindOf(err) != muru.KindCanceled {
				t.Errorf("not canceled: %v", err)
			}
			if took > 200*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if got := eval(t, session, "x > 1"); got != "True" {
				t.Errorf("x was not kept: %s", got)
			}
		})
	}
}

func TestEachInputHasBudgetsOfItsOwn(t *testing.T) {
	s := newStage(t, nil)
	s.options.Limits = Limits{Steps: 20_000}
	got := inputs(t, s, "for i in range(3000):\n    pass\n", "for i in range(3000):\n    pass\n", "for i in range(300000):\n    pass\n", "i > 0")
	if got[0] != "" || got[1] != "" || !strings.Contains(got[2], "the budget of 20000 steps is used up") || got[3] != "True" {
		t.Errorf("got %q", got)
	}
}

func TestOneInputRunsAtATime(t *testing.T) {
	s := newStage(t, nil)
	reached := make(chan struct{})
	s.options.Predeclared["ready"] = readyBuiltin(reached)
	session := New(s.options).NewSession()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = session.Eval(ctx, "ready(); block()")
	}()
	<-reached
	if got := eval(t, session, "1"); got != "the session is busy with another input" {
		t.Errorf("got %q", got)
	}
	cancel()
	<-done
}

func TestSessionsDoNotSeeEachOther(t *testing.T) {
	s := newStage(t, nil)
	rt := New(s.options)
	one, two := rt.NewSession(), rt.NewSession()
	eval(t, one, "x = 1")
	if got := eval(t, two, "x"); got != "<input 1>:1:1: undefined: x" {
		t.Errorf("got %q", got)
	}
}

func TestAMegabyteLineIsAnInput(t *testing.T) {
	s := newStage(t, nil)
	data := strings.Repeat("x", 3<<20)
	if got := inputs(t, s, "d = '"+data+"'", "len(d)"); got[1] != "3145728" {
		t.Errorf("got %.100q", got)
	}
	if got := inputs(t, s, "d = "+strings.Repeat("-", 3<<20)+"1"); !strings.Contains(got[0], "is larger than") {
		t.Errorf("got %.100q", got)
	}
}

func TestIncompleteInputsGoOn(t *testing.T) {
	for _, c := range []struct {
		input string
		want  bool
	}{
		{"", false}, {"1 + 1", false}, {"f(1,", true}, {"f(1,\n2)", false}, {"x = [", true}, {"x = {'a': [1,\n", true},
		{"def f():", true}, {"def f():\n    return 1", true}, {"def f():\n    return 1\n", false}, {"def f(): return 1", true}, {"def f(): return 1\n", false},
		{"if x:\n    y = 1\nelse:", true}, {"if x:\n    y = 1\nelse:\n    y = 2\n", false}, {"for x in y:", true}, {"for x in y:\n    f(x)", true},
		{"formula = 1", false}, {"iffy(1)", false}, {"defer", false},
		{`x = """abc`, true}, {"x = \"\"\"abc\n\nstill", true}, {"x = \"\"\"abc\n\"\"\"", false}, {"'''", true}, {`x = "abc`, false}, {`x = "a\"b"`, false}, {`r"\"`, false}, {`r"""\"""`, true},
		{"x = 1 + \\", true}, {"x = 1 + \\\n2", false}, {"# if x:", false}, {"f(1) # (", false}, {"f('(')", false}, {"f)", false}, {"f(]", false}, {"(]]", false},
		{"x = 1\ndef f():\n    pass", true}, {"def f():\n    pass\nf()", false}, {"f(1,\n\n", true}, {"if x: # {", true},
	} {
		if got := Incomplete(c.input); got != c.want {
			t.Errorf("Incomplete(%q) = %v", c.input, got)
		}
	}
}

func TestQuestionMarkAsksForHelp(t *testing.T) {
	known := func(name string) bool { return name == "canary" }
	for in, want := range map[string]string{
		"canary?": "help(canary)", " canary ? ": "help(canary)", "len?": "help(len)", "canry?": `help("canry")`, "App?": `help("App")`,
		"shop.name?": "help(shop.name)", "1?": "1?", "f(x)?": "f(x)?",
	} {
		if got := question(in, known); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestFunctionTextIsWhatWasTyped(t *testing.T) {
	s := newStage(t, nil)
	session := New(s.options).NewSession()
	eval(t, session, "limit = 2")
	eval(t, session, "def over(w):\n    # häufig\n    return w > limit\n")
	eval(t, session, "fs = [lambda w: over(w) and 'ü', 1]")
	list := session.Lookup("fs").(*starlark.List)
	got, uses, ok := FunctionText(list.Index(0).(*starlark.Function))
	if !ok || got != "lambda w: over(w) and 'ü'" || len(uses) != 1 || uses["over"] == nil {
		t.Errorf("got %q, %v, %v", got, uses, ok)
	}
	got, uses, ok = FunctionText(uses["over"].(*starlark.Function))
	if !ok || got != "def over(w):\n    # häufig\n    return w > limit" || uses["limit"] == nil || len(uses) != 1 {
		t.Errorf("got %q, %v, %v", got, uses, ok)
	}
}

func FuzzIncomplete(f *testing.F) {
	for _, seed := range []string{"", "f(", "'''", `"\`, "x = \\", "def f():\n", "\\\n\\", "r'\\'", "#", "(]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		if !Incomplete(input) && !Incomplete(input+"\n") {
			return
		}
		// Whatever is open, closing text and brackets and an empty line end it.
		if scanInput(input).open > 1000 {
			return
		}
		for _, end := range []string{"", "'''", `"""`, "\\'''", `\"""`} {
			closed := input + end
			if s := scanInput(closed); !s.inText {
				closed += "\n" + strings.Repeat(")", max(0, s.open)) + "\n\n"
				if Incomplete(closed) && !strings.HasSuffix(input, "\\") {
					t.Errorf("%q goes on", closed)
				}
				return
			}
		}
	})
}
