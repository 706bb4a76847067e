package starlark

import (
	"bufio"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"muru"
)

// TestErrorsStandOnTheLineThatFails runs the chunks of testdata, which are
// separated by --- lines. A line that must fail ends in ### and a quoted
// regular expression for the first line of the error behind its line number.
func TestErrorsStandOnTheLineThatFails(t *testing.T) {
	for _, name := range []string{"dialect.star", "errors.star"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		start := 0
		for chunk := range strings.SplitSeq(string(data), "\n---\n") {
			checkChunk(t, name, strings.Repeat("\n", start)+chunk)
			start += strings.Count(chunk, "\n") + 2
		}
	}
}

func checkChunk(t *testing.T, name, source string) {
	line, want := 0, ""
	scanner := bufio.NewScanner(strings.NewReader(source))
	for i := 1; scanner.Scan(); i++ {
		if _, expected, ok := strings.Cut(scanner.Text(), "### "); ok {
			pattern, err := strconv.Unquote(expected)
			if err != nil {
				t.Fatalf("%s:%d: %v", name, i, err)
			}
			line, want = i, pattern
		}
	}
	s := newStage(t, map[string]string{name: source})
	_, err := s.runFile(context.Background(), name)
	if line == 0 {
		if err != nil {
			t.Errorf("unexpected: %s", text(t, err))
		}
		return
	}
	if err == nil {
		t.Errorf("%s:%d: no error, want %q", name, line, want)
		return
	}
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(name+":"+strconv.Itoa(line)+":") + "(?s)" + want)
	if got := text(t, err); !pattern.MatchString(got) {
		t.Errorf("got %s\nwant a match of %s", got, pattern)
	}
}

func TestTheTextOfAnErrorIsPositionStackDetailHint(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
def step(n):
    fail("steps[%d]: 10%% is not above 50%%" % n)

def main():
    [step(n) for n in [1]]
`})
	_, err := s.run()
	want := `main.star:3:5: fail: steps[1]: 10% is not above 50%
  at main.star:3:5 in step
  at main.star:6:6 in main
  the end of a log
hint: do it otherwise`
	if got := text(t, err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := err.Error(), "main.star:3:5: fail: steps[1]: 10% is not above 50%"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestTheChainOfAnErrorIsKept(t *testing.T) {
	cause := errors.New("the cause")
	s := newStage(t, map[string]string{"main.star": "def main():\n    parallel([lambda: attempt(lambda: raises()) and raises()])\n"})
	s.options.Predeclared["raises"] = starlark.NewBuiltin("raises", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return nil, &muru.Error{Kind: muru.KindRolledBack, Message: "raises: rolled back", Rollout: 7, Err: cause}
	})
	_, err := s.run()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != muru.KindRolledBack || e.Rollout != 7 || e.Message != "raises: rolled back" {
		t.Errorf("got %+v", e)
	}
	if !errors.Is(err, cause) || muru.KindOf(err) != muru.KindRolledBack {
		t.Errorf("the chain is cut: %v", err)
	}
}

func TestAnErrorThatIsCaughtSaysWhatAndWhere(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
def bad():
    fail("no")
def main():
    print(attempt(bad)[1])
    print(attempt(lambda: 1 // 0)[1])
    print(attempt(lambda: 7)[0])
`})
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	want := "gate_failed|main.star:3:5|fail: no\nfailed|main.star:6:29|floored division by zero\n7"
	if got := s.output(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMainReturnsItsValue(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def main(n = 1):\n    return n + 1\n", "bad.star": "main = 3\n"})
	v, err := s.run("--n", "4")
	if err != nil || v.String() != "5" {
		t.Errorf("got %v, %v", v, err)
	}
	_, err = s.runFile(t.Context(), "bad.star")
	if got, want := text(t, err), "bad.star: main is no function but of type int"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
