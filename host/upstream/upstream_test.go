package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru"
)

// net/http waits half a second before it closes the connection of a client that
// still sends: that goroutine ends by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// testWait bounds every wait of these tests.
const testWait = 10 * time.Second

// within returns a context that ends a test which hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	t.Cleanup(cancel)
	return ctx
}

// receive waits for a value of ch.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(testWait):
		t.Fatalf("no %s within %v", what, testWait)
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(testWait); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", testWait, what)
		}
	}
}

// A recorder is the client's side of an exchange.
type recorder struct {
	mu      sync.Mutex
	interim []string
	status  int
	header  []muru.Field
	length  int64
	body    []byte
	trailer []muru.Field
	log     []string // head, write N, flush, trailer
	flushed chan string
	fail    func(call string) error
	client  io.ReadWriteCloser // what Upgrade returns
}

func (a *recorder) note(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	a.log = append(a.log, call)
	if a.fail != nil {
		return a.fail(call)
	}
	return nil
}

func (a *recorder) Inform(status int, header []muru.Field) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interim = append(a.interim, fmt.Sprint(status, header))
	return a.note("inform")
}

func (a *recorder) Head(status int, header []muru.Field, length int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != 0 {
		panic("second head")
	}
	a.status, a.header, a.length = status, slices.Clone(header), length
	return a.note("head")
}

func (a *recorder) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body = append(a.body, p...)
	return len(p), a.note("write %d", len(p))
}

func (a *recorder) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flushed != nil {
		a.flushed <- string(a.body)
	}
	return a.note("flush")
}

func (a *recorder) Trailer(fields []muru.Field) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trailer = append(a.trailer, fields...)
	return a.note("trailer")
}

func (a *recorder) Upgrade(status int, header []muru.Field) (io.ReadWriteCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.header = status, slices.Clone(header)
	return a.client, a.note("upgrade")
}

func get(fields []muru.Field, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func request(method, target string, a muru.Answer) *muru.Exchange {
	return &muru.Exchange{Method: method, Target: target, Proto: "HTTP/1.1", Host: "shop.example", Answer: a,
		Header: []muru.Field{{Name: "Accept", Value: "*/*"}}}
}

// upload is a request with a body; length -1 leaves it open.
func upload(method string, body io.Reader, length int64, a muru.Answer) *muru.Exchange {
	x := request(method, "/upload", a)
	x.Body, x.Length = body, length
	return x
}

// serveRaw serves each connection, numbered from 0, with serve.
func serveRaw(t testing.TB, serve func(n int, c net.Conn, r *bufio.Reader)) Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return Options{Network: "unix", Address: path}
}

// answering serves every request on every connection with the same bytes, and
// then closes unless they keep the connection.
func answering(t testing.TB, answer string, keep bool) Options {
	return serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, answer)
			if !keep {
				return
			}
		}
	})
}

// serveHTTP serves with net/http over tcp.
func serveHTTP(t testing.TB, h http.HandlerFunc) Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return Options{Network: "tcp", Address: l.Addr().String()}
}

func client(t testing.TB, opt Options) *Client {
	c := New(opt)
	t.Cleanup(c.Close)
	return c
}

func idleCount(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// mustDo does x and fails the test if that fails.
func mustDo(t *testing.T, c *Client, x *muru.Exchange) *recorder {
	t.Helper()
	if err := c.Do(within(t), x, Hooks{}); err != nil {
		t.Fatalf("%s %s: %v", x.Method, x.Target, err)
	}
	return x.Answer.(*recorder)
}

func wantReset(t *testing.T, err error, part string) {
	t.Helper()
	ae, ok := errors.AsType[*AnswerError](err)
	if !ok || !errors.Is(err, ErrReset) {
		t.Fatalf("got error %v, want an AnswerError", err)
	}
	if !strings.Contains(ae.Error(), part) {
		t.Fatalf("got error %q, want %q in it", ae, part)
	}
}
