package edge

import (
	"context"
	"strings"
	"testing"
	"time"

	"muru"
)

func TestARescuedRequestSaysWhoAnsweredIt(t *testing.T) {
	f := newFront(t, Options{Token: "t0ken"})
	f.Route(shop(muru.Buckets, map[int]muru.Backend{5: says("r5"), 6: fails(muru.ErrWorkerDied)}))
	r := f.get("/", "Muru-Token: t0ken")
	if r.StatusCode != 200 || r.body != "r5" || r.Header.Get("Muru-Release") != "shop@r5" {
		t.Errorf("%s %q of %q", r.Status, r.body, r.Header.Get("Muru-Release"))
	}
}

func TestARescuedStreamCountsUntilItsHead(t *testing.T) {
	f := newFront(t, Options{})
	end := make(chan struct{})
	stream := backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if err := x.Answer.Head(200, eventStream, -1); err != nil {
			return muru.Outcome{Err: err}
		}
		<-end
		return muru.Outcome{Answered: true}
	})
	f.Route(shop(muru.Buckets, map[int]muru.Backend{5: stream, 6: fails(muru.ErrWorkerDied)}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r := conn.response("GET") // the head is here
	began := time.Now()
	eventually(t, func() bool { return time.Since(began) > 300*time.Millisecond })
	close(end)
	readAll(t, r.Body)
	eventually(t, func() bool { return f.Counts(rel(5)).Requests == 1 })
	var text strings.Builder
	f.WriteMetrics(&text)
	const fast = `muru_request_seconds_bucket{app="shop",release="r5",le="0.25"} 1`
	if !strings.Contains(text.String(), fast) {
		t.Errorf("no %s in:\n%s", fast, text.String())
	}
}
