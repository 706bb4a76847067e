package starlark

import "strings"

// Incomplete reports whether an input goes on: whether a session should read
// another line before it runs it. input is the lines typed so far, joined by
// "\n", without a line end behind the last. It goes on while a bracket or a
// triple-quoted text is open, behind a backslash, and in a def, if or for
// until an empty line. An input with a mistake that no further line can
// repair is complete, so that the mistake is shown.
func Incomplete(input string) bool {
	s := scanInput(input)
	switch {
	case s.broken:
		return false
	case s.open > 0 || s.inText || s.continued:
		return true
	case !s.compound:
		return false
	}
	last := input[strings.LastIndexByte(input, '\n')+1:]
	return strings.TrimSpace(last) != "" || !strings.Contains(input, "\n")
}

// inputScan is what a look at the tokens of an input shows.
type inputScan struct {
	open      int  // brackets
	inText    bool // a triple-quoted text is open
	continued bool // it ends behind a backslash
	compound  bool // the last statement is a def, if or for
	broken    bool // a bracket too many is closed, or a text ends with its line
	code      int  // bytes outside of texts and comments
}

// scanInput looks at the tokens, as the parser would see them.
func scanInput(input string) inputScan {
	var s inputScan
	lineStart := true // of a line that is no continuation
	for i := 0; i < len(input); {
		c := input[i]
		s.continued = false
		if lineStart && c != '\n' && c != '\r' && c != '#' && c != ' ' && c != '\t' {
			s.compound = startsCompound(input[i:])
		}
		lineStart = false
		s.code++
		switch c {
		case '\n':
			lineStart = s.open == 0
		case '#':
			for i < len(input) && input[i] != '\n' {
				i++
			}
			continue
		case '(', '[', '{':
			s.open++
		case ')', ']', '}':
			if s.open--; s.open < 0 {
				s.broken = true
				return s
			}
		case '\\':
			if rest := strings.TrimPrefix(input[i+1:], "\r"); rest == "" || rest[0] == '\n' {
				s.continued = true
				i = len(input) - len(rest)
				if rest != "" {
					i++
				}
				if strings.TrimSpace(input[i:]) != "" {
					s.continued = false
				}
				continue
			}
		case '"', '\'':
			end, closed, triple := scanText(input, i)
			if !closed {
				s.inText, s.broken = triple, !triple
				return s
			}
			i = end
			continue
		}
		i++
	}
	return s
}

// scanText returns where the text that begins with the quote at i ends.
func scanText(input string, i int) (end int, closed, triple bool) {
	quote := input[i : i+1]
	if strings.HasPrefix(input[i:], strings.Repeat(quote, 3)) {
		quote, triple = strings.Repeat(quote, 3), true
	}
	// In raw texts, too, a backslash keeps the quote behind it from closing.
	for i += len(quote); i < len(input); i++ {
		switch {
		case input[i] == '\\':
			i++
		case strings.HasPrefix(input[i:], quote):
			return i + len(quote), true, triple
		case input[i] == '\n' && !triple:
			return i, false, false
		}
	}
	return len(input), false, triple
}

// startsCompound reports whether a statement has a body.
func startsCompound(stmt string) bool {
	for _, word := range []string{"def", "if", "for", "else", "elif", "while"} {
		if rest, ok := strings.CutPrefix(stmt, word); ok && (rest == "" || !isNameByte(rest[0])) {
			return true
		}
	}
	return false
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
