package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"muru"
)

func TestRequestsAreWrittenExactly(t *testing.T) {
	fields := func(kv ...string) (f []muru.Field) {
		for i := 0; i < len(kv); i += 2 {
			f = append(f, muru.Field{Name: kv[i], Value: kv[i+1]})
		}
		return f
	}
	body := func(s string) io.Reader { return strings.NewReader(s) }
	tests := []struct {
		name string
		x    *muru.Exchange
		want string
	}{
		{"plain", &muru.Exchange{Method: "GET", Target: "/a%20b?c=%0d", Host: "shop", Header: fields("Accept", "*/*", "X-Forwarded-For", "192.0.2.1")},
			"GET /a%20b?c=%0d HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"},
		{"absolute", &muru.Exchange{Method: "GET", Target: "http://other/a?b", Host: "shop"}, "GET /a?b HTTP/1.1\r\nHost: shop\r\n\r\n"},
		{"absolute root", &muru.Exchange{Method: "GET", Target: "HTTP://other", Host: "shop"}, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n"},
		{"absolute query", &muru.Exchange{Method: "GET", Target: "http://other?a", Host: "shop"}, "GET /?a HTTP/1.1\r\nHost: shop\r\n\r\n"},
		{"asterisk", &muru.Exchange{Method: "OPTIONS", Target: "*", Host: ""}, "OPTIONS * HTTP/1.1\r\nHost: \r\n\r\n"},
		{"hop by hop", &muru.Exchange{Method: "GET", Target: "/", Host: "shop", Header: fields(
			"Connection", "keep-alive, X-Forwarded-For", "Keep-Alive", "1", "Transfer-Encoding", "chunked", "transfer-encoding", "chunked",
			"CONTENT-LENGTH", "5", "Te", "trailers", "Upgrade", "h2c", "Host", "evil", "Proxy-Connection", "x", "Trailer", "X", "Expect", "100-continue",
			"X-Forwarded-For", "192.0.2.1")},
			"GET / HTTP/1.1\r\nHost: shop\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"},
		{"upgrade", &muru.Exchange{Method: "GET", Target: "/", Host: "shop", Upgrade: true, Header: fields("Connection", "keep-alive, upgrade", "Upgrade", "websocket")},
			"GET / HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"h2c", &muru.Exchange{Method: "GET", Target: "/", Host: "shop", Upgrade: true, Header: fields("Connection", "upgrade", "Upgrade", "foo, H2c", "Http2-Settings", "x")},
			"GET / HTTP/1.1\r\nHost: shop\r\n\r\n"},
		{"post without body", &muru.Exchange{Method: "POST", Target: "/", Host: "shop"}, "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n"},
		{"small body", &muru.Exchange{Method: "PUT", Target: "/", Host: "shop", Body: body("hello and more"), Length: 5},
			"PUT / HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\nhello"},
		{"chunked body", &muru.Exchange{Method: "PUT", Target: "/", Host: "shop", Body: body("hello, sixteen b"), Length: -1},
			"PUT / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhello, sixteen b\r\n0\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan string, 1)
			opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
				b := make([]byte, len(tt.want))
				n, _ := io.ReadFull(r, b)
				got <- string(b[:n])
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				if extra, _ := io.ReadAll(r); len(extra) > 0 {
					t.Errorf("%q was sent too", extra)
				}
			})
			c := client(t, opt)
			tt.x.Proto, tt.x.Answer = "HTTP/1.1", &recorder{}
			mustDo(t, c, tt.x)
			c.Close()
			if s := receive(t, got, "request"); s != tt.want {
				t.Errorf("got  %q\nwant %q", s, tt.want)
			}
		})
	}
}

func TestRequestsThatWouldSmuggleAreNotSent(t *testing.T) {
	ok := func() *muru.Exchange { return request("GET", "/", &recorder{}) }
	field := func(name, value string) func(*muru.Exchange) {
		return func(x *muru.Exchange) { x.Header = append(x.Header, muru.Field{Name: name, Value: value}) }
	}
	tests := map[string]func(*muru.Exchange){
		"line break in value":    field("X-A", "b\r\nX-Evil: 1"),
		"lf in value":            field("X-A", "b\nX-Evil: 1"),
		"cr in value":            field("X-A", "b\rX-Evil: 1"),
		"nul in value":           field("X-A", "b\x00"),
		"line break in name":     field("X-A\r\nX-Evil", "b"),
		"colon in name":          field("X-A:", "b"),
		"space in name":          field("Content-Length ", "5"),
		"empty name":             field("", "b"),
		"space in target":        func(x *muru.Exchange) { x.Target = "/ HTTP/1.1" },
		"line break in target":   func(x *muru.Exchange) { x.Target = "/\r\nX-Evil: 1" },
		"no target":              func(x *muru.Exchange) { x.Target = "" },
		"authority as target":    func(x *muru.Exchange) { x.Target = "host:443" },
		"relative target":        func(x *muru.Exchange) { x.Target = "index.html" },
		"connect":                func(x *muru.Exchange) { x.Method = "CONNECT" },
		"space in method":        func(x *muru.Exchange) { x.Method = "GET /evil" },
		"no method":              func(x *muru.Exchange) { x.Method = "" },
		"line break in host":     func(x *muru.Exchange) { x.Host = "shop\r\nX-Evil: 1" },
		"space in host":          func(x *muru.Exchange) { x.Host = "shop evil" },
		"line break in protocol": func(x *muru.Exchange) { x.Upgrade = true; field("Upgrade", "a\r\nX-Evil: 1")(x) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if b, _ := io.ReadAll(r); len(b) > 0 {
					t.Errorf("%q was sent", b)
				}
			})
			c := client(t, opt)
			x := ok()
			change(x)
			err := c.Do(within(t), x, Hooks{})
			if _, is := errors.AsType[*RequestError](err); !is || !errors.Is(err, muru.ErrMalformedBody) {
				t.Errorf("got %v, want a RequestError", err)
			}
			if idleCount(c) != 1 {
				t.Error("the unused connection was not kept")
			}
			c.Close()
		})
	}
}
