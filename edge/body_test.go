package edge

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"muru"
)

// reads takes n bytes of the body and answers.
func reads(n int64) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if x.Body != nil {
			if _, err := io.CopyN(io.Discard, x.Body, n); err != nil {
				return muru.Outcome{Err: err}
			}
		}
		return say(x, 200, x.Method+" "+x.Path)
	}
}

func TestAConnectionIsKeptWhenAnUnreadBodyHasCome(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: reads(1)}))
	conn := f.dial()
	for range 3 {
		conn.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100))
		if r := conn.response("POST"); readAll(t, r.Body) != "POST /a" {
			t.Error(r.Status)
		}
	}
}

// A body that was not read to its end must never become the next request.
func TestNothingInABodyIsTakenForARequest(t *testing.T) {
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range []struct{ what, request string }{
		{"the rest comes later", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx"},
		{"a chunk that is none", "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n"},
		{"more than is read away", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", settleSize+8192)},
		{"never asked for", "POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := int64(1)
			if strings.Contains(c.request, "Expect") {
				n = 0
			}
			f := newFront(t, Options{})
			f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
				if x.Path != "/a" {
					t.Errorf("the app gets %s", x.Target)
				}
				return reads(n)(ctx, x)
			})}))
			conn := f.dial()
			conn.send(c.request)
			if r := conn.response("POST"); r.StatusCode != 200 || readAll(t, r.Body) != "POST /a" {
				t.Fatal(r.Status)
			}
			_, _ = io.WriteString(conn, smuggled)
			if rest, _ := io.ReadAll(conn.r); len(rest) > 0 {
				t.Errorf("answered %q", rest)
			}
		})
	}
}

func TestABackendCanGiveUpABodyWithoutBlamingTheClient(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		deadliner := x.Body.(interface{ SetReadDeadline(time.Time) error })
		if err := deadliner.SetReadDeadline(time.Now().Add(time.Hour)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a deadline to come: %v", err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(x.Body)
			read <- err
		}()
		if err := deadliner.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		return muru.Outcome{Err: muru.ErrWorkerDied}
	})}))
	conn := f.dial()
	conn.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
	if r := conn.response("POST"); r.StatusCode != 502 {
		t.Error(r.Status)
	}
}

// net/http ends a request's context when a read of its body fails, also when
// that was our own wish.
func TestABlockedReadThatIsGivenUpDoesNotLoseTheAnswer(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if _, err := io.ReadFull(x.Body, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := x.Body.Read(make([]byte, 1))
			read <- err
		}()
		select {
		case err := <-read:
			t.Errorf("read: %v", err)
		case <-time.After(20 * time.Millisecond): // it is blocked in the connection by now
		}
		if err := x.Body.(interface{ SetReadDeadline(time.Time) error }).SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if ctx.Err() != nil {
			t.Errorf("the client counts as gone: %v", context.Cause(ctx))
		}
		return say(x, 413, "too much")
	})}))
	for n, rest := range []string{
		"Content-Length: 10\r\n\r\nhalf",
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf",     // and no end of the line
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r",   // or half of it
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", // and no next chunk
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhalf",
	} {
		conn := f.dial()
		conn.send("POST / HTTP/1.1\r\nHost: a\r\n" + rest)
		if r := conn.response("POST"); r.StatusCode != 413 || readAll(t, r.Body) != "too much" {
			t.Errorf("%q: %s", rest, r.Status)
		}
		if fact := sink.wait(t, n+1)[n].fact; fact.Status != 413 {
			t.Errorf("%q: %+v", rest, fact)
		}
	}
}

// A read may still be under way when its backend has returned.
func TestAReadThatOutlivesItsRequestIsEnded(t *testing.T) {
	f := newFront(t, Options{})
	read := make(chan error, 1)
	reading := make(chan struct{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		go func() {
			_, err := io.ReadFull(x.Body, make([]byte, 1))
			close(reading)
			if err == nil {
				_, err = io.ReadAll(x.Body)
			}
			read <- err
		}()
		<-reading
		return say(x, 200, "early")
	})}))
	conn := f.dial()
	conn.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
	if r := conn.response("POST"); readAll(t, r.Body) != "early" {
		t.Error(r.Status)
	}
	if err := <-read; err == nil {
		t.Error("the read went on to its end")
	}
}

func TestAClientThatIsStillSendingGetsItsRefusal(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: reads(1 << 30)}, func(r *muru.Routing) { r.Route.MaxBody = 1000 }))
	conn := f.dial()
	conn.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
	for range 200 {
		// Once it is refused, writes may fail; the answer is there all the same.
		if _, err := io.WriteString(conn, chunk); err != nil {
			break
		}
	}
	if r := conn.response("POST"); r.StatusCode != 413 {
		t.Error(r.Status)
	}
}
