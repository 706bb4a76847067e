package repl

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	script "muru/starlark"
)

func TestAPipedBlockGoesOnAsIncompleteSays(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"(", ")", "[", "]", "{", "}", `"""`, "'''", `"`, `'`, `\`, "#", "a", " ", "    ", "\t", "def f():", "if x:", "for x in y:", "else:", "x = 1", "r'", "",
	})
	rapid.Check(t, func(t *rapid.T) {
		var b pipedBlock
		for goesOn := true; goesOn && len(b.lines) < 20; {
			line := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "line"), "")
			goesOn = b.add(line)
			if want := script.Incomplete(b.text()); goesOn != want {
				t.Fatalf("%q goes on: %v, want %v", b.text(), goesOn, want)
			}
		}
	})
}
