package upstream

import (
	"strings"

	"muru"
)

// A connection is what a head's Connection fields say.
type connection struct {
	close, keepAlive bool
	named            []string // other tokens: fields that concern this connection only
}

// add evaluates the value of one Connection field.
func (c *connection) add(value string) {
	for token := range strings.SplitSeq(value, ",") {
		token = strings.Trim(token, " \t")
		switch {
		case strings.EqualFold(token, "close"):
			c.close = true
		case strings.EqualFold(token, "keep-alive"):
			c.keepAlive = true
		case token != "":
			c.named = append(c.named, token)
		}
	}
}

func (c *connection) names(field string) bool {
	for _, name := range c.named {
		if strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}

// frame evaluates the fields that frame the answer (RFC 9112, section 6.3)
// and removes those that concern this connection only.
func (h *head) frame(minor int, c *connection) error {
	codings := 0
	for _, f := range h.fields {
		switch f.Name {
		case "Connection":
			c.add(f.Value)
		case "Content-Length":
			n, ok := parseLength(f.Value)
			if !ok {
				return malformed("Content-Length: %.60q", f.Value)
			}
			if h.length >= 0 {
				return malformed("two Content-Length fields")
			}
			h.length = n
		case "Transfer-Encoding":
			codings++
			if codings > 1 || !strings.EqualFold(f.Value, "chunked") {
				return malformed("Transfer-Encoding: %.60q where only chunked is understood", f.Value)
			}
			h.chunked = true
		case "Upgrade":
			h.upgrade = f.Value
		}
	}
	switch {
	case h.chunked && minor == 0:
		return malformed("Transfer-Encoding in HTTP/1.0")
	case h.chunked && h.length >= 0:
		return malformed("Content-Length beside Transfer-Encoding")
	}
	h.keepAlive = c.keepAlive && !c.close
	h.odd = (h.status < 200 || h.status == 204) && (h.chunked || h.length > 0)
	h.removeHopByHop(c)
	return nil
}

// removeHopByHop removes the fields that are about this connection. Upgrade
// stays where it means something to the client: in 101 and 426.
func (h *head) removeHopByHop(c *connection) {
	keep := h.fields[:0]
	for _, f := range h.fields {
		switch f.Name {
		case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding":
			continue
		case "Upgrade":
			if h.status != 101 && h.status != 426 {
				continue
			}
		default:
			if len(c.named) > 0 && c.names(f.Name) {
				continue
			}
		}
		keep = append(keep, f)
	}
	h.fields = keep
	if h.status == 101 {
		h.fields = append(h.fields, muru.Field{Name: "Connection", Value: "Upgrade"})
	}
}

// bodyless reports whether an answer has no body whatever its fields say.
func bodyless(method string, status int) bool {
	return method == "HEAD" || status < 200 || status == 204 || status == 304
}
