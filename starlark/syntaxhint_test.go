package starlark

import (
	"errors"
	"testing"
)

func TestPythonThatIsNoStarlarkGetsAHint(t *testing.T) {
	rt := New(Options{})
	for _, c := range []struct{ source, where, hint string }{
		{"import os\n", "f.star:1:1", notStarlark["import"]},
		{"def main():\n    try:\n        pass\n", "f.star:2:5", notStarlark["try"]},
		{"class A: pass\n", "f.star:1:1", notStarlark["class"]},
		{"def main():\n    raise 1\n", "f.star:2:5", notStarlark["raise"]},
		{"def main():\n    while True:\n        pass\n", "f.star:2:5", notStarlark["while"]},
		{"x = 1 is None\n", "f.star:1:9", notStarlark["is"]},
		{"x = 1\nprint(f\"{x}\")\n", "f.star:2:13", `there are no f-strings: write "%s is %s" % (name, state)`},
		{"def main():\n  x = 1\n    y = 2\n", "f.star:3:5", "the line is indented more than the one before"},
		{"x = (1 2)\n", "f.star:1:9", ""},
		{"x = (\n", "f.star:2:1", ""},
	} {
		_, err := rt.Parse("f.star", []byte(c.source))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Where != c.where || e.Hint != c.hint {
			t.Errorf("%q: %v, hint %q at %s; want %q at %s", c.source, err, e.Hint, e.Where, c.hint, c.where)
		}
	}
}
