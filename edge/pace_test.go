package edge

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

// swallows reads a whole body and answers, or ends with what reading returned.
func swallows(t *testing.T) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if _, err := io.Copy(io.Discard, x.Body); err != nil {
			if !errors.Is(err, muru.ErrBodyTooSlow) {
				t.Errorf("read: %v", err)
			}
			return muru.Outcome{Err: err}
		}
		return say(x, 200, "whole")
	}
}

// trickle sends text in parts of n bytes, one every 10 ms, until the
// connection ends.
func (c *rawConn) trickle(text string, n int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(text) > 0 {
		n = min(n, len(text))
		if _, err := io.WriteString(c, text[:n]); err != nil {
			return
		}
		text = text[n:]
		<-tick.C
	}
}

func TestABodyThatTricklesIsEnded(t *testing.T) {
	for _, c := range []struct{ what, head, body string }{
		{"known length", "Content-Length: 100000", strings.Repeat("x", 1000)},
		{"chunked", "Transfer-Encoding: chunked", strings.Repeat("1\r\nx\r\n", 200)},
		{"nothing of it", "Content-Length: 100000", ""},
		{"no chunk", "Transfer-Encoding: chunked", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			var log lines
			sink := &heard{}
			f := newFront(t, Options{AccessLog: &log, bodyGrace: 100 * time.Millisecond})
			f.Judge("shop", nil, sink)
			f.Route(shop(-1, map[int]muru.Backend{5: swallows(t)}))
			conn := f.dial()
			conn.send("POST /up HTTP/1.1\r\nHost: a\r\n" + c.head + "\r\n\r\n")
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				conn.trickle(c.body, 1)
			}()
			r := conn.response("POST")
			page := readAll(t, r.Body)
			if r.StatusCode != 408 || !r.Close || !strings.HasPrefix(page, "408 Request Timeout\nreason: body_too_slow\n") ||
				!strings.HasSuffix(page, "\nThe request's body came too slowly.\n") {
				t.Errorf("%s, closes %v: %s", r.Status, r.Close, page)
			}
			if rest, _ := io.ReadAll(conn.r); len(rest) > 0 {
				t.Errorf("then %q", rest)
			}
			<-sent
			if fact := sink.wait(t, 1)[0].fact; fact.Status != 408 || fact.Reason != muru.ReasonBodyTooSlow {
				t.Errorf("%+v", fact)
			}
			eventually(t, func() bool { f.access.flush(); return strings.Contains(log.String(), `"status":408`) })
		})
	}
}

func TestABodyThatKeepsItsPaceIsTaken(t *testing.T) {
	f := newFront(t, Options{bodyGrace: 200 * time.Millisecond})
	f.Route(shop(-1, map[int]muru.Backend{5: swallows(t)}))
	conn := f.dial()
	conn.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n")
	conn.trickle(strings.Repeat("x", 4000), 100)
	if r := conn.response("POST"); r.StatusCode != 200 || r.Close || readAll(t, r.Body) != "whole" {
		t.Error(r.Status)
	}
	conn.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if r := conn.response("GET"); r.StatusCode != 200 {
		t.Errorf("the next request: %s", r.Status)
	}
}

// A client that waits for its answer before it sends more is in a conversation.
func TestABodyMayTakeItsTimeOnceTheAnswerHasBegun(t *testing.T) {
	const grace = 50 * time.Millisecond
	f := newFront(t, Options{bodyGrace: grace})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if _, err := io.ReadFull(x.Body, make([]byte, 1)); err != nil {
			return muru.Outcome{Err: err}
		}
		if err := x.Answer.Head(200, eventStream, -1); err != nil {
			return muru.Outcome{Err: err}
		}
		n, err := io.Copy(io.Discard, x.Body)
		if err != nil || n != 1 {
			t.Errorf("read %d bytes, %v", n, err)
		}
		return muru.Outcome{Answered: true}
	})}))
	conn := f.dial()
	conn.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	r := conn.response("POST")
	timer := time.NewTimer(3 * grace) // what it is about: a pause
	<-timer.C
	conn.send("1\r\nx\r\n0\r\n\r\n")
	if body := readAll(t, r.Body); r.StatusCode != 200 || body != "" {
		t.Errorf("%s %q", r.Status, body)
	}
}

func TestAPaceCountsOnlyTheTimeThatReadsAreBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow time.Time
		p := pace{grace: bodyGrace, tooLow: func() { slow = time.Now() }}
		defer p.stop()
		read := func(blocked time.Duration, n int) {
			p.begin(time.Now())
			time.Sleep(blocked)
			p.end(n)
		}
		read(time.Second, 1)
		time.Sleep(time.Hour) // the backend works
		read(8*time.Second, 2*bodyRate)
		began := time.Now()
		read(time.Hour, 0)
		synctest.Wait()
		// Of the 10 seconds one is left, and two for what came.
		if took := slow.Sub(began); took < 3*time.Second || took > 3*time.Second+time.Millisecond {
			t.Errorf("too slow after %v", took)
		}
	})
}

func TestAPaceThatWasStoppedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{grace: bodyGrace, tooLow: func() { t.Error("too slow") }}
		p.begin(time.Now())
		p.stop()
		time.Sleep(time.Hour)
		p.end(0)
		p.begin(time.Now())
		time.Sleep(time.Hour)
		p.end(0)
	})
}

// A client that has next to no time left while its backend works: looking again
// as soon as that has passed would be looking all the time (and this test would
// not end).
func TestAPaceIsNotBusyWhileNoReadIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{grace: bodyGrace, tooLow: func() { t.Error("too slow") }}
		defer p.stop()
		p.begin(time.Now())
		time.Sleep(bodyGrace - time.Nanosecond)
		p.end(0)
		time.Sleep(time.Minute)
	})
}
