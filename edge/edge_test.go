package edge

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
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

// backendFunc is a fake release.
type backendFunc func(ctx context.Context, x *muru.Exchange) muru.Outcome

func (f backendFunc) Do(ctx context.Context, x *muru.Exchange) muru.Outcome { return f(ctx, x) }

// says answers every request with a text.
func says(text string) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		return say(x, 200, text)
	}
}

// say answers x completely.
func say(x *muru.Exchange, status int, text string, fields ...muru.Field) muru.Outcome {
	fields = append([]muru.Field{{Name: "Content-Type", Value: "text/plain"}}, fields...)
	if err := x.Answer.Head(status, fields, int64(len(text))); err != nil {
		return muru.Outcome{Err: err, Answered: true}
	}
	if _, err := x.Answer.Write([]byte(text)); err != nil {
		return muru.Outcome{Err: err, Answered: true}
	}
	return muru.Outcome{Answered: true}
}

// fails ends every request with a cause.
func fails(cause error) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		return muru.Outcome{Err: cause}
	}
}

func rel(n int) muru.ReleaseID { return muru.ReleaseID{App: "shop", Number: n} }

// shop is a Routing of the app shop: a baseline r5 and, with a share that is
// not negative, a candidate r6. Other backends are there for previews.
func shop(share muru.Share, backends map[int]muru.Backend, change ...func(*muru.Routing)) muru.Routing {
	var arms []muru.SplitArm
	if share >= 0 {
		arms = append(arms, muru.SplitArm{Release: rel(6), Share: share})
	}
	split, err := muru.NewSplit("rollout 1", rel(5), arms...)
	if err != nil {
		panic(err)
	}
	r := muru.Routing{
		Route: muru.Route{App: "shop"}, Generation: 1, Split: split, Rollout: 1,
		Backends: map[muru.ReleaseID]muru.Backend{},
	}
	for n, b := range backends {
		r.Backends[rel(n)] = b
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// front is an edge on a real socket.
type front struct {
	*Edge
	t       *testing.T
	address string
	url     string
	client  *http.Client // keeps no cookies, follows no redirects
}

func newFront(t *testing.T, o Options) *front {
	t.Helper()
	e := New(o)
	addr, err := e.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve() }()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		// A request that was cut may still be on its way out.
		eventually(t, func() bool { return e.active.Load() == 0 })
	})
	return &front{
		Edge: e, t: t, address: addr.String(), url: "http://" + addr.String(),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// reply is an answer as a client got it.
type reply struct {
	*http.Response
	body string
}

// get requests path with header fields given as "Name: value".
func (f *front) get(path string, fields ...string) reply {
	f.t.Helper()
	return f.do("GET", path, nil, fields...)
}

func (f *front) do(method, path string, body io.Reader, fields ...string) reply {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	response, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return reply{response, string(text)}
}

// dial opens a connection to write a request by hand.
func (f *front) dial() *rawConn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		f.t.Fatal(err)
	}
	return &rawConn{Conn: c, t: f.t, r: bufio.NewReader(c)}
}

type rawConn struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (c *rawConn) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// response reads the head of one response.
func (c *rawConn) response(method string) *http.Response {
	c.t.Helper()
	response, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	return response
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// heard is a Sink that keeps what it hears, in order.
type heard struct {
	mu   sync.Mutex
	list []hearing
}

type hearing struct {
	done      bool
	fact      muru.Fact
	copy      *muru.Fact // of a pair
	threshold muru.Threshold
}

func (h *heard) Done(f muru.Fact) { h.add(hearing{done: true, fact: f}) }

func (h *heard) Overdue(f muru.Fact, t muru.Threshold) { h.add(hearing{fact: f, threshold: t}) }

func (h *heard) Pair(user, shadow muru.Fact) { h.add(hearing{fact: user, copy: &shadow}) }

func (h *heard) add(e hearing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, e)
}

func (h *heard) all() []hearing {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]hearing(nil), h.list...)
}

// wait returns the first n hearings.
func (h *heard) wait(t *testing.T, n int) []hearing {
	t.Helper()
	eventually(t, func() bool { return len(h.all()) >= n })
	return h.all()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it never came")
		}
		time.Sleep(time.Millisecond)
	}
}

// lines is a writer that keeps what is written, safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
