package edge

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

func withShield(r *muru.Routing) { r.Shield = true }

// answers is a release that answers every request with a status.
func answers(status int, text string, fields ...muru.Field) backendFunc {
	return func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		return say(x, status, text, fields...)
	}
}

// failingWays are the ways in which a release fails before a byte is sent.
var failingWays = []struct {
	what    string
	backend backendFunc
	status  int
	reason  muru.Reason
}{
	{"answers 500", answers(500, "Traceback", muru.Field{Name: "X-From", Value: "r6"}), 500, 0},
	{"answers 503", answers(503, ""), 503, 0},
	{"streams a 502", func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		err := x.Answer.Head(502, eventStream, -1)
		_, _ = x.Answer.Write([]byte("data: 1\n\n"))
		_ = x.Answer.Flush()
		_ = x.Answer.Trailer([]muru.Field{{Name: "X-Sum", Value: "1"}})
		return muru.Outcome{Err: err}
	}, 502, 0},
	{"raises", fails(muru.ErrApp), 500, muru.ReasonAppError},
	{"dies", fails(muru.ErrWorkerDied), 502, muru.ReasonWorkerCrashed},
	{"is stuck", fails(muru.ErrHardTimeout), 504, muru.ReasonHardTimeout},
	{"is busy", fails(muru.ErrQueueTimeout), 503, muru.ReasonQueueTimeout},
	{"is full", fails(muru.ErrQueueFull), 503, muru.ReasonQueueFull},
	{"dies after its head", func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		_ = x.Answer.Head(200, []muru.Field{{Name: "X-From", Value: "r6"}}, 10)
		return muru.Outcome{Err: muru.ErrWorkerDied}
	}, 502, muru.ReasonWorkerCrashed},
}

func TestAShieldedFailureIsAnsweredByTheBaseline(t *testing.T) {
	for _, way := range failingWays {
		t.Run(way.what, func(t *testing.T) {
			var log lines
			sink := &heard{}
			f := newFront(t, Options{AccessLog: &log, Token: "t0ken"})
			f.Judge("shop", nil, sink)
			f.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: way.backend}, withShield))
			r := f.get("/", "Cookie: muru_id="+idIn(true), "Muru-Token: t0ken")
			if r.StatusCode != 200 || r.body != "r5" || r.Header.Get("X-From") != "" || r.Header.Get("Muru-Release") != "shop@r5" {
				t.Errorf("%s %q %v", r.Status, r.body, r.Header)
			}
			fact := sink.wait(t, 1)[0].fact
			if fact.Release != rel(6) || fact.Status != way.status || fact.Reason != way.reason || !fact.Shielded || fact.Stream {
				t.Errorf("%+v", fact)
			}
			eventually(t, func() bool { return f.Counts(rel(5)).Requests == 1 })
			if c := f.Counts(rel(6)); c != (Counts{Requests: 1, ServerErrors: 1}) {
				t.Errorf("candidate %+v", c)
			}
			if c := f.Counts(rel(5)); c != (Counts{Requests: 1}) {
				t.Errorf("baseline %+v", c)
			}
			if n := len(sink.all()); n != 1 {
				t.Errorf("heard %d times", n)
			}
			var line struct {
				Release  string
				Status   int
				Shielded bool
			}
			eventually(t, func() bool { f.access.flush(); return log.String() != "" })
			if err := json.Unmarshal([]byte(log.String()), &line); err != nil || !line.Shielded || line.Status != 200 || line.Release != "r6" {
				t.Errorf("%v %s", err, log.String())
			}
		})
	}
}

func TestWhatNoShieldCovers(t *testing.T) {
	cookie := "Cookie: muru_id=" + idIn(true)
	for _, c := range []struct {
		what, method string
		body         io.Reader
		field        string
		heard        int // 0: a preview
		change       func(*muru.Routing)
	}{
		{"a POST", "POST", nil, cookie, 1, withShield},
		{"a DELETE", "DELETE", nil, cookie, 1, withShield},
		{"OPTIONS", "OPTIONS", nil, cookie, 1, withShield},
		{"a GET with a body", "GET", strings.NewReader("x"), cookie, 1, withShield},
		{"a preview", "GET", nil, "Muru-Preview: r6", 0, withShield},
		{"the baseline", "GET", nil, "Cookie: muru_id=" + idIn(false), 1, withShield},
		{"a route without", "GET", nil, cookie, 1, func(*muru.Routing) {}},
		{"a candidate alone", "GET", nil, cookie, 1, func(r *muru.Routing) {
			withShield(r)
			r.Split, _ = muru.NewSplit("rollout 1", rel(6))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			sink := &heard{}
			f := newFront(t, Options{})
			f.Judge("shop", nil, sink)
			f.Route(shop(1000, map[int]muru.Backend{5: answers(500, "r5"), 6: answers(500, "r6")}, c.change))
			if r := f.do(c.method, "/", c.body, c.field); r.StatusCode != 500 || !strings.HasPrefix(r.body, "r") {
				t.Errorf("%s %q", r.Status, r.body)
			}
			all := sink.wait(t, c.heard)
			if len(all) != c.heard || c.heard > 0 && (all[0].fact.Shielded || all[0].fact.Status != 500) {
				t.Errorf("%+v", all)
			}
			if n := f.Counts(rel(5)).Requests + f.Counts(rel(6)).Requests; n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAShieldAsksOnceAndPassesOnTheBaselinesFailure(t *testing.T) {
	for _, way := range failingWays {
		t.Run("the baseline "+way.what, func(t *testing.T) {
			sink := &heard{}
			f := newFront(t, Options{})
			f.Judge("shop", nil, sink)
			var asked atomic.Int32
			baseline := backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
				asked.Add(1)
				return way.backend(ctx, x)
			})
			f.Route(shop(1000, map[int]muru.Backend{5: baseline, 6: answers(501, "r6")}, withShield))
			r := f.get("/", "Cookie: muru_id="+idIn(true))
			if r.StatusCode != way.status || r.body == "r6" || asked.Load() != 1 {
				t.Errorf("%s %q after %d", r.Status, r.body, asked.Load())
			}
			all := sink.wait(t, 1)
			if f := all[0].fact; len(all) != 1 || f.Release != rel(6) || f.Status != 501 || !f.Shielded {
				t.Errorf("%+v", all)
			}
			eventually(t, func() bool { return f.Counts(rel(5)).ServerErrors == 1 })
		})
	}
}

func TestAShieldHasAHeadToo(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(muru.Buckets, map[int]muru.Backend{5: says("r5"), 6: answers(500, "")}, withShield))
	if r := f.do("HEAD", "/", nil); r.StatusCode != 200 || r.ContentLength != 2 || r.body != "" {
		t.Errorf("%s %q %d", r.Status, r.body, r.ContentLength)
	}
}

func TestAShieldedClientThatLeavesIsGone(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	started := make(chan struct{})
	baseline := backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		<-ctx.Done()
		return muru.Outcome{Err: context.Cause(ctx)}
	})
	f.Route(shop(muru.Buckets, map[int]muru.Backend{5: baseline, 6: answers(500, "")}, withShield))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-started
	conn.Close()
	if fact := sink.wait(t, 1)[0].fact; fact.Status != 500 || !fact.Shielded {
		t.Errorf("%+v", fact)
	}
	eventually(t, func() bool { return f.Counts(rel(5)).Requests == 1 })
	if c := f.Counts(rel(5)); c.ServerErrors != 0 {
		t.Errorf("baseline %+v", c)
	}
}
