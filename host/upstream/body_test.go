package upstream

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"muru"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A stalled body gives n bytes and then blocks until it is interrupted, as
// the edge's bodies can be, or until the test ends.
type stalled struct {
	n       int
	blocked chan struct{}
	once    sync.Once
	cut     chan struct{}
}

func newStalled(t *testing.T, n int) *stalled {
	s := &stalled{n: n, blocked: make(chan struct{}, 1), cut: make(chan struct{})}
	t.Cleanup(func() { s.SetReadDeadline(time.Time{}) })
	return s
}

func (s *stalled) Read(p []byte) (int, error) {
	if s.n > 0 {
		n := min(s.n, len(p))
		s.n -= n
		return n, nil
	}
	select {
	case s.blocked <- struct{}{}:
	default:
	}
	<-s.cut
	return 0, os.ErrDeadlineExceeded
}

func (s *stalled) SetReadDeadline(time.Time) error {
	s.once.Do(func() { close(s.cut) })
	return nil
}

func TestUploadsOfEveryFramingArrive(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %v %d %v %x", r.ContentLength, r.TransferEncoding, n, err, h.Sum(nil))
	})
	c := client(t, opt)
	data := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	for _, size := range []int{1, 100, firstWrite, firstWrite + 1, 100_000, 3 << 20} {
		sum := sha256.Sum256(data[:size])
		for _, length := range []int64{int64(size), -1} {
			body := iotest.DataErrReader(strings.NewReader(string(data[:size])))
			a := mustDo(t, c, upload("POST", body, length, &recorder{}))
			coding := "[]"
			if length < 0 {
				coding = "[chunked]"
			}
			want := fmt.Sprintf("%d %s %d <nil> %x", length, coding, size, sum)
			if string(a.body) != want {
				t.Errorf("%d bytes: got %s, want %s", size, a.body, want)
			}
			if idleCount(c) != 1 {
				t.Errorf("%d bytes, length %d: the connection was not kept", size, length)
			}
		}
	}
}

func TestEmptyBodies(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%v %v %q %v", r.Header["Content-Length"], r.TransferEncoding, b, err)
	})
	c := client(t, opt)
	if a := mustDo(t, c, upload("POST", strings.NewReader(""), -1, &recorder{})); string(a.body) != `[] [chunked] "" <nil>` {
		t.Errorf("unknown length: got %s", a.body)
	}
	if a := mustDo(t, c, request("DELETE", "/", &recorder{})); string(a.body) != `[] [] "" <nil>` {
		t.Errorf("no body: got %s", a.body)
	}
}

func TestServerMayAnswerBeforeItHasReadTheBody(t *testing.T) {
	// The server never reads the body, so that every buffer between fills up.
	hold := make(chan struct{})
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nless")
		<-hold
	})
	defer close(hold)
	for name, body := range map[string]func() io.Reader{
		"client sends on": func() io.Reader { return endless{} },
		"client waits":    func() io.Reader { return newStalled(t, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, opt)
			a := &recorder{flushed: make(chan string, 10)}
			if err := c.Do(within(t), upload("POST", body(), 1<<40, a), Hooks{}); err != nil {
				t.Fatal(err)
			}
			if a.status != 413 || string(a.body) != "less" || len(a.flushed) == 0 {
				t.Errorf("got %d %q, flushed %d times", a.status, a.body, len(a.flushed))
			}
			if idleCount(c) != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestBodyAndAnswerStreamAtTheSameTime(t *testing.T) {
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		lines := bufio.NewScanner(req.Body)
		for lines.Scan() {
			fmt.Fprintf(c, "%x\r\necho %s\n\r\n", len(lines.Text())+6, lines.Text())
		}
		io.WriteString(c, "0\r\n\r\n")
		r.ReadByte()
	})
	c := client(t, opt)
	body, say := io.Pipe()
	a := &recorder{flushed: make(chan string, 10)}
	done := make(chan error, 1)
	go func() { done <- c.Do(within(t), upload("POST", body, -1, a), Hooks{}) }()
	if got := receive(t, a.flushed, "head before any of the body"); got != "" {
		t.Fatalf("got %q", got)
	}
	want := ""
	for _, word := range []string{"one", "two", "three"} {
		fmt.Fprintln(say, word)
		want += "echo " + word + "\n"
		if got := receive(t, a.flushed, "echo"); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	say.Close()
	if err := receive(t, done, "end"); err != nil {
		t.Fatal(err)
	}
	if idleCount(c) != 1 {
		t.Error("the connection was not kept")
	}
}

func TestFailuresOfTheBodyAreToldApart(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	broken := errors.New("connection reset by client")
	for _, tt := range []struct {
		name   string
		err    error
		length int64
		want   error
	}{
		{"too large, chunked", muru.ErrBodyTooLarge, -1, muru.ErrBodyTooLarge},
		{"too large, long", muru.ErrBodyTooLarge, 1 << 20, muru.ErrBodyTooLarge},
		{"too slow, long", muru.ErrBodyTooSlow, 1 << 20, muru.ErrBodyTooSlow},
		{"malformed", fmt.Errorf("chunk: %w", muru.ErrMalformedBody), -1, muru.ErrMalformedBody},
		{"broken", broken, 1 << 20, muru.ErrClientGone},
		{"broken, small", broken, 100, muru.ErrClientGone},
		{"cut", io.ErrUnexpectedEOF, 100, muru.ErrClientGone},
		{"short", io.EOF, 1 << 20, muru.ErrMalformedBody},
		{"short, small", io.EOF, 100, muru.ErrMalformedBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, opt)
			body := io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(tt.err))
			err := c.Do(within(t), upload("POST", body, tt.length, &recorder{}), Hooks{})
			if !errors.Is(err, tt.want) || errors.Is(err, ErrReset) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if small := tt.length == 100; small != (idleCount(c) == 1) {
				t.Errorf("%d connections kept; it is unused only when the body was small", idleCount(c))
			}
		})
	}
}

func TestExpectationIsPassedOnAndMet(t *testing.T) {
	asked := make(chan bool, 1)
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			asked <- req.Header.Get("Expect") == "100-continue" && r.Buffered() == 0
			switch req.URL.Path {
			case "/continue":
				io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			case "/refuse":
				io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
				r.ReadByte()
				return
			}
			b, _ := io.ReadAll(req.Body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		}
	})
	for _, tt := range []struct {
		path   string
		status int
		body   string
		read   bool
		kept   int
	}{
		{"/continue", 200, "payload", true, 1},
		{"/silent", 200, "payload", true, 1},
		{"/refuse", 401, "no", false, 0},
	} {
		t.Run(tt.path, func(t *testing.T) {
			c := client(t, opt)
			body := strings.NewReader("payload")
			a := &recorder{}
			x := upload("POST", body, 7, a)
			x.Target = tt.path
			x.Header = append(x.Header, muru.Field{Name: "Expect", Value: "100-Continue"})
			mustDo(t, c, x)
			if !<-asked {
				t.Error("the server did not see the expectation, or saw the body with it")
			}
			if a.status != tt.status || string(a.body) != tt.body || (body.Len() == 0) != tt.read {
				t.Errorf("got %d %q, %d bytes of the body not read", a.status, a.body, body.Len())
			}
			if idleCount(c) != tt.kept {
				t.Errorf("%d connections kept, want %d", idleCount(c), tt.kept)
			}
			if tt.path == "/continue" && fmt.Sprint(a.interim) != "[103 [{Link </a>}]]" {
				t.Errorf("got interim answers %v", a.interim)
			}
		})
	}
}

func TestClientThatLeaves(t *testing.T) {
	left := errors.New("write: broken pipe")
	ended := make(chan string, 1)
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		switch req.URL.Path {
		case "/small":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000))
		case "/large":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n")
			for err == nil {
				_, err = io.WriteString(c, strings.Repeat("x", 10000))
			}
		case "/stream":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
			for err == nil {
				_, err = io.WriteString(c, "data: tick\n\n")
			}
		}
		r.ReadByte()
		ended <- req.URL.Path
	})
	for _, tt := range []struct {
		path, at string
		answered bool
	}{
		{"/small", "head", true},
		{"/small", "write", true},
		{"/large", "head", false},
		{"/large", "write", false},
		{"/stream", "head", false},
		{"/stream", "write", false},
	} {
		t.Run(tt.path+" "+tt.at, func(t *testing.T) {
			c := client(t, opt)
			a := &recorder{fail: func(call string) error {
				if strings.HasPrefix(call, tt.at) {
					return fmt.Errorf("%w: %w", muru.ErrClientGone, left)
				}
				return nil
			}}
			err := c.Do(within(t), request("GET", tt.path, a), Hooks{})
			gone, ok := errors.AsType[*GoneError](err)
			if !ok || gone.Answered != tt.answered || !errors.Is(err, muru.ErrClientGone) || !errors.Is(err, left) {
				t.Fatalf("got %#v", err)
			}
			if kept := idleCount(c) == 1; kept != tt.answered {
				t.Errorf("connection kept: %v, want %v", kept, tt.answered)
			}
			c.Close()
			receive(t, ended, "end of the connection")
		})
	}
}

func TestStreamsReachTheClientPartByPart(t *testing.T) {
	step := make(chan string)
	for name, head := range map[string]string{
		"server-sent events": "Content-Type: text/event-stream; charset=utf-8\r\nContent-Length: 9",
		"until close":        "Content-Type: text/plain",
		"slow plain answer":  "Content-Length: 9",
	} {
		t.Run(name, func(t *testing.T) {
			opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n")
				for part := range step {
					if part == "" {
						return
					}
					io.WriteString(c, part)
				}
			})
			a := &recorder{flushed: make(chan string, 10)}
			var stream []bool
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(context.Background(), testWait)
			defer cancel()
			go func() {
				done <- client(t, opt).Do(ctx, request("GET", "/", a), Hooks{Head: func(s bool) { stream = append(stream, s) }})
			}()
			want := ""
			receive(t, a.flushed, "head")
			for _, part := range []string{"one", "two", "end"} {
				step <- part
				want += part
				if part != "end" {
					if got := receive(t, a.flushed, "part"); got != want {
						t.Fatalf("got %q, want %q", got, want)
					}
				}
			}
			step <- ""
			if err := receive(t, done, "end"); err != nil {
				t.Fatal(err)
			}
			if string(a.body) != want || len(stream) != 1 || stream[0] != (name != "slow plain answer") {
				t.Errorf("got %q, stream %v", a.body, stream)
			}
		})
	}
}

func TestQuickAnswersAreNotFlushed(t *testing.T) {
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, hi)
		}
	})
	a := mustDo(t, client(t, opt), request("GET", "/", &recorder{}))
	if got := strings.Join(a.log, ", "); got != "head, write 2" {
		t.Errorf("got calls %s", got)
	}
}
