package host

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"

	"muru"
)

// httpClientOver is a client whose only connection is c.
func httpClientOver(c net.Conn) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}}
}

// readHandshake reads a WebSocket client's request and returns its header as
// an edge passes it on.
func readHandshake(t *testing.T, c net.Conn) []muru.Field {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		t.Fatal(err)
	}
	var fields []muru.Field
	for name, values := range r.Header {
		for _, v := range values {
			fields = append(fields, muru.Field{Name: name, Value: v})
		}
	}
	return fields
}
