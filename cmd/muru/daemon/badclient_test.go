package daemon

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"

	"muru"
)

// send writes raw bytes to the edge and returns what came back until the
// connection ended or was silent.
func (s *stage) send(raw string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, raw) // a refusal may come in the middle of it
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "no answer: " + err.Error()
	}
	body, _ := io.ReadAll(r.Body)
	return r.Status + "\n" + string(body)
}

// Where net/http answers by itself there is a status and no page.
func TestRequestThatCannotBeUnderstoodIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`app("shop", max_body = "1KiB")`)
	for _, c := range []struct{ name, request, want string }{
		{"no HTTP", "hello\r\n\r\n", `400 Bad Request\n400 Bad Request`},
		{"no host", "GET / HTTP/1.1\r\n\r\n", `400 Bad Request: missing required Host header\n.*`},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", `400 Bad Request\n400 Bad Request`},
		{"odd header", "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", `400 Bad Request: invalid header name\n.*`},
		{"control character", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", `400 Bad Request\n400 Bad Request`},
		{"two lengths", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", `400 Bad Request\n400 Bad Request`},
		{"odd length", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", `400 Bad Request\n400 Bad Request`},
		{"length and chunks", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", `200 OK\n0`},
		{"odd coding", "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", `501 Not Implemented\nUnsupported transfer encoding`},
		{"odd chunk", "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", `400 Bad Request\n400 Bad Request\nreason: malformed\nrequest id: \w{26}\nThe request cannot be understood.\n`},
		{"odd escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", `400 Bad Request\n400 Bad Request`},
		{"odd version", "GET / HTTP/3.7\r\nHost: a\r\n\r\n", `505 HTTP Version Not Supported: unsupported protocol version\n.*`},
		{"head of two megabytes", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", `431 Request Header Fields Too Large\n431 Request Header Fields Too Large`},
		{"body too large, announced", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n" + strings.Repeat("x", 1025), `413 Request Entity Too Large\n413 Request Entity Too Large\nreason: body_too_large\nrequest id: \w{26}\nThe request's body is too large.\n`},
		{"body too large, in chunks", "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n" + strings.Repeat("x", 1025) + "\r\n0\r\n\r\n", `413 Request Entity Too Large\n413 Request Entity Too Large\nreason: body_too_large\nrequest id: \w{26}\nThe request's body is too large.\n`},
		{"body of the limit", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024), `200 OK\n1024`},
		{"an unknown release", "GET / HTTP/1.1\r\nHost: a\r\nMuru-Preview: r9\r\n\r\n", `404 Not Found\n404 Not Found\nreason: no_such_release\nrequest id: \w{26}\nThere is no such release.\n`},
		{"no release", "GET / HTTP/1.1\r\nHost: a\r\nMuru-Preview: kettle\r\n\r\n", `404 Not Found\n404 Not Found\nreason: no_such_release\n.*\nThere is no such release.\n`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.on(t)
			if got := s.send(c.request); !regexp.MustCompile(`^` + c.want + `$`).MatchString(got) {
				t.Errorf("answered %q, want %q", got, c.want)
			}
			s.serves("shop@r1")
		})
	}
}

func TestClientThatLeavesHarmsNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct{ name, request string }{
		{"before the answer", "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"in its head", "GET / HTTP/1.1\r\nHos"},
		{"in its body", "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"},
		{"in a chunk", "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf"},
		{"without a word", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.on(t)
			for range 10 {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, c.request); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			s.serves("shop@r1")
		})
	}
	id := muru.ReleaseID{App: "shop", Number: 1}
	if !visitortest.Within(5*time.Second, func() bool { n, _, _ := s.host.InFlight(id); return n == 0 }) {
		t.Error("requests of clients that left are still in the release")
	}
	if c := s.edge.Counts(id); c.ServerErrors != 0 {
		t.Errorf("counted as the release's errors: %+v", c)
	}
	if crashed := s.events("worker.crashed"); len(crashed) > 0 {
		t.Errorf("%q", crashed)
	}
}
