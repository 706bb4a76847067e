package edge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

func TestABodyOverItsLimitIsRefused(t *testing.T) {
	f := newFront(t, Options{})
	var asked atomic.Int32
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		asked.Add(1)
		x.Start(time.Now())
		body, err := io.ReadAll(x.Body)
		if err != nil {
			if len(body) != 10 || !errors.Is(err, muru.ErrBodyTooLarge) {
				t.Errorf("read %d bytes: %v", len(body), err)
			}
			return muru.Outcome{Err: muru.ErrApp} // what an app makes of it
		}
		return say(x, 200, string(body))
	})}, func(r *muru.Routing) { r.Route.MaxBody = 10 }))

	if r := f.do("POST", "/", strings.NewReader("0123456789")); r.body != "0123456789" {
		t.Errorf("at the limit: %s", r.body)
	}
	asked.Store(0)
	r := f.do("POST", "/", strings.NewReader("0123456789a"), "Expect: 100-continue")
	if r.StatusCode != 413 || !strings.Contains(r.body, "reason: body_too_large\n") || asked.Load() != 0 {
		t.Errorf("declared: %s %s", r.Status, r.body)
	}
	r = f.do("POST", "/", io.MultiReader(strings.NewReader("0123456789"), strings.NewReader("a")))
	if r.StatusCode != 413 || !strings.Contains(r.body, "reason: body_too_large\n") || asked.Load() != 1 {
		t.Errorf("streamed: %s %s", r.Status, r.body)
	}
}

func TestABrokenBodyIsTheClientsFault(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		_, err := io.ReadAll(x.Body)
		if !errors.Is(err, muru.ErrMalformedBody) {
			t.Errorf("read: %v", err)
		}
		return muru.Outcome{Err: err}
	})}))
	for _, chunk := range []string{"zz\r\n", "4\r\nwikipedia\r\n", "ffffffffffffffffff\r\n"} {
		conn := f.dial()
		conn.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
		r := conn.response("POST")
		if body := readAll(t, r.Body); r.StatusCode != 400 || !strings.Contains(body, "reason: malformed\n") || !r.Close {
			t.Errorf("%q: %s %s", chunk, r.Status, body)
		}
	}
}

func TestAClientThatLeavesInItsBodyIsGone(t *testing.T) {
	var log lines
	sink := &heard{}
	f := newFront(t, Options{AccessLog: &log})
	f.Judge("shop", nil, sink)
	started := make(chan struct{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		_, err := io.ReadAll(x.Body)
		if !errors.Is(err, muru.ErrClientGone) {
			t.Errorf("read: %v", err)
		}
		return muru.Outcome{Err: err}
	})}))
	conn := f.dial()
	conn.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	<-started
	conn.Close()
	if fact := sink.wait(t, 1)[0].fact; fact.Status != 499 || fact.Reason != muru.ReasonClientGone {
		t.Errorf("%+v", fact)
	}
}

func TestAClientThatLeavesCancelsItsRequest(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	started := make(chan struct{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		<-ctx.Done()
		return muru.Outcome{Err: context.Cause(ctx)}
	})}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-started
	conn.Close()
	if fact := sink.wait(t, 1)[0].fact; fact.Status != 499 || fact.Reason != muru.ReasonClientGone {
		t.Errorf("%+v", fact)
	}
	if c := f.Counts(rel(5)); c.ServerErrors != 0 || c.Requests != 1 {
		t.Errorf("%+v", c)
	}
}

// A client that does not read must not be waited for without end; here it
// leaves before that.
func TestASlowClientHoldsOnlyItself(t *testing.T) {
	f := newFront(t, Options{})
	wrote := make(chan error, 1)
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if x.Path != "/large" {
			return say(x, 200, "quick")
		}
		err := x.Answer.Head(200, nil, -1)
		part := make([]byte, 64<<10)
		for err == nil {
			_, err = x.Answer.Write(part)
		}
		wrote <- err
		return muru.Outcome{Err: err}
	})}))
	conn := f.dial()
	conn.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
	conn.response("GET")
	if r := f.get("/"); r.body != "quick" {
		t.Errorf("%s", r.body)
	}
	conn.Close()
	if err := <-wrote; !errors.Is(err, muru.ErrClientGone) {
		t.Errorf("write: %v", err)
	}
}

func TestARequestThatDiedInTheCandidateIsTriedOnceOnTheBaseline(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	candidate := func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if x.Path == "/head" {
			// Its head was passed, and nothing of the body.
			_ = x.Answer.Head(200, []muru.Field{{Name: "X-From", Value: "r6"}}, 10)
		}
		return muru.Outcome{Err: muru.ErrWorkerDied}
	}
	f.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: backendFunc(candidate)}))
	cookie := "Cookie: muru_id=" + idIn(true)
	for _, path := range []string{"/", "/head"} {
		if r := f.get(path, cookie); r.StatusCode != 200 || r.body != "r5" || r.Header.Get("X-From") != "" {
			t.Errorf("%s: %s %s %v", path, r.Status, r.body, r.Header)
		}
	}
	if r := f.do("POST", "/", strings.NewReader("x"), cookie); r.StatusCode != 502 {
		t.Errorf("POST: %s", r.Status)
	}
	if r := f.get("/", "Muru-Preview: r6"); r.StatusCode != 502 {
		t.Errorf("preview: %s", r.Status)
	}
	all := sink.wait(t, 3)
	if len(all) != 3 {
		t.Errorf("heard %+v", all)
	}
	for _, h := range all {
		if h.fact.Release != rel(6) || h.fact.Status != 502 || h.fact.Reason != muru.ReasonWorkerCrashed {
			t.Errorf("%+v", h)
		}
	}
	if c := f.Counts(rel(6)); c.ServerErrors != 4 {
		t.Errorf("candidate %+v", c)
	}
	if c := f.Counts(rel(5)); c.Requests != 2 || c.ServerErrors != 0 {
		t.Errorf("baseline %+v", c)
	}
}

func TestABaselineThatDiesIsNotTriedAgain(t *testing.T) {
	f := newFront(t, Options{})
	var asked atomic.Int32
	dies := backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		asked.Add(1)
		return muru.Outcome{Err: muru.ErrWorkerDied}
	})
	f.Route(shop(1000, map[int]muru.Backend{5: dies, 6: dies}))
	if r := f.get("/", "Cookie: muru_id="+idIn(false)); r.StatusCode != 502 || asked.Load() != 1 {
		t.Errorf("%s after %d", r.Status, asked.Load())
	}
	if r := f.get("/", "Cookie: muru_id="+idIn(true)); r.StatusCode != 502 || asked.Load() != 3 {
		t.Errorf("%s after %d", r.Status, asked.Load())
	}
}

func TestARequestForAReleaseThatLeavesIsPickedOnceMore(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: time.Hour}}, sink)
	next := shop(-1, map[int]muru.Backend{6: says("r6")}, func(r *muru.Routing) {
		r.Generation = 2
		r.Split, _ = muru.NewSplit("", rel(6))
	})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(context.Context, *muru.Exchange) muru.Outcome {
		f.Route(next)
		return muru.Outcome{Err: muru.ErrDraining}
	})}))
	if r := f.get("/"); r.body != "r6" {
		t.Errorf("%s", r.body)
	}
	all := sink.wait(t, 1)
	if len(all) != 1 || all[0].fact.Release != rel(6) || all[0].fact.Generation != 2 || all[0].fact.Status != 200 {
		t.Errorf("%+v", all)
	}
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(context.Context, *muru.Exchange) muru.Outcome {
		f.Remove("shop")
		return muru.Outcome{Err: muru.ErrDraining}
	})}))
	if r := f.get("/"); r.StatusCode != 404 {
		t.Errorf("%s", r.Status)
	}
}

// A candidate is taken out while a request waits there, and then the baseline.
func TestARequestIsPickedForAsManyReleasesAsAreTakenOutBehindIt(t *testing.T) {
	for _, c := range []struct{ leave, status int }{{2, 200}, {3, 503}} {
		f := newFront(t, Options{})
		asked := 0
		f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
			if asked++; asked <= c.leave {
				return muru.Outcome{Err: muru.ErrDraining}
			}
			return says("r5")(ctx, x)
		})}))
		if r := f.get("/"); r.StatusCode != c.status {
			t.Errorf("%d leave: %s", c.leave, r.Status)
		}
		if asked != 3 {
			t.Errorf("%d leave: %d were asked", c.leave, asked)
		}
	}
}

func TestAnAnswerThatBreaksOffIsACutConnection(t *testing.T) {
	for _, c := range []struct {
		what   string
		length int64
		write  string
		err    error
		status int
	}{
		{"a length, then death", 100, "some", muru.ErrWorkerDied, 502},
		{"a stream, then death", -1, "some", muru.ErrWorkerDied, 502},
		{"a stream, then its limit", -1, "", muru.ErrHardTimeout, 504},
		{"less than promised", 100, "some", nil, 502},
	} {
		sink := &heard{}
		f := newFront(t, Options{})
		f.Judge("shop", nil, sink)
		f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
			x.Start(time.Now())
			err := x.Answer.Head(200, nil, c.length)
			_, werr := io.WriteString(x.Answer, c.write)
			if err := errors.Join(err, werr, x.Answer.Flush()); err != nil {
				t.Error(err)
			}
			return muru.Outcome{Err: c.err}
		})}))
		conn := f.dial()
		conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r := conn.response("GET")
		if _, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: the client reads %v", c.what, err)
		}
		if fact := sink.wait(t, 1)[0].fact; fact.Status != c.status {
			t.Errorf("%s: %+v", c.what, fact)
		}
	}
}

func TestABackendThatAnswersMoreThanPromisedIsNotBelieved(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		_ = x.Answer.Head(200, nil, 2)
		_, err := x.Answer.Write([]byte("three"))
		return muru.Outcome{Err: err}
	})}))
	if r := f.get("/"); r.StatusCode != 502 {
		t.Errorf("%s %s", r.Status, r.body)
	}
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		return muru.Outcome{}
	})}))
	if r := f.get("/"); r.StatusCode != 502 {
		t.Errorf("%s %s", r.Status, r.body)
	}
}

func TestABackendThatPanicsCountsAgainstItsRelease(t *testing.T) {
	var log lines
	sink := &heard{}
	f := newFront(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.Judge("shop", nil, sink)
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(context.Context, *muru.Exchange) muru.Outcome {
		panic("BUG: on purpose")
	})}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := conn.r.ReadByte(); err == nil {
		t.Error("answered")
	}
	if fact := sink.wait(t, 1)[0].fact; fact.Status != 502 {
		t.Errorf("%+v", fact)
	}
	eventually(t, func() bool { return strings.Contains(log.String(), "BUG: on purpose") })
	if c := f.Counts(rel(5)); c != (Counts{Requests: 1, ServerErrors: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestAHostileConnectionHeaderIsCheap(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5")}))
	quickest := time.Hour // of three: the machine may be busy with something else
	for range 3 {
		conn := f.dial()
		began := time.Now()
		conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.Repeat("a,", 15000) + "\r\n" + strings.Repeat("b:\r\n", 8000) + "\r\n")
		if r := conn.response("GET"); r.StatusCode != 200 {
			t.Errorf("%s", r.Status)
		}
		quickest = min(quickest, time.Since(began))
	}
	if quickest > time.Second {
		t.Errorf("took %v", quickest)
	}
}

func TestATargetThatIsNoPathIsMalformed(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5")}))
	for _, target := range []string{"foo:bar", "http:example", "*", "mailto:a@b"} {
		conn := f.dial()
		conn.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		r := conn.response("GET")
		if body := readAll(t, r.Body); r.StatusCode != 400 {
			t.Errorf("%s: %s %s", target, r.Status, body)
		}
	}
}
