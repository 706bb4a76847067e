package upstream

import (
	"net/textproto"
	"strconv"
	"strings"

	"muru"
)

// firstWrite is the largest body that is sent together with its head. A
// larger one, or one of unknown length, is sent by a goroutine of its own.
const firstWrite = 16 << 10

// hasBody reports whether x has a body to send.
func hasBody(x *muru.Exchange) bool { return x.Body != nil && x.Length != 0 }

// expects reports whether the client waits to be told to send its body.
func expects(x *muru.Exchange) bool {
	if !hasBody(x) || x.Proto == "HTTP/1.0" {
		return false
	}
	for _, f := range x.Header {
		if f.Name == "Expect" && strings.EqualFold(f.Value, "100-continue") {
			return true
		}
	}
	return false
}

// build puts what is written first into the connection's out: the head and a
// small body.
func (c *conn) build(x *muru.Exchange) error {
	out, err := appendRequest(c.out[:0], x)
	if err != nil {
		return err
	}
	if hasBody(x) && inline(x) {
		out, err = readInline(out, x)
	}
	c.out = out
	return err
}

// appendRequest appends the head of x to out. The target is sent as it is,
// but in origin form; fields that concern one connection are left out and
// written anew. It does not follow names listed in Connection: whoever put x
// together did, before adding fields of its own that a client must not
// remove, such as X-Forwarded-For.
func appendRequest(out []byte, x *muru.Exchange) ([]byte, error) {
	if !validName(x.Method) || x.Method == "CONNECT" {
		return nil, &RequestError{"method " + strconv.Quote(x.Method)}
	}
	target, ok := originForm(x.Target)
	if !ok {
		return nil, &RequestError{"target " + strconv.Quote(x.Target)}
	}
	if !validHost(x.Host) {
		return nil, &RequestError{"host " + strconv.Quote(x.Host)}
	}
	out = append(out, x.Method...)
	out = append(out, ' ')
	out = append(out, target...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, x.Host...)
	out = append(out, "\r\n"...)
	protocol := ""
	if x.Upgrade {
		protocol = upgradeTo(x)
	}
	for i := range x.Header {
		f := &x.Header[i]
		if !sendField(f.Name) {
			continue
		}
		if !validName(f.Name) || !safeValue(f.Value) {
			return nil, &RequestError{"field " + strconv.Quote(f.Name)}
		}
		out = appendField(out, f.Name, f.Value)
	}
	if protocol != "" {
		if !safeValue(protocol) {
			return nil, &RequestError{"field \"Upgrade\""}
		}
		out = append(out, "Connection: Upgrade\r\n"...)
		out = appendField(out, "Upgrade", protocol)
	}
	return append(appendFraming(out, x), "\r\n"...), nil
}

// appendFraming appends the fields that say where the body ends.
func appendFraming(out []byte, x *muru.Exchange) []byte {
	switch {
	case !hasBody(x):
		// Servers wait for a body, or refuse, without a length here.
		if x.Method == "POST" || x.Method == "PUT" || x.Method == "PATCH" {
			out = append(out, "Content-Length: 0\r\n"...)
		}
		return out
	case x.Length > 0:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, x.Length, 10)
		out = append(out, "\r\n"...)
	default:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	if expects(x) {
		out = append(out, "Expect: 100-continue\r\n"...)
	}
	return out
}

func appendField(out []byte, name, value string) []byte {
	out = append(out, name...)
	out = append(out, ": "...)
	out = append(out, value...)
	return append(out, "\r\n"...)
}

// sendField reports whether a field of an exchange is sent as it is. Names
// that are not in canonical form are looked at again, so that no spelling
// gets past.
func sendField(name string) bool {
	switch canonicalName(name) {
	case "Host", "Connection", "Content-Length", "Expect", "Http2-Settings", "Keep-Alive", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}

// upgradeTo returns the protocols that the client offers. h2c is none: behind
// it further requests would pass unseen, and RFC 9113 has dropped it.
func upgradeTo(x *muru.Exchange) string {
	for _, f := range x.Header {
		if f.Name != "Upgrade" {
			continue
		}
		for token := range strings.SplitSeq(f.Value, ",") {
			if strings.EqualFold(textproto.TrimString(token), "h2c") {
				return ""
			}
		}
		return f.Value
	}
	return ""
}

// originForm returns the target without scheme and authority, as servers
// expect it, and whether it can be sent at all.
func originForm(target string) (string, bool) {
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return "", false
		}
	}
	if target == "" {
		return "", false
	}
	if target[0] == '/' || target == "*" {
		return target, true
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", false
	}
	path := strings.IndexAny(rest, "/?")
	switch {
	case path < 0:
		return "/", true
	case rest[path] == '?':
		return "/" + rest[path:], true
	}
	return rest[path:], true
}

func validHost(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case c <= ' ', c >= 0x7f, c == '/', c == '\\', c == '@', c == '?', c == '#', c == ',':
			return false
		}
	}
	return true
}

// safeValue reports whether value cannot end its line. The edge has checked
// the rest; these three searches cost next to nothing.
func safeValue(value string) bool {
	return strings.IndexByte(value, '\n') < 0 && strings.IndexByte(value, '\r') < 0 && strings.IndexByte(value, 0) < 0
}
