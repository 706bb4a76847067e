package starlark

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"muru"
)

func TestLoadsAreBesideTheFileThatLoads(t *testing.T) {
	s := newStage(t, map[string]string{
		"main.star":        "load('lib/a.star', 'a')\nload('./lib/sub/b.star', b2 = 'b')\nprint(a(), b2())\n",
		"lib/a.star":       "load('sub/b.star', 'b')\nload('../top.star', 'top')\ndef a():\n    return b() + top()\n",
		"lib/sub/b.star":   "print('b is executed')\ndef b():\n    return 'b'\n",
		"top.star":         "load('@std//tools.star', 'tool')\ndef top():\n    return tool()\n",
		"recipes/way.star": "load('../lib/a.star', 'a')\nprint(a())\n",
	})
	s.options.Stdlib = fstest.MapFS{
		"tools.star":    {Data: []byte("load('more/x.star', 'x')\ndef tool():\n    return x\n")},
		"more/x.star":   {Data: []byte("x = 't'\n")},
		"more/bad.star": {Data: []byte("load('../../x.star', 'x')\n")},
	}
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	if got, want := s.output(), "b is executed\nbt b"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if _, err := s.runFile(t.Context(), "recipes/way.star"); err != nil {
		t.Error(text(t, err))
	}
	if _, err := s.runFile(t.Context(), filepath.Join(s.dir, "recipes/way.star")); err != nil {
		t.Error(text(t, err))
	}
}

func TestEachRunExecutesAModuleOnce(t *testing.T) {
	s := newStage(t, map[string]string{
		"main.star": "load('a.star', 'x')\nload('./a.star', y = 'x')\nload('b.star', z = 'x')\nload('link.star', w = 'x')\nprint(x == y, y == z, z == w)\n",
		"a.star":    "print('executed')\nx = {}\n",
		"b.star":    "load('a.star', _x = 'x')\nx = _x\n",
	})
	if err := os.Symlink("a.star", filepath.Join(s.dir, "link.star")); err != nil {
		t.Fatal(err)
	}
	file, err := New(s.options).Open("main.star")
	if err != nil {
		t.Fatal(text(t, err))
	}
	for range 2 {
		if _, err := file.Run(t.Context(), nil); err != nil {
			t.Fatal(text(t, err))
		}
	}
	if got, want := s.output(), "executed\nTrue True True\nexecuted\nTrue True True"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLoadErrorsNameTheStatementAndNothingIsExecuted(t *testing.T) {
	files := map[string]string{
		"missing.star":     "print('x')\nload('nowhere.star', 'x')\n",
		"name.star":        "print('x')\nload('lib.star', 'depoly')\n",
		"private.star":     "load('lib.star', '_hidden')\n",
		"lib.star":         "def deploy_all():\n    pass\ndef deploy():\n    pass\n_hidden = 1\n",
		"self.star":        "load('self.star', 'x')\n",
		"a.star":           "load('b.star', 'x')\n",
		"b.star":           "load('dir/c.star', 'x')\n",
		"dir/c.star":       "load('../b.star', 'x')\n",
		"std.star":         "load('@std//nope.star', 'x')\n",
		"escape.star":      "load('@std//../main.star', 'x')\n",
		"other.star":       "load('@platform/canary//safe.star', 'x')\n",
		"directory.star":   "load('dir', 'x')\n",
		"empty.star":       "load('', 'x')\n",
		"broken.star":      "load('syntax.star', 'x')\n",
		"syntax.star":      "x = (1\n",
		"nested.star":      "load('raises.star', 'x')\n",
		"raises.star":      "def f():\n    return 1 // 0\nx = f()\n",
		"acts.star":        "load('acting.star', 'x')\n",
		"acting.star":      "def f():\n    return deploy('shop')\nx = f()\n",
		"acts2.star":       "load('acting2.star', 'x')\n",
		"acting2.star":     "x = parallel([lambda: deploy('shop')])\n",
		"frozen.star":      "load('list.star', 'l')\nl.append(1)\n",
		"list.star":        "l = []\n",
		"catches.star":     "load('catching.star', 'x')\nprint(x)\n",
		"catching.star":    "x = attempt(deploy)[1]\n",
		"functions.star":   "load('acting3.star', 'act')\nact()\n",
		"acting3.star":     "def act():\n    deploy('shop')\n",
		"conditional.star": "def f():\n    load('lib.star', 'deploy')\n",
	}
	tests := map[string]struct {
		want string
		kind muru.ErrorKind
	}{
		"missing.star":     {"missing.star:2:6: load: nowhere.star: no such file", muru.KindNotFound},
		"name.star":        {"name.star:2:19: load: lib.star defines no depoly\nhint: did you mean deploy?", muru.KindUsage},
		"private.star":     {"private.star:1:19: load: names with leading underscores are not exported: _hidden", muru.KindUsage},
		"self.star":        {"self.star:1:6: load: self.star loads itself: self.star -> self.star", muru.KindUsage},
		"a.star":           {"dir/c.star:1:6: load: b.star loads itself: b.star -> dir/c.star -> b.star", muru.KindUsage},
		"std.star":         {"std.star:1:6: load: @std//nope.star: no such file", muru.KindNotFound},
		"escape.star":      {"escape.star:1:6: load: @std//../main.star: no such module", muru.KindNotFound},
		"other.star":       {"other.star:1:6: load: @platform/canary//safe.star: only @std// modules and files can be loaded", muru.KindNotFound},
		"directory.star":   {"directory.star:1:6: load: dir: is a directory", muru.KindUsage},
		"empty.star":       {"empty.star:1:6: load: no module is named", muru.KindUsage},
		"broken.star":      {"syntax.star:2:1: got end of file, want ')'", muru.KindUsage},
		"nested.star":      {"raises.star:2:14: floored division by zero\n  at raises.star:2:14 in f\n  at raises.star:3:5 in <toplevel>\n  at nested.star:1:1 in <toplevel>", muru.KindFailed},
		"acts.star":        {"acting.star:2:12: deploy: a loaded module may not act at its top level\n  at acting.star:2:12 in f\n  at acting.star:3:5 in <toplevel>\n  at acts.star:1:1 in <toplevel>\nhint: call it in a function of the module", muru.KindRefused},
		"acts2.star":       {"acting2.star:1:23: deploy: a loaded module may not act at its top level", muru.KindRefused},
		"frozen.star":      {"frozen.star:2:1: append: cannot append to frozen list\n  at frozen.star:2:1 in <toplevel>", muru.KindFailed},
		"catches.star":     {"", 0},
		"functions.star":   {"", 0},
		"conditional.star": {"conditional.star:2:5: load statement within a function", muru.KindUsage},
		"none.star":        {"none.star: no such file", muru.KindNotFound},
		"dir":              {"dir: is a directory", muru.KindUsage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, files)
			_, err := s.runFile(t.Context(), name)
			switch {
			case tt.want == "":
				if err != nil {
					t.Error(text(t, err))
				}
				return
			case !strings.HasPrefix(text(t, err), tt.want):
				t.Errorf("got %s\nwant %s", text(t, err), tt.want)
			}
			if got := muru.KindOf(err); got != tt.kind {
				t.Errorf("kind %v, want %v", got, tt.kind)
			}
			if len(s.acted)+len(s.printed) > 0 {
				t.Errorf("acted %v, printed %v", s.acted, s.printed)
			}
		})
	}
}

func TestHereIsBesideTheFileItStandsIn(t *testing.T) {
	s := newStage(t, map[string]string{
		"main.star":     "load('lib/l.star', 'path', 'apply')\nprint(here())\nprint(path())\nprint(apply(here))\nprint(apply(lambda: here()))\n",
		"lib/l.star":    "def path():\n    return here()\ndef apply(fn):\n    return attempt(fn)[0]\n",
		"std.star":      "load('@std//s.star', 's')\ns()\n",
		"parallel.star": "load('lib/l.star', 'path')\ndef main():\n    print(parallel([path])[0])\n",
	})
	s.options.Stdlib = fstest.MapFS{"s.star": {Data: []byte("def s():\n    here()\n")}}
	if _, err := s.run(); err != nil {
		t.Fatal(text(t, err))
	}
	if _, err := s.runFile(t.Context(), "parallel.star"); err != nil {
		t.Fatal(text(t, err))
	}
	got := strings.ReplaceAll(s.output(), s.dir, "DIR")
	if want := "DIR/main.star\nDIR/lib/l.star\nDIR/lib/l.star\nDIR/main.star\nDIR/lib/l.star"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	_, err := s.runFile(t.Context(), "std.star")
	if got, want := text(t, err), "@std//s.star:2:5: here: not in a file\n  at @std//s.star:2:5 in s\n  at std.star:2:1 in <toplevel>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilesThatAreNoRecipesAreRefused(t *testing.T) {
	s := newStage(t, map[string]string{
		"latin.star": "x = 1\ny = 'caf\xe9'\n",
		"zero.star":  "x = 1\x00\n",
		"big.star":   strings.Repeat("# x\n", 1<<18) + "x",
		"deep.star":  "x = " + strings.Repeat("(", 1<<19),
		"long.star":  "x = 1" + strings.Repeat("-1", 1<<18),
	})
	for name, want := range map[string]string{
		"latin.star": "latin.star:2:9: byte 0xe9 is not UTF-8\nhint: save the file as UTF-8",
		"zero.star":  "zero.star:1:6: the file holds a zero byte: it is not source text",
		"big.star":   "big.star: is larger than 1048576 bytes",
		"deep.star":  "deep.star:1:82: excessive nesting",
	} {
		_, err := s.runFile(t.Context(), name)
		if got := text(t, err); got != want || muru.KindOf(err) != muru.KindUsage {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, err := s.runFile(t.Context(), "long.star"); err != nil {
		t.Error(text(t, err))
	}
	if _, err := New(s.options).Open("/dev/zero"); err == nil || err.Error() != "/dev/zero: not a regular file" {
		t.Errorf("/dev/zero: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, seed := range []string{"", "x = 1\n", "def main():\n    f(", "load('main.star', 'x')", "load(", "\xff\xfe", "x = '\\xff'", "def f(*, **k): pass", "f(*a, **b)(x=1)", "lambda *: x", "x.y().z()", "[i for i in x if lambda: i]", "main = 1", "\x00", "x\ry", "def f(a=f()): return f(a)"} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		rt := New(Options{Dir: dir, Limits: Limits{Steps: 10_000, Memory: 256 << 20}})
		file, err := rt.Parse("main.star", data)
		if err == nil {
			file.Usage()
			_, err = file.Run(t.Context(), []string{"a", "--b"})
		}
		if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Message == "" || e.Text() == "") {
			t.Errorf("%q: %v is not one of ours", data, err)
		}
	})
}
