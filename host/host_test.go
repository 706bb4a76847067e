package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru"
)

// helperKey names what this binary is to be instead of a test: a worker with
// a fault, or a daemon to be killed.
const helperKey = "MURU_HOST_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperKey); name != "" {
		runHelper(name)
		return
	}
	// net/http waits half a second before it closes the connection of a client that
	// still sends: that goroutine ends by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// recorder is the reporter of a host under test.
type recorder struct {
	mu     sync.Mutex // guards both
	events []muru.Event
	harms  []muru.Harm
}

func (r *recorder) Report(e muru.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) Harm(_ muru.ReleaseID, h muru.Harm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.harms = append(r.harms, h)
}

// of returns the messages of the events of a kind so far.
func (r *recorder) of(kind string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var messages []string
	for _, e := range r.events {
		if e.Kind == kind {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// data returns that of the first event of a kind.
func (r *recorder) data(kind string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			return e.Data
		}
	}
	return nil
}

func (r *recorder) harmed(h muru.Harm) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, other := range r.harms {
		if other == h {
			n++
		}
	}
	return n
}

// wait waits for an event of a kind that contains text.
func (r *recorder) wait(t *testing.T, kind, text string) string {
	t.Helper()
	var found string
	defer func() {
		if t.Failed() {
			t.Logf("events: %+v", r.events)
		}
	}()
	eventually(t, kind+" with "+text, func() bool {
		for _, message := range r.of(kind) {
			if strings.Contains(message, text) {
				found = message
				return true
			}
		}
		return false
	})
	return found
}

// longWait is how long tests wait for what must come. Nothing is proven by it,
// and a busy machine needs seconds to start Python.
const longWait = 30 * time.Second

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(longWait); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// newHost opens a host that is closed at the end of the test, and then has
// left nothing running.
func newHost(t *testing.T, opt Options) (*Host, *recorder) {
	t.Helper()
	events := &recorder{}
	opt.Reporter = events
	if opt.StateDir == "" {
		opt.StateDir = shortDir(t)
	}
	if opt.StopGrace == 0 {
		opt.StopGrace = time.Second
	}
	h := New(opt)
	if err := h.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(h.stateDir, "run", "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return h, events
}

// shortDir is a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "muru")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var shop = muru.ReleaseID{App: "shop", Number: 6}

// python is a release of testdata/app with what change says.
func python(t *testing.T, change func(*muru.Release)) muru.Release {
	t.Helper()
	r := muru.Release{ID: shop, ReleasePlan: muru.ReleasePlan{
		Kind: muru.Python, Source: "testdata/app", Entry: "app:application", Workers: 1, Threads: 2,
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
	}}
	r.Timeouts.Queue = longWait // a worker may take long to be replaced
	if change != nil {
		change(&r)
	}
	return r
}

// start starts a release or fails the test.
func start(t *testing.T, h *Host, r muru.Release) muru.Backend {
	t.Helper()
	b, err := h.Start(t.Context(), r)
	if err != nil {
		t.Fatalf("start: %v %+v", err, err)
	}
	return b
}

// answer is what a client got.
type answer struct {
	mu     sync.Mutex // guards all below
	status int
	header []muru.Field
	body   bytes.Buffer
	onBody func() error // called before each write; its error is the client's

	muru.Outcome
	took time.Duration
	x    *muru.Exchange
}

func (a *answer) Inform(int, []muru.Field) error { return nil }

func (a *answer) Head(status int, header []muru.Field, _ int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.header = status, append([]muru.Field(nil), header...)
	return nil
}

func (a *answer) Write(p []byte) (int, error) {
	if a.onBody != nil {
		if err := a.onBody(); err != nil {
			return 0, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.body.Write(p)
}

func (a *answer) Flush() error               { return nil }
func (a *answer) Trailer([]muru.Field) error { return nil }

func (a *answer) Upgrade(int, []muru.Field) (io.ReadWriteCloser, error) {
	return nil, muru.ErrClientGone
}

func (a *answer) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.body.String()
}

var requestID atomic.Int64

// get makes a GET of target.
func get(target string, a *answer) *muru.Exchange {
	path, query, _ := strings.Cut(target, "?")
	id := fmt.Sprintf("01TEST%020d", requestID.Add(1))
	a.x = &muru.Exchange{
		ID: id, Method: "GET", Target: target, Path: path, Query: query, Proto: "HTTP/1.1", Scheme: "http",
		Host: "shop.example", Remote: "127.0.0.1:4242", Local: "127.0.0.1:8080",
		Header: []muru.Field{{Name: "X-Request-Id", Value: id}}, Answer: a, Arrived: time.Now(),
	}
	return a.x
}

// do makes a GET of target and returns what came.
func do(ctx context.Context, b muru.Backend, target string) *answer {
	a := &answer{}
	x := get(target, a)
	a.Outcome = b.Do(ctx, x)
	a.took = time.Since(x.Arrived)
	return a
}

// call is a request on its way.
type call struct {
	*answer
	done chan struct{} // closed when Do has returned
}

func begin(ctx context.Context, b muru.Backend, target string) *call {
	c := &call{answer: &answer{}, done: make(chan struct{})}
	x := get(target, c.answer)
	go func() {
		defer close(c.done)
		c.Outcome = b.Do(ctx, x)
		c.took = time.Since(x.Arrived)
	}()
	return c
}

// end waits for the call to return.
func (c *call) end(t *testing.T) *answer {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(longWait):
		t.Fatalf("%s does not return", c.x.Target)
	}
	return c.answer
}

// wantOK checks that a request was answered with 200.
func wantOK(t *testing.T, a *answer) {
	t.Helper()
	if a.Err != nil || a.status != 200 || !a.Answered {
		t.Errorf("%s: status %d, %+v, want 200", a.x.Target, a.status, a.Outcome)
	}
}
