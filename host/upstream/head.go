package upstream

import (
	"bytes"
	"math"
	"net/textproto"
	"strings"

	"muru"
)

// maxFields bounds the fields of one head or trailer.
const maxFields = 256

// A head is a parsed answer head. Its fields are in canonical form and safe
// to send; those that only frame the answer or concern this connection are
// evaluated and removed.
type head struct {
	status    int
	fields    []muru.Field
	length    int64 // Content-Length, -1 without one
	chunked   bool
	keepAlive bool
	upgrade   string // the value of Upgrade
	odd       bool   // framing fields where none are allowed: do not reuse the connection
}

// parseHead parses an answer head with all its line ends. It appends the
// fields to dst. The strings of the result share one copy of text.
func parseHead(text []byte, dst []muru.Field) (head, error) {
	h := head{length: -1, fields: dst[:0]}
	all := string(text)
	line, rest, ok := cutLine(all)
	if !ok {
		return h, malformed("no status line")
	}
	minor, err := h.parseStatus(line)
	if err != nil {
		return h, err
	}
	var c connection
	c.keepAlive = minor == 1
	for {
		line, rest, ok = cutLine(rest)
		if !ok || line == "" {
			break
		}
		f, err := parseField(line)
		if err != nil {
			return h, err
		}
		if len(h.fields) == maxFields {
			return h, malformed("more than %d fields", maxFields)
		}
		h.fields = append(h.fields, f)
	}
	if !ok {
		return h, malformed("a head without an end")
	}
	return h, h.frame(minor, &c)
}

// cutLine cuts the first line off text, without its line end.
func cutLine(text string) (line, rest string, ok bool) {
	line, rest, ok = strings.Cut(text, "\n")
	if n := len(line); ok && n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest, ok
}

// parseStatus parses "HTTP/1.1 200 OK"; the reason phrase may be missing.
func (h *head) parseStatus(line string) (minor int, err error) {
	const prefix = "HTTP/1."
	bad := func() (int, error) { return 0, malformed("not a status line: %.60q", line) }
	if len(line) < len(prefix)+5 || line[:len(prefix)] != prefix {
		return bad()
	}
	minor = int(line[7]) - '0'
	if minor != 0 && minor != 1 || line[8] != ' ' {
		return bad()
	}
	for i := 9; i < 12; i++ {
		if line[i] < '0' || line[i] > '9' {
			return bad()
		}
		h.status = h.status*10 + int(line[i]-'0')
	}
	if h.status < 100 || len(line) > 12 && line[12] != ' ' || !validValue(line[12:]) {
		return bad()
	}
	return minor, nil
}

// parseField parses one field line. A line that begins with white space would
// continue the one before (obsolete folding) and is refused, as is white
// space before the colon.
func parseField(line string) (muru.Field, error) {
	colon := strings.IndexByte(line, ':')
	if colon <= 0 || !validName(line[:colon]) {
		return muru.Field{}, malformed("not a field line: %.60q", line)
	}
	value := strings.Trim(line[colon+1:], " \t") // not CR, which would hide there
	if !validValue(value) {
		return muru.Field{}, malformed("a control character in field %.60q", line[:colon])
	}
	return muru.Field{Name: canonicalName(line[:colon]), Value: value}, nil
}

// nameBytes are the characters of a token (RFC 9110, section 5.6.2).
var nameBytes = func() (table [256]bool) {
	for c := range 256 {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' && c < 128
		table[c] = letter || c >= '0' && c <= '9' || c != 0 && c < 128 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
	}
	return table
}()

func validName(name string) bool {
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return false
		}
	}
	return name != ""
}

// validValue reports whether value has no control characters but tabs. Bytes
// above 127 pass.
func validValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// canonicalName returns name in canonical form, without an allocation where
// it is so already or is a usual lower-case one.
func canonicalName(name string) string {
	upper := true
	for i := range len(name) {
		c := name[i]
		if upper && c >= 'a' && c <= 'z' || !upper && c >= 'A' && c <= 'Z' {
			if usual, ok := usualNames[name]; ok {
				return usual
			}
			return textproto.CanonicalMIMEHeaderKey(name)
		}
		upper = c == '-'
	}
	return name
}

// usualNames has the names that servers like to send in lower case.
var usualNames = func() map[string]string {
	names := make(map[string]string)
	for _, name := range []string{
		"Accept-Ranges", "Access-Control-Allow-Origin", "Age", "Cache-Control", "Connection",
		"Content-Encoding", "Content-Language", "Content-Length", "Content-Security-Policy",
		"Content-Type", "Date", "Etag", "Expires", "Keep-Alive", "Last-Modified", "Link",
		"Location", "Referrer-Policy", "Server", "Set-Cookie", "Strict-Transport-Security",
		"Transfer-Encoding", "Vary", "Via", "X-Content-Type-Options", "X-Frame-Options",
		"X-Powered-By", "X-Request-Id",
	} {
		names[strings.ToLower(name)] = name
	}
	names["ETag"] = "Etag"
	return names
}()

// parseLength parses a Content-Length: digits alone, up to 2⁶³-1.
func parseLength(value string) (int64, bool) {
	if value == "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(value) {
		d := int64(value[i]) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
