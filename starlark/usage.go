package starlark

import (
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Usage returns the help for running the recipe: how to call it, the
// docstring of its main (or of the file), and the parameters with their
// defaults. Nothing is executed, so a default that is computed is not shown.
// It ends without a line end.
func (f *File) Usage() string {
	def := f.source.definition("main")
	if def == nil {
		return usageText(f.source.name, docOf(f.source.tree.Stmts), nil)
	}
	doc := docOf(def.Body)
	if doc == "" {
		doc = docOf(f.source.tree.Stmts)
	}
	return usageText(f.source.name, doc, definedParams(def))
}

// Usage returns the help for running the recipe in file whose main is fn;
// [File.Usage] is the same without executing it.
func Usage(file string, fn *starlark.Function) string {
	return usageText(file, fn.Doc(), functionParams(fn))
}

func usageText(file, doc string, params []parameter) string {
	var b strings.Builder
	b.WriteString(usageLine(file, params))
	if doc = dedent(doc); doc != "" {
		b.WriteString("\n\n" + doc)
	}
	var rows [][2]string
	for _, p := range params {
		if row, ok := usageRow(p); ok {
			rows = append(rows, row)
		}
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	if len(rows) > 0 {
		b.WriteString("\n")
	}
	for _, row := range rows {
		line := "\n  " + row[0] + strings.Repeat(" ", width-len(row[0])) + "  " + row[1]
		b.WriteString(strings.TrimRight(line, " "))
	}
	return b.String()
}

// usageRow describes a parameter that has a default.
func usageRow(p parameter) ([2]string, bool) {
	name := p.flag() + " " + p.placeholder()
	switch d := p.Default.(type) {
	case nil:
		return [2]string{name, ""}, !p.Required && !p.Variadic && !p.Keywords
	case starlark.NoneType:
		return [2]string{name, "not set"}, true
	case starlark.Bool:
		if d {
			return [2]string{"--no-" + p.flag()[2:], "default: " + p.flag()}, true
		}
		return [2]string{p.flag(), "default: --no-" + p.flag()[2:]}, true
	case *starlark.List:
		return listRow(name, d), true
	case starlark.Tuple:
		return listRow(name, d), true
	case *starlark.Dict:
		return [2]string{p.flag() + " KEY=VALUE", "repeatable"}, true
	case starlark.String:
		if d == "" {
			return [2]string{name, ""}, true
		}
		return [2]string{name, "default: " + string(d)}, true
	}
	return [2]string{name, "default: " + p.Default.String()}, true
}

func listRow(name string, elems starlark.Iterable) [2]string {
	var texts []string
	for elem := range starlark.Elements(elems) {
		text := elem.String()
		if s, ok := elem.(starlark.String); ok {
			text = string(s)
		}
		texts = append(texts, text)
	}
	row := [2]string{name, "by comma"}
	if len(texts) > 0 {
		row[1] = "by comma, default: " + strings.Join(texts, ",")
	}
	return row
}

// usageLine is the form of the command.
func usageLine(file string, params []parameter) string {
	line := "usage: muru run " + file
	for _, p := range params {
		switch {
		case p.Variadic:
			line += " [" + p.placeholder() + "…]"
		case p.Keywords:
			line += " [--NAME VALUE…]"
		case p.Required && p.KeywordOnly:
			line += " " + p.flag() + " " + p.placeholder()
		case p.Required:
			line += " " + p.placeholder()
		default:
			row, _ := usageRow(p)
			line += " [" + row[0] + "]"
		}
	}
	return line
}

// docOf returns the docstring of a body.
func docOf(body []syntax.Stmt) string {
	if len(body) == 0 {
		return ""
	}
	if stmt, ok := body[0].(*syntax.ExprStmt); ok {
		if lit, ok := stmt.X.(*syntax.Literal); ok && lit.Token == syntax.STRING {
			return lit.Value.(string)
		}
	}
	return ""
}

// dedent removes the indentation that all lines of a docstring after the
// first have in common.
func dedent(doc string) string {
	lines := strings.Split(strings.TrimSpace(doc), "\n")
	indent := -1
	for _, line := range lines[1:] {
		if text := strings.TrimLeft(line, " \t"); text != "" && (indent < 0 || len(line)-len(text) < indent) {
			indent = len(line) - len(text)
		}
	}
	for i, line := range lines[1:] {
		lines[i+1] = strings.TrimRight(line[min(max(indent, 0), len(line)):], " \t\r")
	}
	return strings.Join(lines, "\n")
}
