package wire

import (
	"net/textproto"
	"strconv"
	"strings"

	"muru"
)

// answerHead parses the heads of answers. It remembers the canonical form of
// field names. The zero value is ready for use, by one goroutine.
type answerHead struct {
	names  map[string]fieldName
	fields []muru.Field // reused for the next answer
}

type fieldName struct {
	canonical string
	kind      fieldKind
}

type fieldKind uint8

const (
	plainField  fieldKind = iota
	lengthField           // Content-Length
	hopField              // says something about the worker's connection, which is none of HTTP's
	badField
)

// parse returns the status, the fields except Content-Length and hop-by-hop
// ones, and Content-Length, -1 without one. The fields are valid until the
// next call.
func (a *answerHead) parse(text string, count int) (status int, fields []muru.Field, length int64, err error) {
	line, rest, more := strings.Cut(text, "\x00")
	status, err = parseStatus(line)
	if err != nil {
		return 0, nil, 0, err
	}
	a.fields = a.fields[:0]
	length = -1
	for n := 0; more; n++ {
		if n == count {
			return 0, nil, 0, protocolError("sent more header fields than the %d it declared", count)
		}
		var name, value string
		name, rest, more = strings.Cut(rest, "\x00")
		if !more {
			return 0, nil, 0, protocolError("sent the header field %.80q without a value", name)
		}
		value, rest, more = strings.Cut(rest, "\x00")
		known := a.name(name)
		if known.kind == badField {
			return 0, nil, 0, protocolError("sent a bad header name: %.80q", name)
		}
		if !isFieldValue(value) {
			return 0, nil, 0, protocolError("sent a line break or control character in the header %s: %.80q", known.canonical, value)
		}
		switch known.kind {
		case lengthField:
			if length, err = parseLength(value, length); err != nil {
				return 0, nil, 0, err
			}
		case plainField:
			a.fields = append(a.fields, muru.Field{Name: known.canonical, Value: strings.Trim(value, " \t")})
		}
		if !more && n+1 != count {
			return 0, nil, 0, protocolError("sent %d header fields of the %d it declared", n+1, count)
		}
	}
	if count > 0 && !strings.Contains(text, "\x00") {
		return 0, nil, 0, protocolError("sent no header fields of the %d it declared", count)
	}
	return status, a.fields, length, nil
}

func (a *answerHead) name(name string) fieldName {
	if known, ok := a.names[name]; ok {
		return known
	}
	known := fieldName{canonical: textproto.CanonicalMIMEHeaderKey(strings.Clone(name))}
	switch known.canonical {
	case "Content-Length":
		known.kind = lengthField
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		known.kind = hopField
	}
	if !isToken(name) {
		known.kind = badField
	}
	if a.names == nil {
		a.names = make(map[string]fieldName)
	}
	if len(a.names) < maxNames {
		a.names[strings.Clone(name)] = known
	}
	return known
}

// parseStatus parses "200 OK"; the reason is not kept. An interim status
// cannot be an answer.
func parseStatus(line string) (int, error) {
	digits, reason, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) != 3 || n < 200 || n > 599 || !isFieldValue(reason) {
		return 0, protocolError("sent a bad status: %.80q", line)
	}
	return n, nil
}

// parseLength parses a Content-Length that must agree with the one before.
func parseLength(value string, before int64) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || before >= 0 && before != int64(n) {
		return 0, protocolError("sent a bad Content-Length: %.80q", value)
	}
	return int64(n), nil
}

// hasNoBody reports whether an answer has no body by definition.
func hasNoBody(method string, status int) bool {
	return method == "HEAD" || status == 204 || status == 304
}

// isFieldValue reports whether s has no control characters but tabs.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s is an HTTP token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenChars[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenChars = func() (set [256]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		set[c] = true
	}
	return set
}()
