package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

const hi = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

func TestConnectionUsedLastIsUsedNext(t *testing.T) {
	var conns atomic.Int32
	inside, release := make(chan int, 2), make(chan struct{})
	opt := serveRaw(t, func(n int, c net.Conn, r *bufio.Reader) {
		conns.Add(1)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			inside <- n
			if req.URL.Path == "/wait" {
				<-release
			}
			io.WriteString(c, hi)
		}
	})
	c := client(t, opt)
	first := make(chan error, 1)
	go func() { first <- c.Do(within(t), request("GET", "/wait", &recorder{}), Hooks{}) }()
	receive(t, inside, "first request")
	mustDo(t, c, request("GET", "/", &recorder{}))
	if n := receive(t, inside, "second request"); n != 1 {
		t.Fatalf("second request on connection %d", n)
	}
	close(release)
	if err := receive(t, first, "answer"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		mustDo(t, c, request("GET", "/", &recorder{}))
		if n := receive(t, inside, "request"); n != 0 {
			t.Errorf("request on connection %d, want 0, which was used last", n)
		}
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}

// closingAtReuse answers the first request of connection 0, reads the second
// one and closes without a byte, so that no check before could have seen it.
func closingAtReuse(t *testing.T, requests *atomic.Int32) Options {
	return serveRaw(t, func(n int, c net.Conn, r *bufio.Reader) {
		for i := 0; ; i++ {
			if _, err := r.Peek(1); err != nil {
				return
			}
			requests.Add(1)
			if n == 0 && i == 1 {
				return
			}
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, hi)
		}
	})
}

func TestSafeRequestMeetingAClosingConnectionIsSentOnceMore(t *testing.T) {
	var requests atomic.Int32
	c := client(t, closingAtReuse(t, &requests))
	mustDo(t, c, request("GET", "/", &recorder{}))
	sent := 0
	a := &recorder{}
	if err := c.Do(within(t), request("GET", "/", a), Hooks{Sent: func() { sent++ }}); err != nil {
		t.Fatal(err)
	}
	if a.status != 200 || sent != 1 || requests.Load() != 3 {
		t.Errorf("got %d, Sent called %d times, %d requests seen", a.status, sent, requests.Load())
	}
}

func TestUnsafeRequestMeetingAClosingConnectionIsNotRepeated(t *testing.T) {
	var requests atomic.Int32
	c := client(t, closingAtReuse(t, &requests))
	mustDo(t, c, request("GET", "/", &recorder{}))
	err := c.Do(within(t), request("POST", "/", &recorder{}), Hooks{})
	wantReset(t, err, "before an answer")
	if n := requests.Load(); n != 2 {
		t.Errorf("the server saw %d requests, want 2", n)
	}
}

func TestSafeRequestIsNotRepeatedOnAFreshConnection(t *testing.T) {
	var requests atomic.Int32
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		requests.Add(1)
	})
	err := client(t, opt).Do(within(t), request("GET", "/", &recorder{}), Hooks{})
	wantReset(t, err, "before an answer")
	if n := requests.Load(); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

func TestSafeRequestIsNotRepeatedAfterAByteOfItsAnswer(t *testing.T) {
	var requests atomic.Int32
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for i := 0; ; i++ {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			requests.Add(1)
			if i == 1 {
				io.WriteString(c, "H")
				return
			}
			io.WriteString(c, hi)
		}
	})
	c := client(t, opt)
	mustDo(t, c, request("GET", "/", &recorder{}))
	wantReset(t, c.Do(within(t), request("GET", "/", &recorder{}), Hooks{}), "inside its head")
	if n := requests.Load(); n != 2 {
		t.Errorf("the server saw %d requests, want 2", n)
	}
}

func TestConnectionClosedWhileIdleIsNotUsed(t *testing.T) {
	for _, last := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		closed := make(chan struct{})
		opt := serveRaw(t, func(n int, c net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, hi)
			if n == 0 {
				io.WriteString(c, last)
				c.(*net.UnixConn).CloseWrite()
				close(closed)
			}
			r.ReadByte()
		})
		c := client(t, opt)
		mustDo(t, c, request("GET", "/", &recorder{}))
		receive(t, closed, "close")
		// A POST would fail on the old connection: it cannot be repeated.
		if a := mustDo(t, c, request("POST", "/", &recorder{})); a.status != 200 {
			t.Errorf("after %q: got %d", last, a.status)
		}
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	ended := make(chan struct{}, 1)
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(c, hi)
		r.ReadByte()
		ended <- struct{}{}
	})
	opt.IdleTimeout = 20 * time.Millisecond
	c := client(t, opt)
	for range 2 {
		mustDo(t, c, request("GET", "/", &recorder{}))
		receive(t, ended, "end of the idle connection")
		eventually(t, "the timer rests with nothing idle", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.idle) == 0 && !c.armed
		})
	}
}

func TestClosedClientKeepsNothing(t *testing.T) {
	c := client(t, answering(t, hi, true))
	mustDo(t, c, request("GET", "/", &recorder{}))
	c.Close()
	c.Close()
	if idleCount(c) != 0 {
		t.Error("an idle connection is left")
	}
	mustDo(t, c, request("GET", "/", &recorder{}))
	if idleCount(c) != 0 {
		t.Error("a connection was kept after Close")
	}
}

func TestNoMoreThanMaxIdleAreKept(t *testing.T) {
	opt := answering(t, hi, true)
	opt.MaxIdle = -1
	c := client(t, opt)
	mustDo(t, c, request("GET", "/", &recorder{}))
	if idleCount(c) != 0 {
		t.Error("a connection was kept")
	}
}

func TestServerThatCannotBeReached(t *testing.T) {
	c := client(t, Options{Network: "unix", Address: filepath.Join(t.TempDir(), "none")})
	err := c.Do(within(t), request("GET", "/", &recorder{}), Hooks{Sent: func() { t.Error("Sent was called") }})
	if !errors.Is(err, ErrConnect) || errors.Is(err, ErrReset) {
		t.Errorf("got %v, want ErrConnect", err)
	}
}

func TestEndOfContextEndsABlockedRequestAtOnce(t *testing.T) {
	hold := make(chan struct{})
	inside := make(chan string, 1)
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.URL.Path == "/body" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst")
		}
		inside <- req.URL.Path
		<-hold
	})
	defer close(hold)
	c := client(t, opt)
	for _, tt := range []struct {
		name string
		x    func() *muru.Exchange
	}{
		{"before the head", func() *muru.Exchange { return request("GET", "/head", &recorder{}) }},
		{"inside the body", func() *muru.Exchange { return request("GET", "/body", &recorder{}) }},
		{"while sending", func() *muru.Exchange { return upload("POST", endless{}, 1<<40, &recorder{}) }},
		{"while the client sends", func() *muru.Exchange { return upload("POST", newStalled(t, 3), 1<<20, &recorder{}) }},
		{"chunked from the client", func() *muru.Exchange { return upload("POST", newStalled(t, 0), -1, &recorder{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(within(t))
			done := make(chan error, 1)
			go func() { done <- c.Do(ctx, tt.x(), Hooks{}) }()
			receive(t, inside, "request")
			cancel(muru.ErrHardTimeout)
			if err := receive(t, done, "end"); !errors.Is(err, muru.ErrHardTimeout) {
				t.Errorf("got %v, want the context's cause", err)
			}
			if idleCount(c) != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestEndOfContextBeforeAnythingWasSent(t *testing.T) {
	c := client(t, answering(t, hi, true))
	ctx, cancel := context.WithCancelCause(within(t))
	cancel(muru.ErrClientGone)
	if err := c.Do(ctx, request("GET", "/", &recorder{}), Hooks{}); err != muru.ErrClientGone {
		t.Errorf("got %v, want the cause", err)
	}
	// A small body is read before anything is sent.
	ctx, cancel = context.WithCancelCause(within(t))
	body := newStalled(t, 3)
	done := make(chan error, 1)
	go func() { done <- c.Do(ctx, upload("POST", body, 10, &recorder{}), Hooks{}) }()
	receive(t, body.blocked, "read of the body")
	cancel(muru.ErrDrainCut)
	if err := receive(t, done, "end"); !errors.Is(err, muru.ErrDrainCut) {
		t.Errorf("got %v, want the cause", err)
	}
}
