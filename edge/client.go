package edge

import (
	"net/http"

	"muru"
)

// A client is what the edge knows of who sent a request. It is used by the
// request's goroutine alone.
type client struct {
	header  http.Header
	address string // without port, as trusted proxies tell it
	minted  string // the id made for it, so that a second pick finds the same
}

// identity returns the id that tells the client apart on a route with this
// key. A client without the key's header or cookie falls back to muru_id. It
// is empty when the client has none.
func (c *client) identity(key muru.Key) string {
	switch key.Kind {
	case muru.KeyHeader:
		if values := c.header[http.CanonicalHeaderKey(key.Name)]; len(values) > 0 && values[0] != "" {
			return values[0]
		}
	case muru.KeyCookie:
		if value := cookieValue(c.header["Cookie"], key.Name); value != "" {
			return value
		}
	case muru.KeyAddress:
		return c.address
	}
	if id := cookieValue(c.header["Cookie"], idCookie); isClientID(id) {
		return id
	}
	return ""
}

// mint returns the id of a client that has none. It becomes its muru_id.
func (c *client) mint() string {
	if c.minted == "" {
		c.minted = newClientID()
	}
	return c.minted
}

// isClientID reports whether a muru_id can be one: we make 26 letters and
// digits, and take up to 128 characters that need no quoting, so that people
// can set their own in tests. Anything else is replaced.
func isClientID(id string) bool {
	for i := range len(id) {
		c := id[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && c != '-' && c != '_' && c != '.' && c != '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}
