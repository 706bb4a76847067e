package builtins

import (
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// Format returns a value as print and write show it, without a final line
// end: a value with columns as its table, a list of such values of one kind
// as one table, a list of events, stacks or texts one a line, a text as it
// is, and everything else as Starlark writes it.
func Format(v starlark.Value) string {
	switch v := v.(type) {
	case *Record:
		return formatRecords([]*Record{v})
	case *starlark.List:
		if text, ok := formatList(v); ok {
			return text
		}
	}
	return Text(v)
}

// Text returns a value as str() does: its short form on one line, except for
// stacks and texts.
func Text(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return s
	}
	return v.String()
}

// formatList formats lists whose elements are all texts or all of one kind.
func formatList(list *starlark.List) (string, bool) {
	var records []*Record
	var texts []string
	for x := range list.Elements() {
		switch x := x.(type) {
		case *Record:
			if len(records) > 0 && records[0].kind != x.kind {
				return "", false
			}
			records = append(records, x)
		case starlark.String:
			texts = append(texts, string(x))
		default:
			return "", false
		}
	}
	switch {
	case len(records) > 0 && len(texts) == 0:
		return formatRecords(records), true
	case len(texts) > 0 && len(records) == 0:
		return strings.Join(texts, "\n"), true
	}
	return "", false
}

// formatRecords formats records of one kind, at least one.
func formatRecords(records []*Record) string {
	k := records[0].kind
	var rows [][]string
	var lines []string
	for _, r := range records {
		rows = append(rows, r.rows...)
		lines = append(lines, r.text)
	}
	if len(rows) == 0 { // no columns, or a window that judged nothing
		return strings.Join(lines, "\n")
	}
	return table(k.columns, rows)
}

// table aligns cells to the left with one space between columns; the last
// column is not padded. An empty cell is shown as a dash, and a line end in a
// cell as a space.
func table(columns []string, rows [][]string) string {
	all := append([][]string{columns}, rows...)
	widths := make([]int, len(columns))
	for _, row := range all {
		for i := range row {
			row[i] = strings.Join(strings.FieldsFunc(row[i], func(r rune) bool { return r == '\n' || r == '\r' }), " ")
			if row[i] == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for n, row := range all {
		if n > 0 {
			b.WriteByte('\n')
		}
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
			}
		}
	}
	return b.String()
}
