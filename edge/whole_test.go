package edge

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"muru"
)

// A countingListener counts the writes to its connections.
type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countingConn{c, l.writes}, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestAnAnswerThatIsThereInOnePieceIsOneWrite(t *testing.T) {
	backend := backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		size, _ := strconv.Atoi(x.Path[1:])
		return say(x, 200, strings.Repeat("x", size))
	})
	e := New(Options{})
	e.Route(shop(0, map[int]muru.Backend{5: backend}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var writes atomic.Int64
	served := make(chan error, 1)
	go func() { served <- e.server.Serve(listener{countingListener{l, &writes}, e}) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for _, size := range []int{0, 1, 100, wholeFrom - 1, wholeFrom, 4096, 10 << 10, wholeTo, wholeTo + 1, 100 << 10, 7} {
		before := writes.Load()
		fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", size)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, response.Body)
		if body != strings.Repeat("x", size) || response.ContentLength != int64(size) {
			t.Errorf("%d bytes: got %d, length %d", size, len(body), response.ContentLength)
		}
		if n := writes.Load() - before; size <= wholeTo && n != 1 {
			t.Errorf("%d bytes were %d writes", size, n)
		}
	}
	conn.Close()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-served
}
