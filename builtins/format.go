package builtins

import (
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	script "muru/starlark"
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
// stacks and texts. A value that is nested too deep or too large to be written
// out is its type alone.
func Text(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return s
	}
	if script.CheckExtent("", v) != nil {
		return v.Type() + "(...)"
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
		lines = append(lines, r.String())
	}
	if k == eventKind {
		kinds := make([]string, len(records))
		for i, r := range records {
			kinds[i] = r.native.(string)
		}
		alignKinds(lines, kinds)
	}
	if len(rows) == 0 { // no columns, or a window that judged nothing
		return strings.Join(lines, "\n")
	}
	return table(k.columns, rows)
}

// table aligns cells to the left with one space between columns; the last
// column is not padded.
func table(columns []string, rows [][]string) string {
	all := make([][]string, 0, len(rows)+1)
	widths := make([]int, len(columns))
	for _, row := range append([][]string{columns}, rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cell(c)
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
		all = append(all, cells)
	}
	var b strings.Builder
	for n, row := range all {
		if n > 0 {
			b.WriteByte('\n')
		}
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+1))
			}
		}
	}
	return b.String()
}

// cell makes a text fit a table: a dash for an empty one, one line.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, text)
}
