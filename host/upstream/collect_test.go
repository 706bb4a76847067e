package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnswerThatIsThereIsPassedOnInOnePiece(t *testing.T) {
	const size = 10 << 10
	opt := answering(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)+strings.Repeat("x", size), true)
	c := client(t, opt)
	for n := range 3 {
		a := mustDo(t, c, request("GET", "/", &recorder{}))
		if got := strings.Join(a.log, ", "); got != fmt.Sprintf("head, write %d", size) {
			t.Errorf("request %d: got calls %s", n, got)
		}
		c.mu.Lock()
		idle := c.idle[0]
		c.mu.Unlock()
		if !idle.big || idle.large != nil || len(idle.buf) != smallBuffer {
			t.Errorf("request %d: big %v, large %v, buffer of %d", n, idle.big, idle.large != nil, len(idle.buf))
		}
	}
}

func TestSmallAnswerAfterALargeOneNeedsNoLargeBuffer(t *testing.T) {
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body := "small"
			if req.URL.Path == "/large" {
				body = strings.Repeat("x", 2*largeBuffer)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	c := client(t, opt)
	for _, target := range []string{"/large", "/small"} {
		a := mustDo(t, c, request("GET", target, &recorder{}))
		if int64(len(a.body)) != a.length {
			t.Errorf("%s: %d bytes of %d", target, len(a.body), a.length)
		}
		if big := c.idle[0].big; big != (target == "/large") {
			t.Errorf("after %s: big %v", target, big)
		}
	}
}

// A server that sends byte after byte, each soon after the one before, must
// not keep its client waiting for the whole.
func TestPartsAreGatheredForAMomentOnly(t *testing.T) {
	got := make(chan struct{})
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", most)
		tick := time.NewTicker(gather / 8)
		defer tick.Stop()
		for sent := range most {
			select {
			case <-got:
				io.WriteString(c, strings.Repeat("x", most-sent))
				return
			case <-tick.C:
				io.WriteString(c, "x")
			}
		}
	})
	a := &recorder{flushed: make(chan string, most)}
	done := make(chan error, 1)
	ctx := within(t)
	go func() { done <- client(t, opt).Do(ctx, request("GET", "/", a), Hooks{}) }()
	receive(t, a.flushed, "first part")
	close(got)
	if err := receive(t, done, "end"); err != nil || len(a.body) != most {
		t.Errorf("%d bytes, %v", len(a.body), err)
	}
}

// What came before a server broke off is passed on.
func TestPartOfAnAnswerThatBreaksOffIsPassedOn(t *testing.T) {
	opt := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", false)
	a := &recorder{}
	err := client(t, opt).Do(within(t), request("GET", "/", a), Hooks{})
	if err == nil || string(a.body) != "short" {
		t.Errorf("got %q, %v", a.body, err)
	}
}

const most = 60000
