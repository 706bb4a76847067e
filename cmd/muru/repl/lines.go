package repl

import "strings"

// The line editor knows lines only, and no tabs in them. A block that is
// recalled is one line to it, with a sign for each line end; a tab is a space
// of a kind that nobody types. Whoever does type or paste one of these signs
// has it kept apart as a rune of the private use area.
const (
	shownNewline = "⏎"
	shownTab     = "\u2007" // figure space

	keptNewline = "\uf8d0"
	keptTab     = "\uf8d1"
)

var (
	toShown   = strings.NewReplacer(shownNewline, keptNewline, shownTab, keptTab, "\n", shownNewline, "\t", shownTab)
	fromShown = strings.NewReplacer(shownNewline, "\n", shownTab, "\t", keptNewline, shownNewline, keptTab, shownTab)
)

// encodeLine returns text as the line editor has it. Text without keptNewline
// and keptTab comes back from decodeLine as it was.
func encodeLine(text string) string { return toShown.Replace(text) }

// decodeLine returns what a line of the editor stands for.
func decodeLine(line string) string { return fromShown.Replace(line) }

// historyLine is how an entry is written in the history file: one line.
var (
	toHistory   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	fromHistory = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// dedent takes margin off the beginning of each line that has it.
func dedent(block, margin string) string {
	if margin == "" {
		return block
	}
	return strings.ReplaceAll(strings.TrimPrefix(block, margin), "\n"+margin, "\n")
}

// marginOf returns the white space a line begins with.
func marginOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
