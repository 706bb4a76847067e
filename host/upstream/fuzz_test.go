package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"muru"
)

// A bytesConn is a server that has sent all it will ever send, in pieces.
type bytesConn struct {
	net.Conn // nil
	data     []byte
	piece    int
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.data)
	c.data = c.data[n:]
	return n, nil
}

func (c *bytesConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// answerOf runs one request against what a server sends.
func answerOf(method string, data []byte, piece int) (a *recorder, reusable bool, err error) {
	a = &recorder{}
	k := call{ctx: context.Background(), c: newConn(&bytesConn{data: data, piece: piece}), x: request(method, "/", a)}
	_, err = k.run()
	return a, k.reusable, err
}

func FuzzNothingIsAcceptedThatNetHTTPRefuses(f *testing.F) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, seed := range []string{
		hi,
		"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\nA:b\nContent-Length:1\n\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 999 \x80\r\nSet-Cookie: a\r\nset-cookie: b\r\nConnection: close\r\n\r\n",
		chunked + "5\r\nhello\r\n0\r\n\r\n",
		chunked + "5 ;a=\"b\"\r\nhello\r\n00\r\nX-Sum: 1\r\n\r\nrest",
		chunked + "5\nhello\n0\n\n",
		chunked + "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		chunked + "-1\r\nhello\r\n0\r\n\r\n",
		chunked + "1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed), false, uint16(1000))
		f.Add([]byte(seed), true, uint16(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, head bool, piece uint16) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		a, reusable, err := answerOf(method, data, 1+int(piece))
		if err != nil {
			if !errors.Is(err, ErrReset) {
				t.Fatalf("got error %v, which is not ErrReset", err)
			}
			return
		}
		checkFields(t, a.header)
		checkFields(t, a.trailer)
		in := bufio.NewReader(bytes.NewReader(data))
		var res *http.Response
		for res == nil || res.StatusCode < 200 {
			if res, err = http.ReadResponse(in, &http.Request{Method: method}); err != nil {
				t.Fatalf("accepted %q, which net/http refuses: %v", data, err)
			}
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("accepted %q, whose body net/http refuses: %v", data, err)
		}
		if res.StatusCode != a.status || !bytes.Equal(body, a.body) {
			t.Fatalf("got %d %q, net/http %d %q", a.status, a.body, res.StatusCode, body)
		}
		// Bytes that arrive later are found at the connection's next use.
		if reusable && (res.Close || in.Buffered() > 0 && int(piece) >= len(data)) {
			t.Fatalf("kept after %q; net/http: close %v, %d bytes left", data, res.Close, in.Buffered())
		}
		for _, f := range a.header {
			if len(res.Header[f.Name]) == 0 && f.Name != "Trailer" {
				t.Fatalf("field %q is none for net/http: %q", f, res.Header)
			}
		}
		// How the bytes were cut into reads makes no difference.
		if b, _, err := answerOf(method, data, 3); err != nil || !bytes.Equal(a.body, b.body) {
			t.Fatalf("in other pieces: %v %q", err, b.body)
		}
	})
}

func checkFields(t *testing.T, fields []muru.Field) {
	for _, f := range fields {
		if !validName(f.Name) || !validValue(f.Value) || !safeValue(f.Value) {
			t.Fatalf("passed on field %q", f)
		}
		switch f.Name {
		case "Connection", "Content-Length", "Transfer-Encoding", "Keep-Alive":
			t.Fatalf("passed on %q", f)
		}
	}
}

func FuzzRequestsHaveOneHeadHoweverTheyAreMade(f *testing.F) {
	f.Add("GET", "/a?b", "shop:80", "Accept", "*/*", false)
	f.Add("POST", "http://x/y", "", "X-A", "b\r\nc: d", true)
	f.Add("GET", "/", "shop", "Upgrade", "websocket", true)
	f.Add("GET", "/", "shop", "content-length", "3", false)
	f.Fuzz(func(t *testing.T, method, target, host, name, value string, upgrade bool) {
		x := &muru.Exchange{Method: method, Target: target, Host: host, Upgrade: upgrade, Header: []muru.Field{{Name: name, Value: value}}}
		out, err := appendRequest(nil, x)
		if err != nil {
			return
		}
		if i := bytes.Index(out, []byte("\r\n\r\n")); i != len(out)-4 {
			t.Fatalf("%q has more than one head", out)
		}
		if lines := bytes.Count(out, []byte("\n")); lines > 6 || bytes.Count(out, []byte("\r")) != lines {
			t.Fatalf("%q has %d lines", out, lines)
		}
		first, _, _ := bytes.Cut(out, []byte("\r\n"))
		if bytes.Count(first, []byte(" ")) != 2 {
			t.Fatalf("request line %q", first)
		}
	})
}
