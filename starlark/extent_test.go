package starlark

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"
)

// nest is a function of recipes that puts x into n containers.
const nest = `
def nest(wrap, n):
    x = ()
    for i in range(n):
        x = wrap(x)
    return x
`

func TestAValueThatIsNestedTooDeepIsNotWrittenOut(t *testing.T) {
	tests := map[string]struct{ source, want string }{
		"str of lists":       {"str(nest(lambda x: [x], 200000))", "str: the value contains itself, or is nested more than 1000 deep"},
		"repr of dicts":      {"repr(nest(lambda x: {1: x}, 200000))", "repr: the value contains itself, or is nested more than 1000 deep"},
		"str of tuples":      {"str(nest(lambda x: (x,), 200000))", "str: the value contains itself, or is nested more than 1000 deep"},
		"one value, often":   {"str(nest(lambda x: [x, x], 40))", "str: the value has more than 256 MiB, written out"},
		"a long text, often": {"str([\"x\" * 1000000] * 1000)", "str: the value has more than 256 MiB, written out"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, map[string]string{"main.star": nest + "def main():\n    " + tt.source + "\n"})
			_, err := s.run()
			if got := text(t, err); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAListThatHoldsItselfIsWrittenOut(t *testing.T) {
	s := newStage(t, map[string]string{"main.star": "def main():\n    x = [1]\n    x.append(x)\n    d = {}\n    d[1] = [d, x]\n    return str([x, x, d])\n"})
	got, err := s.run()
	if want := starlark.String("[[1, [...]], [1, [...]], {1: [{...}, [1, [...]]]}]"); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
