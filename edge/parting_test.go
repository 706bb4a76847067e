package edge

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"muru"
)

// closeSoon begins to close an edge and returns when its answers say so. It
// returns how long the close took.
func closeSoon(t *testing.T, f *front) <-chan time.Duration {
	t.Helper()
	took := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		took <- time.Since(began)
	}()
	eventually(t, f.parting.Load)
	return took
}

// ends checks that a connection's next request is answered, and is its last.
func (c *rawConn) ends(want string) {
	c.t.Helper()
	c.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	r := c.response("GET")
	if !r.Close || readAll(c.t, r.Body) != want {
		c.t.Errorf("%s, closes: %v", r.Status, r.Close)
	}
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Errorf("then %q, %v", rest, err)
	}
}

func TestKeptConnectionsEndWithTheirNextAnswerWhenTheEdgeCloses(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}, func(r *muru.Routing) {
		r.Route.Health = "/health"
		r.Route.Hosts = []string{"a"}
	}))
	idle, waiting := f.dial(), f.dial()
	for _, c := range []*rawConn{idle, waiting} {
		c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r := c.response("GET"); r.Close || readAll(t, r.Body) != "whole" {
			t.Fatal("the connection is not kept")
		}
	}
	health, page := f.dial(), f.dial()
	health.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
	readAll(t, health.response("GET").Body)
	page.send("GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n")
	readAll(t, page.response("GET").Body)

	took := closeSoon(t, f)
	idle.ends("whole")
	f.dial().ends("whole") // a new one gets its answer, too
	health.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := health.response("GET"); !r.Close {
		t.Error("the health page keeps its connection")
	}
	page.send("GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n")
	if r := page.response("GET"); !r.Close {
		t.Error("a failure page keeps its connection")
	}
	waiting.ends("whole")
	if d := <-took; d >= partingTime {
		t.Errorf("closing took %v with no connection left", d)
	}
	if c, err := net.Dial("tcp", f.address); err == nil {
		c.Close()
		t.Error("a closed edge takes connections")
	}
}

func TestClosingWaitsForSilentConnectionsOnlyAMoment(t *testing.T) {
	t.Parallel()
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	readAll(t, conn.response("GET").Body)
	took := closeSoon(t, f)
	if rest, err := io.ReadAll(conn.r); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if d := <-took; d < partingTime || d > 3*partingTime {
		t.Errorf("closing took %v", d)
	}
}

func TestClosingDoesNotWaitForConnectionsThatNeverSaidAnything(t *testing.T) {
	t.Parallel()
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	silent := f.dial()
	eventually(t, func() bool { return f.open.Load() == 1 })
	took := closeSoon(t, f)
	late := f.dial() // accepted, most likely, but with as little to say
	if d := <-took; d > 3*partingTime {
		t.Errorf("closing took %v", d)
	}
	for _, c := range []*rawConn{silent, late} {
		if text, _ := io.ReadAll(c.r); len(text) > 0 {
			t.Errorf("told %q", text)
		}
	}
}

func TestNothingConnectedIsNothingToWaitFor(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	if d := <-closeSoon(t, f); d >= partingTime/2 {
		t.Errorf("closing took %v", d)
	}
}

func TestClosingWaitsForTheRestOfAHead(t *testing.T) {
	t.Parallel()
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	kept, fresh := f.dial(), f.dial()
	kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	readAll(t, kept.response("GET").Body)
	for _, c := range []*rawConn{kept, fresh} {
		c.send("GET / HT")
	}
	eventually(t, func() bool { return f.open.Load() == 2 })
	took := closeSoon(t, f)
	time.Sleep(partingTime + 200*time.Millisecond)
	if c, err := net.Dial("tcp", f.address); err == nil {
		c.Close()
		t.Error("new connections are taken all the while")
	}
	for _, c := range []*rawConn{kept, fresh} {
		c.send("TP/1.1\r\nHost: a\r\n\r\n")
		if r := c.response("GET"); !r.Close || readAll(t, r.Body) != "whole" {
			t.Errorf("%s, closes: %v", r.Status, r.Close)
		}
	}
	if d := <-took; d > comingTime {
		t.Errorf("closing took %v", d)
	}
}

func TestClosingGivesUpOnAHeadThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	f.dial().send("GET / HT")
	if d := <-closeSoon(t, f); d > partingTime+comingTime+time.Second {
		t.Errorf("closing took %v", d)
	}
}

// Whoever was let in is answered: nobody who connects while the edge closes
// gets the end of the connection instead.
func TestNewConnectionsAreAnsweredOrRefusedWhileTheEdgeCloses(t *testing.T) {
	t.Parallel()
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("whole")}))
	f.dial() // somebody to part from
	eventually(t, func() bool { return f.open.Load() == 1 })
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", f.address)
				if err != nil {
					return // refused: it has closed
				}
				_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				text, lost := io.ReadAll(c)
				c.Close()
				if errors.Join(err, lost) == nil && len(text) == 0 { // the system resets what nobody took
					t.Error("let in and not answered")
					return
				}
			}
		})
	}
	<-closeSoon(t, f)
	clients.Wait()
}
