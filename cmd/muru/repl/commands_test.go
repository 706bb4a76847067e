package repl

import (
	"slices"
	"testing"
)

func TestWordsBehindACommandAreSplitAsAShellDoes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                  nil,
		"a  b":              {"a", "b"},
		`"a b" 'c "d'`:      {"a b", `c "d`},
		`a\ b "\"" '' '\n'`: {"a b", `"`, "", `\n`},
	} {
		if got, err := splitWords(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`"a`, `a\`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
}
