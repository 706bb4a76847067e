package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"muru"
)

var eventStream = []muru.Field{{Name: "Content-Type", Value: "text/event-stream"}}

func TestAnEventIsAtTheClientWithinFiftyMilliseconds(t *testing.T) {
	f := newFront(t, Options{})
	events := make(chan string)
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if err := x.Answer.Head(200, eventStream, -1); err != nil {
			return muru.Outcome{Err: err}
		}
		for e := range events {
			if _, err := io.WriteString(x.Answer, e); err != nil {
				return muru.Outcome{Err: err}
			}
			if err := x.Answer.Flush(); err != nil {
				return muru.Outcome{Err: err}
			}
		}
		return muru.Outcome{Answered: true}
	})}))
	// The head comes before the first event.
	r, err := http.Get(f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body := bufio.NewReader(r.Body)
	quickest := time.Hour // of five: the machine may be busy with something else
	for i := range 5 {
		want := fmt.Sprintf("data: %d\n", i)
		sent := time.Now()
		events <- want
		got, err := body.ReadString('\n')
		if err != nil || got != want {
			t.Fatalf("%q %v", got, err)
		}
		quickest = min(quickest, time.Since(sent))
	}
	if quickest > 50*time.Millisecond {
		t.Errorf("took %v", quickest)
	}
	close(events)
	if rest := readAll(t, body); rest != "" {
		t.Errorf("rest %q", rest)
	}
}

// echo answers with the body as it comes, part by part.
func echo(_ context.Context, x *muru.Exchange) muru.Outcome {
	x.Start(time.Now())
	if err := x.Answer.Head(200, nil, -1); err != nil {
		return muru.Outcome{Err: err}
	}
	buf := make([]byte, 32<<10)
	for x.Body != nil {
		n, err := x.Body.Read(buf)
		if _, werr := x.Answer.Write(buf[:n]); werr != nil {
			return muru.Outcome{Err: werr}
		}
		if werr := x.Answer.Flush(); werr != nil {
			return muru.Outcome{Err: werr}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return muru.Outcome{Err: err}
		}
	}
	return muru.Outcome{Answered: true}
}

func TestAnUploadIsStreamedWhileItIsAnswered(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(echo)}))
	conn := f.dial()
	conn.send("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n")
	r := conn.response("POST")
	buf := make([]byte, 4)
	if _, err := io.ReadFull(r.Body, buf); err != nil || string(buf) != "wiki" {
		t.Fatalf("%q %v", buf, err)
	}
	conn.send("5\r\npedia\r\n0\r\n\r\n")
	if rest := readAll(t, r.Body); rest != "pedia" {
		t.Errorf("rest %q", rest)
	}
}

func TestALargeBodyComesThroughWhole(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(echo)}))
	large := strings.Repeat("0123456789abcdef", 1<<17)
	if r := f.do("PUT", "/", strings.NewReader(large)); r.body != large {
		t.Errorf("%d of %d bytes", len(r.body), len(large))
	}
}

func TestABodyIsAskedForOnlyWhenItIsRead(t *testing.T) {
	f := newFront(t, Options{})
	read := make(chan bool)
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if e := valuesOf(x, "Expect"); len(e) != 1 || e[0] != "100-continue" {
			t.Errorf("the app is told %q", e)
		}
		if !<-read {
			return say(x, 403, "no")
		}
		body, err := io.ReadAll(x.Body)
		if err != nil {
			return muru.Outcome{Err: err}
		}
		return say(x, 200, string(body))
	})}))
	request := "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	conn := f.dial()
	conn.send(request)
	read <- true
	if r := conn.response("POST"); r.StatusCode != 100 {
		t.Fatal(r.Status)
	}
	conn.send("body")
	if r := conn.response("POST"); r.StatusCode != 200 || readAll(t, r.Body) != "body" {
		t.Error(r.Status)
	}
	conn = f.dial()
	conn.send(request)
	read <- false
	if r := conn.response("POST"); r.StatusCode != 403 || readAll(t, r.Body) != "no" {
		t.Error(r.Status)
	}
}

func TestInterimAnswersAndTrailersArePassedOn(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		err := errors.Join(
			x.Answer.Inform(103, []muru.Field{{Name: "Link", Value: "</a.css>; rel=preload"}}),
			x.Answer.Head(200, []muru.Field{{Name: "X-Head", Value: "1"}}, -1))
		_, werr := x.Answer.Write([]byte("body"))
		err = errors.Join(err, werr, x.Answer.Trailer([]muru.Field{{Name: "X-Sum", Value: "42"}}))
		return muru.Outcome{Err: err, Answered: true}
	})}))
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h["Link"]))
			return nil
		},
	})
	r, err := http.NewRequestWithContext(ctx, "GET", f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body := readAll(t, response.Body); body != "body" || response.Header.Get("Link") != "" || response.Header.Get("X-Head") != "1" {
		t.Errorf("%q %v", body, response.Header)
	}
	if len(hints) != 1 || hints[0] != "103 [</a.css>; rel=preload]" {
		t.Errorf("hints %q", hints)
	}
	if response.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailer %v", response.Trailer)
	}
}

func TestAnswersWithoutABodyHaveNone(t *testing.T) {
	f := newFront(t, Options{})
	status := 200
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		return say(x, status, "five!")
	})}))
	conn := f.dial()
	for _, c := range []struct {
		method string
		status int
		length int64
	}{{"HEAD", 200, 5}, {"GET", 204, 0}, {"GET", 304, 0}, {"GET", 200, 5}} {
		status = c.status
		conn.send(c.method + " / HTTP/1.1\r\nHost: a\r\n\r\n")
		r := conn.response(c.method)
		body := readAll(t, r.Body)
		if r.StatusCode != c.status || r.ContentLength != c.length || (body != "") != (c.method == "GET" && c.status == 200) {
			t.Errorf("%s %d: %s, length %d, body %q", c.method, c.status, r.Status, r.ContentLength, body)
		}
	}
}

func TestAnUpgradeEchoesBothWays(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	upgraded := make(chan *muru.Exchange, 1)
	f.Route(shop(5000, map[int]muru.Backend{5: backendFunc(upgradeEcho(upgraded)), 6: backendFunc(upgradeEcho(upgraded))}))
	conn := f.dial()
	conn.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Key: abc\r\n\r\nearly ")
	r := conn.response("GET")
	if r.StatusCode != 101 || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" ||
		!strings.HasPrefix(r.Header.Get("Set-Cookie"), "muru_id=") {
		t.Fatalf("%s %v", r.Status, r.Header)
	}
	x := <-upgraded
	if up, c := valuesOf(x, "Upgrade"), valuesOf(x, "Connection"); len(up) != 1 || up[0] != "websocket" || len(c) != 1 || c[0] != "Upgrade" {
		t.Errorf("the app got %v", x.Header)
	}
	conn.send("bird")
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn.r, got); err != nil || string(got) != "early bird" {
		t.Fatalf("%q %v", got, err)
	}
	if all := sink.all(); len(all) != 0 {
		t.Errorf("heard before the end: %+v", all)
	}
	conn.Close()
	fact := sink.wait(t, 1)[0].fact
	if fact.Status != 101 || !fact.Stream || fact.Reason != muru.ReasonNone {
		t.Errorf("%+v", fact)
	}
}

// upgradeEcho is a server of a protocol that repeats what it hears.
func upgradeEcho(upgraded chan<- *muru.Exchange) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if !x.Upgrade {
			return say(x, 426, "upgrade")
		}
		conn, err := x.Answer.Upgrade(101, []muru.Field{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"}})
		if err != nil {
			return muru.Outcome{Err: err}
		}
		upgraded <- x
		_, _ = io.Copy(conn, conn) // ends when the client leaves
		return muru.Outcome{Err: conn.Close(), Answered: true}
	}
}

func TestWhatIsNoUpgradeIsNone(t *testing.T) {
	f := newFront(t, Options{})
	got := make(chan *muru.Exchange, 1)
	f.Route(shop(-1, map[int]muru.Backend{5: capture(got)}))
	for _, head := range []string{
		"HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
		"HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		conn := f.dial()
		conn.send("GET / " + head)
		conn.response("GET")
		if x := <-got; x.Upgrade || valuesOf(x, "Upgrade") != nil || valuesOf(x, "Connection") != nil {
			t.Errorf("%q: %v", head, x.Header)
		}
	}
}

func TestAnIdleUpgradeIsCutWhenTheEdgeCloses(t *testing.T) {
	t.Parallel()
	e := New(Options{})
	addr, err := e.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve() }()
	upgraded := make(chan *muru.Exchange, 1)
	e.Route(shop(-1, map[int]muru.Backend{5: upgradeEcho(upgraded)}))
	f := &front{Edge: e, t: t, address: addr.String()}
	conn := f.dial()
	conn.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	conn.response("GET")
	<-upgraded
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}

func TestLeavingAStreamIsNoFailure(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	for _, cause := range []error{muru.ErrClientGone, muru.ErrDrainCut} {
		cut := make(chan struct{})
		f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
			x.Start(time.Now())
			if err := x.Answer.Head(200, eventStream, -1); err != nil {
				return muru.Outcome{Err: err}
			}
			select {
			case <-ctx.Done():
			case <-cut:
			}
			return muru.Outcome{Err: cause}
		})}))
		conn := f.dial()
		conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		conn.response("GET")
		if cause == muru.ErrDrainCut {
			close(cut)
			if _, err := conn.r.ReadByte(); err == nil {
				t.Error("the stream goes on")
			}
		}
		conn.Close()
	}
	for _, h := range sink.wait(t, 2) {
		if h.fact.Status != 200 || h.fact.Reason != muru.ReasonNone || !h.fact.Stream || h.fact.Duration > time.Second {
			t.Errorf("%+v", h.fact)
		}
	}
}

// Backends reuse what they hold a head's fields in.
func TestAHeadIsNotTheBackendsAnyMoreOnceItIsPassed(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		fields := []muru.Field{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}}
		err := x.Answer.Head(200, fields, 0)
		clear(fields)
		return muru.Outcome{Err: err, Answered: true}
	})}))
	if r := f.get("/"); r.Header.Get("X-A") != "1" || r.Header.Get("X-B") != "2" {
		t.Errorf("%v", r.Header)
	}
}

// cutWriter is a connection whose request is cut in the moment it is taken over.
func TestAnUpgradeThatIsCutMaySayGoodbye(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		conn, err := x.Answer.Upgrade(101, []muru.Field{{Name: "Upgrade", Value: "websocket"}})
		if err != nil {
			return muru.Outcome{Err: err}
		}
		defer conn.Close()
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(conn, "goodbye")
		return muru.Outcome{Err: muru.ErrDrainCut}
	})}))
	conn := f.dial()
	conn.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if r := conn.response("GET"); r.StatusCode != 101 {
		t.Fatal(r.Status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = f.Close(ctx) // it says that one was cut
	if text, err := io.ReadAll(conn.r); string(text) != "goodbye" || err != nil {
		t.Errorf("told %q, %v", text, err)
	}
}

type cutWriter struct {
	http.ResponseWriter
	cut  context.CancelFunc
	conn net.Conn
}

func (w *cutWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.cut()
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

func TestAnUpgradeThatIsCutWhileItBeginsIsClosed(t *testing.T) {
	for range 100 {
		ours, theirs := net.Pipe()
		ctx, cut := context.WithCancel(t.Context())
		q := &request{edge: New(Options{}), ctx: ctx, w: &cutWriter{httptest.NewRecorder(), cut, ours}}
		q.answer.q = q
		if conn, err := q.answer.Upgrade(101, nil); err == nil {
			conn.Close()
		} else {
			q.closeUpgrade()
		}
		if _, err := theirs.Read(make([]byte, 1)); err == nil {
			t.Fatal("the connection is open")
		}
		theirs.Close()
	}
}

func TestARequestWhoseClientLeftDoesNotHoldUpTheClose(t *testing.T) {
	f := newFront(t, Options{})
	started, release := make(chan struct{}), make(chan struct{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		<-ctx.Done()
		<-release // the worker's part goes on
		return muru.Outcome{Err: muru.ErrClientGone}
	})}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-started
	conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 2 {
		if err := f.Close(ctx); err != nil || ctx.Err() != nil {
			t.Fatalf("close: %v", err)
		}
	}
	close(release)
	eventually(t, func() bool { return f.active.Load() == 0 })
}
