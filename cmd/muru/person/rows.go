package person

import (
	"strings"
	"unicode/utf8"
)

// maxRows bounds progress on a narrow terminal: what stands above it is worth
// more than the end of a long line.
const maxRows = 4

// rowsOf breaks a line into rows of at most width letters, so that it can be
// taken off a terminal again, which a line that the terminal broke cannot. It
// breaks behind commas, where a row has one: a gate stays with its verdict.
// What does not fit into the last row is cut.
func rowsOf(line string, width int) []string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
	var rows []string
	for len(rows) < maxRows-1 && utf8.RuneCountInString(line) > width {
		i := strings.LastIndex(firstLetters(line, width), ", ") + 1
		if i == 0 {
			break
		}
		rows = append(rows, line[:i])
		line = "  " + strings.TrimLeft(line[i:], " ")
	}
	return append(rows, cutToWidth(line, width))
}

// firstLetters returns the first n letters of a text, or all of them.
func firstLetters(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// cutToWidth cuts a line that is too long. It cuts between words: half a number
// would be read as a number.
func cutToWidth(line string, width int) string {
	letters := []rune(line)
	if len(letters) <= width {
		return line
	}
	letters = letters[:max(width-1, 0)] // room for the ellipsis
	if i := strings.LastIndexByte(string(letters), ' '); i > 0 {
		return strings.TrimRight(string(letters)[:i], " ,(") + "…"
	}
	return string(letters) + "…"
}
