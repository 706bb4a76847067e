package starlark

import (
	"context"
	"testing"

	"go.starlark.net/starlark"
)

func TestReboundNamesVariablesThatAreAssignedAgain(t *testing.T) {
	tests := map[string]struct{ body, want string }{
		"nothing captured":   {"keep(lambda w: w)", ""},
		"assigned once":      {"n = 1\n    keep(lambda w: n)", ""},
		"a parameter":        {"keep(lambda w: p)", ""},
		"a global":           {"keep(lambda w: LIMIT)", ""},
		"assigned after":     {"n = 1\n    keep(lambda w: n)\n    n = 2", "n"},
		"augmented":          {"n = 1\n    keep(lambda w: n)\n    n += 2", "n"},
		"parameter assigned": {"keep(lambda w: p)\n    p = 2", "p"},
		"loop variable":      {"for i in [1]:\n        keep(lambda w: i)", "i"},
		"in a loop":          {"for _ in [1]:\n        n = 1\n        keep(lambda w: n)", "n"},
		"comprehension":      {"[keep(lambda w: i) for i in [1]]", "i"},
		"unpacked":           {"n, m = 1, 2\n    keep(lambda w: m)\n    (n, m) = 2, 3", "m"},
		"inner function":     {"n = 1\n    def check(w):\n        k = n\n        k = 2\n        return k\n    keep(check)", ""},
		"same name within":   {"n = 1\n    def other():\n        n = 2\n        n = 3\n    keep(lambda w: n)", ""},
		"two levels":         {"n = 1\n    def outer():\n        keep(lambda w: n)\n    outer()\n    n = 2", "n"},
	}
	for name, tt := range tests {
		s := newStage(t, map[string]string{"main.star": "LIMIT = 3\ndef main(p = 1):\n    " + tt.body + "\n"})
		kept := s.keep()
		if _, err := s.run(); err != nil {
			t.Fatal(name, text(t, err))
		}
		if got := Rebound(kept()); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestAFrozenFunctionIsCalledWhileItsRecipeGoesOn(t *testing.T) {
	// Under the race detector: the function's module assigns globals and the
	// recipe changes its own values meanwhile.
	s := newStage(t, map[string]string{"main.star": `
limit = 3
keep(lambda w: w + limit)
later = []
def work():
    for i in range(1000):
        later.append(i)
work()
more = 1
join()
`})
	kept := s.keep()
	done := make(chan error, 1)
	keep := s.options.Predeclared["keep"].(*starlark.Builtin)
	s.options.Predeclared["keep"] = starlark.NewBuiltin("keep", func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		Freeze(args...)
		if _, err := keep.CallInternal(thread, args, kwargs); err != nil {
			return nil, err
		}
		go func() {
			var err error
			for range 50 {
				_, err = Call(context.Background(), kept(), starlark.Tuple{starlark.MakeInt(1)}, Gate("x"))
			}
			done <- err
		}()
		return starlark.None, nil
	})
	s.options.Predeclared["join"] = starlark.NewBuiltin("join", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, <-done
	})
	if _, err := s.run(); err != nil {
		t.Error(text(t, err))
	}
}

func TestBranchesThatStartTogetherShareValues(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": `
def main():
    shared = [[1], {"a": [2]}]
    parallel([lambda: len(shared[0]), lambda: shared[1]["a"][0], lambda: shared[0][0]] * 20)
`})
	if _, err := s.run(); err != nil {
		t.Error(text(t, err))
	}
}
