package starlark

import (
	"context"
	"testing"

	"go.starlark.net/starlark"
)

func TestBuiltinsLearnWhereTheyAreCalled(t *testing.T) {
	s := newStage(t, map[string]string{
		"lib.star":  "def f():\n    return look()\nprint(f())\n",
		"main.star": "load('lib.star', 'f')\ndef main():\n    print(f())\n    print(look().strip())\n    print(parallel([look])[0])\n",
	})
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	want := `true lib.star:2:12 lib.star:2:12 in f, lib.star:3:7 in <toplevel> true
false lib.star:2:12 lib.star:2:12 in f, main.star:3:11 in main true
false main.star:4:11 main.star:4:11 in main true
false   true`
	if got := s.output(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAThreadFromElsewhereHasNoRun(t *testing.T) {
	thread := new(starlark.Thread)
	path, ok := FileOf(thread)
	if ContextOf(thread) != context.Background() || AtModuleTop(thread) || CheckEffect(thread, "x") != nil ||
		Where(thread) != "" || DirOf(thread) != "" || path != "" || ok || len(Stack(thread)) != 0 {
		t.Error("an accessor made something up")
	}
	Waiting(thread)()
}

func TestCallOfABuiltinWithoutARunIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Call(context.Background(), starlark.Universe["len"].(starlark.Callable), nil, CallOptions{})
}

func TestABuiltinCalledByABranchFailsAtTheCallOfParallel(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def main():\n    parallel([here])\n"})
	_, err := s.run()
	if got, want := text(t, err), "main.star:2:5: here: not in a file\n  at main.star:2:5 in main"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestASessionMayUseControlAndReassignAtTopLevel(t *testing.T) {
	source := "x = 1\nfor i in [1, 2]:\n    if i:\n        x = x + i\n"
	globals, err := starlark.ExecFileOptions(SessionDialect(), new(starlark.Thread), "input", source, nil)
	if err != nil || globals["x"].String() != "4" {
		t.Errorf("got %v, %v", globals["x"], err)
	}
	if _, err := starlark.ExecFileOptions(SessionDialect(), new(starlark.Thread), "input", "while True:\n    pass\n", nil); err == nil {
		t.Error("while is allowed")
	}
}
