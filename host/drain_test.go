package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"muru"
)

func TestDrainWaitsForRequestsAlreadyInWorker(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { one(r) }))
	calls, release := waiting(t, b, 2) // one in the worker, one in the queue
	queued(t, h, 1)
	drained := make(chan muru.Drained)
	go func() {
		d, err := h.Drain(t.Context(), shop)
		if err != nil {
			t.Error(err)
		}
		drained <- d
	}()
	<-time.After(50 * time.Millisecond)
	select {
	case d := <-drained:
		t.Fatalf("drained %+v with requests inside", d)
	default:
	}
	release()
	for _, c := range calls {
		wantOK(t, c.end(t))
	}
	if d := <-drained; d.Cut() || d.Took < 50*time.Millisecond {
		t.Errorf("%+v", d)
	}
	wantOK(t, do(t.Context(), b, "/")) // it goes on answering
}

func TestDrainDoesNotWaitForRequestsThatCameLater(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	if d, err := h.Drain(t.Context(), shop); err != nil || d.Cut() || d.Took > 3*time.Second {
		t.Errorf("%+v %v", d, err)
	}
	first, releaseFirst := waiting(t, b, 1)
	inside(t, h, 1)
	drained := make(chan muru.Drained)
	go func() {
		d, _ := h.Drain(t.Context(), shop)
		drained <- d
	}()
	eventually(t, "the drain", func() bool {
		r := h.release(shop)
		r.mu.Lock()
		defer r.mu.Unlock()
		for q := range r.inside {
			return len(q.drains) == 1
		}
		return false
	})
	later, releaseLater := waiting(t, b, 1)
	inside(t, h, 2)
	releaseFirst()
	wantOK(t, first[0].end(t))
	<-drained
	releaseLater()
	wantOK(t, later[0].end(t))
}

func TestDrainCutsEachClassAtItsDeadline(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Threads = 3
		r.Timeouts.Drain, r.Timeouts.Stream, r.Timeouts.WebSocket = 200*time.Millisecond, 400*time.Millisecond, time.Millisecond
	}))
	plainCall := begin(t.Context(), b, "/sleep?s=1.5")
	streamCall := begin(t.Context(), b, "/stream")
	eventually(t, "the stream", func() bool { return streamCall.text() != "" })
	inside(t, h, 2)
	d, err := h.Drain(t.Context(), shop)
	if err != nil || d.Requests != 1 || d.Streams != 1 || d.WebSockets != 0 || d.Took < 400*time.Millisecond || d.Took > 3*time.Second {
		t.Errorf("%+v %v", d, err)
	}
	for _, c := range []*call{plainCall, streamCall} {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrDrainCut) {
			t.Errorf("%s: %+v", c.x.Target, a.Outcome)
		}
	}
	// Both threads come back once they notice.
	eventually(t, "the threads", func() bool {
		r := h.release(shop)
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.idle) == 3
	})
	wantOK(t, do(t.Context(), b, "/"))
	if n := h.Workers(shop)[0].Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
}

func TestDrainEndsWithItsContext(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	calls, release := waiting(t, b, 1)
	inside(t, h, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Drain(ctx, shop); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	release()
	wantOK(t, calls[0].end(t))
}

func TestStopDrainsRefusesAndEnds(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	pid := h.Workers(shop)[0].PID
	calls, release := waiting(t, b, 1)
	inside(t, h, 1)
	stopped := make(chan muru.Drained, 2)
	for range 2 {
		go func() {
			d, err := h.Stop(t.Context(), shop)
			if err != nil {
				t.Error(err)
			}
			stopped <- d
		}()
	}
	eventually(t, "the refusal", func() bool { return errors.Is(do(t.Context(), b, "/").Err, muru.ErrDraining) })
	if !alive(pid) {
		t.Error("it ended with a request inside")
	}
	release()
	wantOK(t, calls[0].end(t))
	for range 2 {
		if d := <-stopped; d.Cut() {
			t.Errorf("%+v", d)
		}
	}
	if alive(pid) || h.Ready(shop) {
		t.Error("it lives")
	}
}

func TestStopCutsAtTheDeadlineAndKillsWhatDoesNotEnd(t *testing.T) {
	h, events := newHost(t, Options{StopGrace: 200 * time.Millisecond})
	b := start(t, h, python(t, func(r *muru.Release) { r.Timeouts.Drain = 100 * time.Millisecond }))
	pid := h.Workers(shop)[0].PID
	c := begin(t.Context(), b, "/order")
	inside(t, h, 1)
	d, err := h.Stop(t.Context(), shop)
	if err != nil || d.Requests != 1 {
		t.Errorf("%+v %v", d, err)
	}
	if a := c.end(t); !errors.Is(a.Err, muru.ErrDrainCut) {
		t.Errorf("%+v", a.Outcome)
	}
	if alive(pid) {
		t.Error("it lives")
	}
	if len(events.of(muru.WorkerCrashed)) != 0 || len(events.harms) != 0 {
		t.Error("its end counts as a crash")
	}
}

func TestForcedEndOfARequestIsAtOnce(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	ctx, end := context.WithCancelCause(t.Context())
	running := begin(ctx, b, "/sleep?s=1")
	inside(t, h, 1)
	waits := begin(ctx, b, "/")
	queued(t, h, 1)
	end(muru.ErrDrainCut)
	for _, c := range []*call{running, waits} {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrDrainCut) || a.took > 900*time.Millisecond {
			t.Errorf("%+v after %v", a.Outcome, a.took)
		}
	}
	wantOK(t, do(t.Context(), b, "/"))
}

// upgradeAnswer gives the client's side of an upgraded connection away.
type upgradeAnswer struct {
	answer
	conn     net.Conn
	upgraded chan struct{}
}

func (a *upgradeAnswer) Upgrade(status int, header []muru.Field) (io.ReadWriteCloser, error) {
	_ = a.Head(status, header, -1)
	head := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	for _, f := range header {
		head.Header.Add(f.Name, f.Value)
	}
	if err := head.Write(a.conn); err != nil {
		return nil, err
	}
	close(a.upgraded)
	return a.conn, nil
}

// dialWebSocket opens a WebSocket to a release's /socket.
func dialWebSocket(t *testing.T, b muru.Backend) (*websocket.Conn, *call) {
	t.Helper()
	ours, theirs := net.Pipe()
	a := &upgradeAnswer{conn: theirs, upgraded: make(chan struct{})}
	x := get("/socket", &a.answer)
	x.Answer, x.Upgrade = a, true
	c := &call{answer: &a.answer, done: make(chan struct{})}
	// The client's library wants to speak HTTP itself: what stands between
	// is a server that takes its handshake and hands its key on.
	ready := make(chan *websocket.Conn, 1)
	go func() {
		conn, _, err := websocket.Dial(t.Context(), "ws://shop.example/socket", &websocket.DialOptions{
			HTTPClient: httpClientOver(ours),
		})
		if err != nil {
			t.Error(err)
		}
		ready <- conn
	}()
	handshake := readHandshake(t, theirs)
	x.Header = handshake
	go func() {
		defer close(c.done)
		c.Outcome = b.Do(t.Context(), x)
	}()
	<-a.upgraded
	return <-ready, c
}

func TestWebSocketIsToldThatItsReleaseGoesAway(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, command(t, httpServer, func(r *muru.Release) { r.Timeouts.WebSocket = 150 * time.Millisecond }))
	conn, c := dialWebSocket(t, b)
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat("tea", 1000))); err != nil {
		t.Fatal(err)
	}
	if _, data, err := conn.Read(t.Context()); err != nil || len(data) != 3000 {
		t.Fatalf("echo: %d bytes, %v", len(data), err)
	}
	if requests, streams, sockets := h.InFlight(shop); requests != 0 || streams != 0 || sockets != 1 {
		t.Errorf("in flight %d, %d, %d", requests, streams, sockets)
	}
	closed := make(chan error, 1)
	go func() {
		_, _, err := conn.Read(context.Background())
		closed <- err
	}()
	d, err := h.Drain(t.Context(), shop)
	if err != nil || d.WebSockets != 1 || d.Requests != 0 {
		t.Errorf("%+v %v", d, err)
	}
	if status := websocket.CloseStatus(<-closed); status != websocket.StatusGoingAway {
		t.Errorf("closed with %d, want 1001", status)
	}
	c.end(t)
	eventually(t, "the server's end", func() bool {
		lines, _ := h.Logs(t.Context(), shop, muru.LogQuery{Match: "^socket closed"})
		return len(lines) == 1
	})
}

func TestExternalServer(t *testing.T) {
	server := httptest.NewServer(httpHandler())
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	var diary bytes.Buffer // the host is quiet when it is read
	h, events := newHost(t, Options{Log: slog.New(slog.NewTextHandler(&diary, nil))})
	external := func(r *muru.Release) {
		r.Kind, r.Source, r.Entry, r.Workers, r.Threads, r.Upstream = muru.External, "", "", 0, 0, address
		r.Timeouts.Hard, r.Ready = 2*time.Second, "/ready" // long, for what is not to run into it
	}
	b := start(t, h, python(t, external))
	wantAnswer := do(t.Context(), b, "/hello")
	wantOK(t, wantAnswer)
	if wantAnswer.Worker != -1 || !h.Ready(shop) {
		t.Errorf("%+v", wantAnswer.Outcome)
	}
	if a := do(t.Context(), b, "/never"); !errors.Is(a.Err, muru.ErrHardTimeout) || events.harmed(muru.HarmTimeout) != 1 {
		t.Errorf("%+v", a.Outcome)
	}
	if a := do(t.Context(), b, "/cut"); !errors.Is(a.Err, muru.ErrWorkerDied) || events.harmed(muru.HarmCrash) != 1 {
		t.Errorf("%+v", a.Outcome)
	}
	for _, err := range []error{
		second(h.Logs(t.Context(), shop, muru.LogQuery{})),
		second(h.Stacks(t.Context(), shop, -1)),
	} {
		if muru.KindOf(err) != muru.KindRefused || !strings.HasPrefix(err.Error(), "shop@r6 is external") {
			t.Errorf("error %v", err)
		}
	}
	server.Close()
	if a := do(t.Context(), b, "/hello"); !errors.Is(a.Err, muru.ErrWorkerDied) || events.harmed(muru.HarmCrash) != 2 || h.Ready(shop) {
		t.Errorf("%+v, ready %v", a.Outcome, h.Ready(shop))
	}
	do(t.Context(), b, "/hello")
	if said := diary.String(); strings.Count(said, `msg="external server"`) != 1 {
		t.Errorf("the daemon's log says it of each request: %s", said)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(httpHandler())
	_ = again.Listener.Close()
	again.Listener = listener
	again.Start()
	wantOK(t, do(t.Context(), b, "/hello"))
	if !h.Ready(shop) {
		t.Error("not ready, but it answers again")
	}
	again.Close()
	if _, err := h.Stop(t.Context(), shop); err != nil {
		t.Error(err)
	}
	_, err = h.Start(t.Context(), python(t, func(r *muru.Release) { external(r); r.Timeouts.Ready = 2300 * time.Millisecond }))
	if muru.KindOf(err) != muru.KindNotReady || err.Error() != address+" is not ready after 2.3s: connection refused" {
		t.Errorf("start without a server: %v", err)
	}
	if said := diary.String(); strings.Count(said, "wait for an external server") != 1 || !strings.Contains(said, `cause="connection refused"`) {
		t.Errorf("the daemon's log: %s", said)
	}
}

func second[T any](_ T, err error) error { return err }

func TestExternalServerWithThreadsHasAQueue(t *testing.T) {
	server := httptest.NewServer(httpHandler())
	defer server.Close()
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Kind, r.Source, r.Entry, r.Workers, r.Threads = muru.External, "", "", 0, 1
		r.Upstream = strings.TrimPrefix(server.URL, "http://")
	}))
	first := begin(t.Context(), b, "/sleep?s=0.2")
	eventually(t, "the first", func() bool { _, started := first.x.QueueWait(); return started })
	next := do(t.Context(), b, "/hello")
	wantOK(t, first.end(t))
	wantOK(t, next)
	if wait, _ := next.x.QueueWait(); wait < 100*time.Millisecond {
		t.Errorf("it waited %v", wait)
	}
}
