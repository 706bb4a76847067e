package person

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// PrintTable prints rows under their columns, as the tables of values are:
// cells to the left, one space between, the last not padded, "-" for empty.
func PrintTable(w io.Writer, columns []string, rows [][]string) {
	widths := make([]int, len(columns))
	all := append([][]string{columns}, rows...)
	for _, row := range all {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
			}
		}
		fmt.Fprintln(w, b.String())
	}
}
