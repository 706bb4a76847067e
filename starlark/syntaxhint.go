package starlark

import (
	"regexp"
	"strings"

	"go.starlark.net/syntax"

	"muru"
)

// notStarlark is what people who know Python write, and what to write here.
var notStarlark = map[string]string{
	"import":   `load("other.star", "name") takes names from another file`,
	"from":     `load("other.star", "name") takes names from another file`,
	"class":    "there are no classes: struct(a = 1) holds values, functions do things",
	"try":      "attempt(lambda: ...) returns the result and the error",
	"except":   "attempt(lambda: ...) returns the result and the error",
	"finally":  "attempt(lambda: ...) returns the result and the error",
	"raise":    `fail("why") raises`,
	"assert":   `if not it: fail("why")`,
	"with":     "there is no with: a call returns when the thing is done",
	"is":       "compare with ==",
	"del":      "dicts and lists have pop()",
	"global":   "a function returns what it makes: globals are constant",
	"nonlocal": "a function returns what it makes, or changes a list or dict",
	"yield":    "build a list and return it",
	"while":    "use for x in range(n), or wait(lambda: ...) to wait until something is true",
}

var formatted = regexp.MustCompile(`(^|\W)[fF]["']`)

// syntaxHint is the way out for source that is no Starlark, "" if none is
// known. The parser says in words only what it saw: the hint is for people,
// nothing is decided by it.
func syntaxHint(data []byte, e syntax.Error) string {
	lines := strings.Split(string(data), "\n")
	if e.Pos.Line < 1 || int(e.Pos.Line) > len(lines) {
		return ""
	}
	line := lines[e.Pos.Line-1]
	switch {
	case strings.HasPrefix(e.Msg, "got indent"):
		return "the line is indented more than the one before"
	case formatted.MatchString(line) && strings.HasPrefix(e.Msg, "got string literal"):
		return `there are no f-strings: write "%s is %s" % (name, state)`
	}
	// The parser points at the word it met, or behind it.
	runes := []rune(line)
	col := min(max(int(e.Pos.Col)-1, 0), len(runes))
	before, after := string(runes[:col]), string(runes[col:])
	word := before[len(strings.TrimRightFunc(before, isKeywordLetter)):] + after[:len(after)-len(strings.TrimLeftFunc(after, isKeywordLetter))]
	return notStarlark[word]
}

func isKeywordLetter(r rune) bool { return r >= 'a' && r <= 'z' }

// statementAt returns the keyword of a statement at pos that the resolver
// refuses, "" for others.
func statementAt(tree *syntax.File, pos syntax.Position) (word string) {
	syntax.Walk(tree, func(n syntax.Node) bool {
		if while, ok := n.(*syntax.WhileStmt); ok && positionOf(while.While) == positionOf(pos) {
			word = "while"
		}
		return word == ""
	})
	return word
}

// hintFor words a suggestion as the hint of an error, "" if there is none.
func hintFor(name string, candidates []string) string {
	if s := muru.Suggest(name, candidates); s != "" {
		return "did you mean " + s + "?"
	}
	return ""
}
