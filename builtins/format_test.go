package builtins

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Whatever the cells hold, every row has a line, every column begins at the
// same place in all of them, and no line ends in padding.
func TestTableKeepsItsColumnsWhateverTheCellsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := []string{"FIRST", "B", "LAST"}
		rows := rapid.SliceOf(rapid.SliceOfN(rapid.String(), 3, 3)).Draw(t, "rows")
		lines := strings.Split(table(columns, rows), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines for %d rows", len(lines), len(rows))
		}
		second := utf8.RuneCountInString(lines[0][:strings.Index(lines[0], "B")])
		third := utf8.RuneCountInString(lines[0][:strings.Index(lines[0], "LAST")])
		for i, row := range rows {
			line := []rune(lines[i+1])
			if got := string(line[:second-1]); strings.TrimRight(got, " ") != strings.TrimRight(cell(row[0]), " ") {
				t.Fatalf("first column of %q is %q", string(line), got)
			}
			if got := string(line[second : third-1]); strings.TrimRight(got, " ") != strings.TrimRight(cell(row[1]), " ") {
				t.Fatalf("second column of %q is %q", string(line), got)
			}
			if got := string(line[third:]); got != string([]rune(cell(row[2]))) {
				t.Fatalf("last column of %q is %q", string(line), got)
			}
		}
	})
}
