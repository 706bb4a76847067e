package wire

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"

	"muru"
)

// Gather reads a small body of known length (at most 64 KiB) of x into memory
// and puts it in the place of x.Body. [Link.Send] does the same, but then a
// client that sends slowly holds a thread of a worker meanwhile. A gathered
// body can be sent again. Other bodies are left alone. The error is a
// [*BodyError].
func Gather(x *muru.Exchange) error {
	if x.Body == nil || x.Length <= 0 || x.Length > smallBody {
		return nil
	}
	if _, done := x.Body.(*gatheredBody); done {
		return nil
	}
	b := &gatheredBody{data: make([]byte, x.Length)}
	if _, err := io.ReadFull(x.Body, b.data); err != nil {
		return &BodyError{Err: shortBody(err)}
	}
	b.Reset(b.data)
	x.Body = b
	return nil
}

// gatheredBody is a body that is in memory.
type gatheredBody struct {
	data []byte
	bytes.Reader
}

// shortBody says that a body ended too early.
func shortBody(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// requestHead writes the WSGI environ of requests. It remembers the CGI names
// of header fields. The zero value is ready for use, by one goroutine.
type requestHead struct {
	cgi map[string]string

	// Of the request being written:
	keys, values []string
	index        map[string]int // into keys, once there are many
	repeats      []repeat
}

// repeat is a further value of a field.
type repeat struct {
	at    int // in keys
	value string
}

// maxNames bounds what is remembered of the names that clients and
// applications choose.
const maxNames = 256

// append appends x's environ to b, as NUL-joined names and values, and
// returns the frame's flags. Values are not trusted: a NUL in one would add
// keys of the client's choice, so fields with one are dropped, and a path
// with one is quoted.
func (e *requestHead) append(b []byte, x *muru.Exchange) ([]byte, uint16) {
	var flags uint16
	path := x.Path
	if strings.IndexByte(path, 0) >= 0 {
		flags |= flagQuoted
		path = strings.ReplaceAll(strings.ReplaceAll(path, "%", "%25"), "\x00", "%00")
	}
	b = appendPair(b, "REQUEST_METHOD", x.Method)
	b = appendPair(b, "PATH_INFO", path)
	b = appendPair(b, "QUERY_STRING", x.Query)
	b = appendPair(b, "REQUEST_URI", x.Target)
	b = appendPair(b, "RAW_URI", x.Target)
	b = appendPair(b, "SERVER_PROTOCOL", x.Proto)
	b = appendPair(b, "wsgi.url_scheme", x.Scheme)
	host, port := splitAddress(x.Local)
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = map[string]string{"https": "443"}[x.Scheme]
		if port == "" {
			port = "80"
		}
	}
	b = appendPair(b, "SERVER_NAME", host)
	b = appendPair(b, "SERVER_PORT", port)
	host, port = splitAddress(x.Remote)
	b = appendPair(b, "REMOTE_ADDR", host)
	if port != "" {
		b = appendPair(b, "REMOTE_PORT", port)
	}
	if x.Host != "" {
		b = appendPair(b, "HTTP_HOST", x.Host)
	}
	if x.Length > 0 || x.Length == 0 && (x.Method == "POST" || x.Method == "PUT" || x.Method == "PATCH") {
		b = append(b, "CONTENT_LENGTH\x00"...)
		b = strconv.AppendInt(b, x.Length, 10)
		b = append(b, 0)
	}
	b = e.appendFields(b, x.Header)
	return b[:len(b)-1], flags
}

// appendFields appends header fields. Repeated ones become one value.
func (e *requestHead) appendFields(b []byte, fields []muru.Field) []byte {
	e.keys, e.values, e.repeats, e.index = e.keys[:0], e.values[:0], e.repeats[:0], nil
	for _, f := range fields {
		key := e.name(f.Name)
		if key == "" || strings.IndexByte(f.Value, 0) >= 0 {
			continue
		}
		if at := e.find(key); at >= 0 {
			e.repeats = append(e.repeats, repeat{at, f.Value})
			continue
		}
		if e.index != nil {
			e.index[key] = len(e.keys)
		}
		e.keys, e.values = append(e.keys, key), append(e.values, f.Value)
	}
	if len(e.repeats) > 0 {
		e.join()
	}
	for i, key := range e.keys {
		b = appendPair(b, key, e.values[i])
	}
	return b
}

// find returns where key is in keys, -1 if it is not. With many it uses a
// map, so that a client cannot make it cost their square.
func (e *requestHead) find(key string) int {
	if len(e.keys) < 32 {
		for i, k := range e.keys {
			if k == key {
				return i
			}
		}
		return -1
	}
	if e.index == nil {
		e.index = make(map[string]int)
		for i, k := range e.keys {
			e.index[k] = i
		}
	}
	if i, ok := e.index[key]; ok {
		return i
	}
	return -1
}

// join joins the values of repeated fields.
func (e *requestHead) join() {
	all := make(map[int][]string)
	for _, r := range e.repeats {
		if all[r.at] == nil {
			all[r.at] = []string{e.values[r.at]}
		}
		all[r.at] = append(all[r.at], r.value)
	}
	for at, values := range all {
		separator := ","
		if e.keys[at] == "HTTP_COOKIE" {
			separator = "; "
		}
		e.values[at] = strings.Join(values, separator)
	}
}

// name returns the environ's key of a header field, empty for a field that
// is not passed on: what has a place of its own, Proxy (programs that the
// application starts would take HTTP_PROXY for a setting), and names with an
// underscore (X_Real_Ip would be taken for X-Real-Ip).
func (e *requestHead) name(field string) string {
	if key, ok := e.cgi[field]; ok {
		return key
	}
	key := cgiName(field)
	if e.cgi == nil {
		e.cgi = make(map[string]string)
	}
	if len(e.cgi) < maxNames {
		e.cgi[strings.Clone(field)] = key
	}
	return key
}

func cgiName(field string) string {
	upper := strings.ToUpper(field)
	switch upper {
	case "HOST", "CONTENT-LENGTH", "PROXY":
		return ""
	case "CONTENT-TYPE":
		return "CONTENT_TYPE"
	}
	if !isToken(field) || strings.IndexByte(field, '_') >= 0 {
		return ""
	}
	return "HTTP_" + strings.ReplaceAll(upper, "-", "_")
}

// appendPair appends a name and a value; a NUL in the value ends it.
func appendPair(b []byte, name, value string) []byte {
	if i := strings.IndexByte(value, 0); i >= 0 {
		value = value[:i]
	}
	b = append(b, name...)
	b = append(b, 0)
	b = append(b, value...)
	return append(b, 0)
}

// splitAddress splits host:port; what has no port is all host.
func splitAddress(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, ""
	}
	return host, port
}
