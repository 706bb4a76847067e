package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"muru"
)

func TestAnswersAreReadAsTheyAreFramed(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, method, answer string
		status               int
		length               int64
		body, trailer        string
		reused               bool
	}{
		{"length", "GET", ok + "Content-Length: 5\r\n\r\nhello", 200, 5, "hello", "", true},
		{"empty", "GET", ok + "Content-Length: 0\r\n\r\n", 200, 0, "", "", true},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, 0, "", "", true},
		{"lf only", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, 2, "hi", "", true},
		{"chunked", "GET", ok + "Transfer-Encoding: Chunked\r\n\r\n3\r\nfoo\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", 200, -1, "foo0123456789", "", true},
		{"trailers", "GET", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 7\r\nContent-Length: 9\r\n\r\n", 200, -1, "a", "[{X-Sum 7}]", true},
		{"until close", "GET", ok + "Content-Type: text/plain\r\n\r\nto the end", 200, -1, "to the end", "", false},
		{"connection close", "GET", ok + "Connection: close\r\nContent-Length: 2\r\n\r\nhi", 200, 2, "hi", "", false},
		{"http/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, 2, "hi", "", false},
		{"http/1.0 keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", 200, 2, "hi", "", true},
		{"head", "HEAD", ok + "Content-Length: 500\r\n\r\n", 200, 500, "", "", true},
		{"head chunked", "HEAD", ok + "Transfer-Encoding: chunked\r\n\r\n", 200, -1, "", "", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, 0, "", "", true},
		{"204 with length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", 204, 0, "", "", false},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, 9, "", "", true},
		{"more than asked", "GET", ok + "Content-Length: 2\r\n\r\nhi there", 200, 2, "hi", "", false},
		{"interim", "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi", 200, 2, "hi", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keep := tt.name != "until close"
			c := client(t, answering(t, tt.answer, keep))
			a := mustDo(t, c, request(tt.method, "/", &recorder{}))
			if a.status != tt.status || a.length != tt.length || string(a.body) != tt.body {
				t.Errorf("got %d, length %d, body %q", a.status, a.length, a.body)
			}
			if got := fmt.Sprint(a.trailer); tt.trailer != "" && got != tt.trailer {
				t.Errorf("got trailers %s, want %s", got, tt.trailer)
			}
			if got := idleCount(c) == 1; got != tt.reused {
				t.Errorf("connection kept: %v, want %v", got, tt.reused)
			}
			if tt.name == "interim" && fmt.Sprint(a.interim) != "[103 [{Link </a>}]]" {
				t.Errorf("got interim answers %v", a.interim)
			}
		})
	}
}

func TestMalformedAnswersAreRefused(t *testing.T) {
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct{ name, answer, want string }{
		{"other protocol", "220 mail.example ESMTP\r\n", "not HTTP/1.1"},
		{"tls alert", "\x15\x03\x01\x00\x02\x02\x16", "not HTTP/1.1"},
		{"http2", "HTTP/2 200\r\n\r\n", "not HTTP/1.1"},
		{"minor version", "HTTP/1.2 200 OK\r\n\r\n", "not a status line"},
		{"leading empty line", "\r\nHTTP/1.1 200 OK\r\n\r\n", "not HTTP/1.1"},
		{"two digits", "HTTP/1.1 20 OK\r\n\r\n", "not a status line"},
		{"four digits", "HTTP/1.1 2000 OK\r\n\r\n", "not a status line"},
		{"status below 100", "HTTP/1.1 099 OK\r\n\r\n", "not a status line"},
		{"control in reason", "HTTP/1.1 200 O\x01K\r\n\r\n", "not a status line"},
		{"bare CR in reason", "HTTP/1.1 200 O\rK\r\n\r\n", "not a status line"},
		{"folded", ok + "A: b\r\n c\r\n\r\n", "not a field line"},
		{"space before colon", ok + "Content-Length : 5\r\n\r\nhello", "not a field line"},
		{"no colon", ok + "Hello\r\n\r\n", "not a field line"},
		{"no name", ok + ": x\r\n\r\n", "not a field line"},
		{"bare CR in value", ok + "A: b\rX: c\r\n\r\n", "a control character"},
		{"bare CR before end", ok + "A: b\r\r\n\r\n", ""},
		{"NUL in value", ok + "A: b\x00\r\n\r\n", "a control character"},
		{"two equal lengths", ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "two Content-Length"},
		{"two lengths", ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "two Content-Length"},
		{"list of lengths", ok + "Content-Length: 2, 2\r\n\r\nhi", "Content-Length"},
		{"signed length", ok + "Content-Length: +2\r\n\r\nhi", "Content-Length"},
		{"negative length", ok + "Content-Length: -2\r\n\r\nhi", "Content-Length"},
		{"empty length", ok + "Content-Length:\r\n\r\nhi", "Content-Length"},
		{"hex length", ok + "Content-Length: 0x2\r\n\r\nhi", "Content-Length"},
		{"length past int64", ok + "Content-Length: 9223372036854775808\r\n\r\nhi", "Content-Length"},
		{"length and chunked", ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "beside"},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"},
		{"chunked list", ok + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"},
		{"gzip coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"},
		{"identity", ok + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi", "Transfer-Encoding"},
		{"vertical tab", ok + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", "a control character"},
		{"chunked in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.0"},
		{"large head", ok + "A: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", "64 KB"},
		{"many fields", ok + strings.Repeat("A: b\r\n", maxFields+1) + "\r\n", "fields"},
		{"many interim", strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", maxInterim+1) + ok + "\r\n", "interim"},
		{"interim with body", "HTTP/1.1 103 Early\r\nContent-Length: 3\r\n\r\nabc" + ok + "\r\n", "interim"},
		{"unasked 101", "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "101"},
		{"closed at once", "", "before an answer"},
		{"cut in head", ok + "Content-Le", "inside its head"},
		{"cut in body", ok + "Content-Length: 10\r\n\r\nhello", "inside its body"},
		{"cut in chunk", chunked + "5\r\nhel", "inside its body"},
		{"cut before last chunk", chunked + "5\r\nhello\r\n", "inside its body"},
		{"cut in trailer", chunked + "0\r\nA: b\r\n", "inside its body"},
		{"chunk too long", chunked + "3\r\nhello\r\n0\r\n\r\n", "longer than its size"},
		{"chunk ends in LF", chunked + "5\r\nhello\n0\r\n\r\n", "longer than its size"},
		{"chunk line ends in LF", chunked + "5\nhello\r\n0\r\n\r\n", "without CRLF"},
		{"CR in chunk line", chunked + "5;a\rb\r\nhello\r\n0\r\n\r\n", "without CRLF"},
		{"LF in extension", chunked + "5;a\n\r\nhello\r\n0\r\n\r\n", "without CRLF"},
		{"empty chunk line", chunked + "\r\nhello\r\n", "not a chunk's size"},
		{"signed chunk", chunked + "+5\r\nhello\r\n0\r\n\r\n", "not a chunk's size"},
		{"0x chunk", chunked + "0x5\r\nhello\r\n0\r\n\r\n", "not a chunk's size"},
		{"space before size", chunked + " 5\r\nhello\r\n0\r\n\r\n", "not a chunk's size"},
		{"chunk size overflow", chunked + "10000000000000005\r\nhello\r\n0\r\n\r\n", "not a chunk's size"},
		{"chunk size of zeros", chunked + strings.Repeat("0", 16) + "5\r\nhello\r\n0\r\n\r\n", "not a chunk's size"},
		{"long extension", chunked + "5;" + strings.Repeat("x", 9000) + "\r\nhello\r\n0\r\n\r\n", "chunked coding"},
		{"many extensions", chunked + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 40) + "0\r\n\r\n", "little but"},
		{"bad trailer", chunked + "0\r\nA : b\r\n\r\n", "not a field line"},
		{"large trailer", chunked + "0\r\n" + strings.Repeat("A: "+strings.Repeat("b", 4000)+"\r\n", 10) + "\r\n", "chunked coding"},
		{"many trailers", chunked + "0\r\n" + strings.Repeat("A: b\r\n", maxFields+1) + "\r\n", "trailer fields"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, answering(t, tt.answer, false))
			err := c.Do(within(t), request("GET", "/", &recorder{}), Hooks{})
			wantReset(t, err, tt.want)
			if idleCount(c) != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestGarbageIsRefusedWithoutWaitingForMore(t *testing.T) {
	hold := make(chan struct{})
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		io.WriteString(c, "SSH-2.0-x")
		<-hold
	})
	defer close(hold)
	wantReset(t, client(t, opt).Do(within(t), request("GET", "/", &recorder{}), Hooks{}), "not HTTP/1.1")
}

func TestHopByHopFieldsEndHere(t *testing.T) {
	answer := "HTTP/1.1 200 OK\r\nconnection: X-Private, keep-alive\r\nx-private: 1\r\nKeep-Alive: timeout=5\r\n" +
		"Upgrade: h2c\r\nProxy-Connection: close\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nETag: \"x\"\r\nX-Odd:\r\nContent-Length: 0\r\n\r\n"
	a := mustDo(t, client(t, answering(t, answer, true)), request("GET", "/", &recorder{}))
	want := []muru.Field{{Name: "Set-Cookie", Value: "a=1"}, {Name: "Set-Cookie", Value: "b=2"}, {Name: "Etag", Value: `"x"`}, {Name: "X-Odd"}}
	if fmt.Sprint(a.header) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", a.header, want)
	}
}

func TestSlowBytesOfAnAnswerAreWaitedFor(t *testing.T) {
	answer := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n"
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		for i := range len(answer) {
			io.WriteString(c, answer[i:i+1])
		}
		r.ReadByte()
	})
	c := client(t, opt)
	a := mustDo(t, c, request("GET", "/", &recorder{}))
	if string(a.body) != "hello world" || get(a.trailer, "X-Sum") != "1" || idleCount(c) != 1 {
		t.Errorf("got %q, trailers %v, %d idle", a.body, a.trailer, idleCount(c))
	}
}

func TestLargeAnswersOfEveryFramingArrive(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", 3<<16/16*5) // 960 KB
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		case "/close":
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, want)
	})
	c := client(t, opt)
	for _, path := range []string{"/length", "/chunked", "/close", "/length"} {
		a := mustDo(t, c, request("GET", path, &recorder{}))
		if string(a.body) != want {
			t.Errorf("%s: got %d bytes, want %d", path, len(a.body), len(want))
		}
	}
}

func TestHeadOfManyKilobytesArrives(t *testing.T) {
	value := strings.Repeat("v", 50<<10)
	answer := "HTTP/1.1 200 OK\r\nX-Large: " + value + "\r\nContent-Length: 2\r\n\r\nhi"
	c := client(t, answering(t, answer, true))
	for range 2 {
		a := mustDo(t, c, request("GET", "/", &recorder{}))
		if get(a.header, "X-Large") != value || string(a.body) != "hi" {
			t.Fatalf("got a value of %d bytes, body %q", len(get(a.header, "X-Large")), a.body)
		}
	}
}

func TestEarlyHintsAndTrailersOfNetHTTPArrive(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	})
	c := client(t, opt)
	for range 2 {
		a := mustDo(t, c, request("GET", "/", &recorder{}))
		if fmt.Sprint(a.interim) != "[103 [{Link </style.css>; rel=preload}]]" || string(a.body) != "body" ||
			get(a.header, "Trailer") != "X-Sum" || get(a.trailer, "X-Sum") != "42" || get(a.trailer, "X-Late") != "1" {
			t.Errorf("got %v, %v, %q, %v", a.interim, a.header, a.body, a.trailer)
		}
		if got := strings.Join(a.log, ", "); got != "inform, head, write 4, trailer" && got != "inform, head, flush, write 4, trailer" {
			t.Errorf("got calls %s", got)
		}
	}
}
