package repl

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLinesComeBackFromTheEditorAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a\n\t\\n⏎\u2007\r é\""))).Draw(t, "text")
		if got := decodeLine(encodeLine(text)); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
		if strings.ContainsAny(encodeLine(text), "\n\t") {
			t.Errorf("%q is shown as %q", text, encodeLine(text))
		}
		line := toHistory.Replace(text)
		if got := fromHistory.Replace(line); got != text || strings.Contains(line, "\n") {
			t.Errorf("%q is kept as %q and comes back as %q", text, line, got)
		}
	})
}
