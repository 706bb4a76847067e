package edge

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muru"
)

// shadowed is the shop with copies for half of its clients to r6.
func shadowed(baseline, candidate muru.Backend, change ...func(*muru.Routing)) muru.Routing {
	change = append(change, func(r *muru.Routing) { r.Shadow = &muru.Shadow{Release: rel(6), Share: 5000} })
	return shop(0, map[int]muru.Backend{5: baseline, 6: candidate}, change...)
}

// copied and uncopied are clients of the shop.
var copied, uncopied = "Cookie: muru_id=" + idIn(true), "Cookie: muru_id=" + idIn(false)

func (f *front) copies(result string) string {
	var text strings.Builder
	f.WriteMetrics(&text)
	_, after, _ := strings.Cut(text.String(), `muru_shadow_copies_total{app="shop",release="r6",result="`+result+`"} `)
	n, _, _ := strings.Cut(after, "\n")
	return n
}

func TestARequestAndItsCopyAreHeardOfAsAPair(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: time.Hour}}, sink)
	got := make(chan *muru.Exchange, 1)
	candidate := backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		got <- x
		return say(x, 500, "r6", muru.Field{Name: "X-Slow", Value: "1"})
	})
	f.Route(shadowed(says("r5"), candidate, func(r *muru.Routing) { r.Marks = []string{"X-Slow"} }))
	if r := f.get("/orders/1?a=b", copied, "X-Own: 1"); r.StatusCode != 200 || r.body != "r5" {
		t.Errorf("%s %s", r.Status, r.body)
	}
	x := <-got
	has := map[string]string{}
	for _, f := range x.Header {
		has[f.Name] = f.Value
	}
	if x.Method != "GET" || x.Target != "/orders/1?a=b" || has["Muru-Shadow"] != "1" || has["X-Own"] != "1" || has["X-Request-Id"] != x.ID {
		t.Errorf("the copy is %s %s %v", x.Method, x.Target, has)
	}
	all := sink.wait(t, 1)
	if len(all) != 1 || all[0].copy == nil {
		t.Fatalf("%+v", all)
	}
	user, shadow := all[0].fact, *all[0].copy
	if user.Release != rel(5) || user.Status != 200 || user.Share != 5000 || user.Duration <= 0 {
		t.Errorf("the user's %+v", user)
	}
	if shadow.Release != rel(6) || shadow.Status != 500 || shadow.Share != 5000 || len(shadow.Marks) != 1 || shadow.Client != user.Client || shadow.Generation != 1 || shadow.Duration <= 0 {
		t.Errorf("the copy's %+v", shadow)
	}
	if f.copies("sent") != "1" || f.copies("dropped") != "0" || f.Counts(rel(6)) != (Counts{}) {
		t.Errorf("%s sent, %s dropped, %+v", f.copies("sent"), f.copies("dropped"), f.Counts(rel(6)))
	}
}

func TestWhatHasNoCopy(t *testing.T) {
	for _, c := range []struct {
		what, method string
		body         io.Reader
		field        string
		heard        int
	}{
		{"the other clients", "GET", nil, uncopied, 1},
		{"a POST", "POST", nil, copied, 1},
		{"OPTIONS", "OPTIONS", nil, copied, 1},
		{"a GET with a body", "GET", strings.NewReader("x"), copied, 1},
		{"a preview of the baseline", "GET", nil, "Muru-Preview: r5", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			sink := &heard{}
			f := newFront(t, Options{})
			f.Judge("shop", nil, sink)
			f.Route(shadowed(says("r5"), says("r6")))
			if r := f.do(c.method, "/", c.body, c.field); r.StatusCode != 200 || r.body != "r5" {
				t.Errorf("%s %s", r.Status, r.body)
			}
			all := sink.wait(t, c.heard)
			if len(all) != c.heard || c.heard == 1 && (!all[0].done || all[0].fact.Share != 0) {
				t.Errorf("%+v", all)
			}
			if f.copies("sent") != "0" || f.copies("dropped") != "0" {
				t.Errorf("%s sent, %s dropped", f.copies("sent"), f.copies("dropped"))
			}
		})
	}
}

func TestClientsOfAShadowAreTheFirstOfTheSplit(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shadowed(says("r5"), says("r6")))
	minted := ""
	for _, c := range f.get("/").Cookies() {
		if c.Name == idCookie {
			minted = c.Value
		}
	}
	if !isClientID(minted) || minted == "" {
		t.Fatalf("no client's id: %q", minted)
	}
	s := f.table.Load().apps["shop"].state.Load()
	split := shop(5000, map[int]muru.Backend{5: says("r5"), 6: says("r6")})
	next := f.newState(&app{}, split)
	for range 1000 {
		id := newClientID()
		c := client{header: map[string][]string{"Cookie": {"muru_id=" + id}}}
		now := s.pick(&c, "", time.Now())
		then := next.pick(&c, "", time.Now())
		if now.release != rel(5) || now.copied != (then.release == rel(6)) {
			t.Fatalf("%s: copied %v, then %v", id, now.copied, then.release)
		}
	}
}

func TestACopyNeverDelaysTheClient(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	release := make(chan struct{})
	var sent atomic.Int32
	hangs := backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		sent.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return muru.Outcome{Err: context.Cause(ctx)}
	})
	f.Route(shadowed(says("r5"), hangs))
	const n = maxCopies + 20
	for range n {
		if r := f.get("/", copied); r.body != "r5" {
			t.Fatal(r.body)
		}
	}
	if f.copies("sent") != "64" || f.copies("dropped") != "20" {
		t.Errorf("%s sent, %s dropped", f.copies("sent"), f.copies("dropped"))
	}
	// Those without a copy are ordinary; the others wait for theirs.
	eventually(t, func() bool { return len(sink.all()) == 20 })
	close(release)
	all := sink.wait(t, n)
	pairs := 0
	for _, h := range all {
		if h.copy != nil {
			pairs++
		}
	}
	if pairs != maxCopies || sent.Load() != maxCopies {
		t.Errorf("%d pairs of %d copies", pairs, sent.Load())
	}
}

// busyBackend is a release that has no room.
type busyBackend struct{ backendFunc }

func (busyBackend) Busy() bool { return true }

func TestABusyReleaseGetsNoCopies(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	f.Route(shadowed(says("r5"), busyBackend{says("r6")}))
	f.get("/", copied)
	if all := sink.wait(t, 1); !all[0].done || f.copies("dropped") != "1" || f.copies("sent") != "0" {
		t.Errorf("%+v, %s dropped", all, f.copies("dropped"))
	}
}

func TestACopyThatNeverReachedItsReleaseMakesNoPair(t *testing.T) {
	for _, cause := range []error{muru.ErrDraining, muru.ErrQueueFull, muru.ErrQueueTimeout, muru.ErrDrainCut} {
		sink := &heard{}
		f := newFront(t, Options{})
		f.Judge("shop", nil, sink)
		f.Route(shadowed(says("r5"), fails(cause)))
		f.get("/", copied)
		if all := sink.wait(t, 1); len(all) != 1 || !all[0].done || all[0].fact.Share != 0 {
			t.Errorf("%v: %+v", cause, all)
		}
	}
}

func TestHowCopiesEnd(t *testing.T) {
	begin := func(x *muru.Exchange, status int, length int64, fields ...muru.Field) error {
		x.Start(time.Now())
		return x.Answer.Head(status, fields, length)
	}
	for _, c := range []struct {
		what    string
		backend backendFunc
		status  int
		reason  muru.Reason
		stream  bool
	}{
		{"answered", says("r6"), 200, 0, false},
		{"not found", answers(404, "x"), 404, 0, false},
		{"raises", fails(muru.ErrApp), 500, muru.ReasonAppError, false},
		{"dies", fails(muru.ErrWorkerDied), 502, muru.ReasonWorkerCrashed, false},
		{"stuck", fails(muru.ErrHardTimeout), 504, muru.ReasonHardTimeout, false},
		{"unknown", fails(errors.New("?")), 502, muru.ReasonWorkerCrashed, false},
		{"panics", func(context.Context, *muru.Exchange) muru.Outcome { panic("BUG: on purpose") }, 502, muru.ReasonWorkerCrashed, false},
		{"a stream", func(ctx context.Context, x *muru.Exchange) muru.Outcome {
			if err := begin(x, 200, -1, eventStream...); err == nil {
				t.Error("the stream goes on")
			}
			return muru.Outcome{Err: muru.ErrClientGone}
		}, 200, 0, true},
		{"less than promised", func(_ context.Context, x *muru.Exchange) muru.Outcome {
			return muru.Outcome{Err: begin(x, 200, 5), Answered: true}
		}, 502, muru.ReasonWorkerCrashed, false},
		{"more than promised", func(_ context.Context, x *muru.Exchange) muru.Outcome {
			_ = begin(x, 200, 1)
			_, err := x.Answer.Write([]byte("xx"))
			return muru.Outcome{Err: err, Answered: true}
		}, 502, muru.ReasonWorkerCrashed, false},
		{"no content", func(_ context.Context, x *muru.Exchange) muru.Outcome {
			return muru.Outcome{Err: begin(x, 304, 5), Answered: true}
		}, 304, 0, false},
		{"too late", func(ctx context.Context, x *muru.Exchange) muru.Outcome {
			x.Start(time.Now())
			<-ctx.Done()
			time.Sleep(30 * time.Millisecond) // the worker's part goes on
			return muru.Outcome{Err: muru.ErrClientGone}
		}, 504, muru.ReasonHardTimeout, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			sink := &heard{}
			f := newFront(t, Options{})
			f.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: 100 * time.Millisecond}}, sink)
			f.Route(shadowed(says("r5"), c.backend))
			f.get("/", copied)
			h := sink.wait(t, 1)[0]
			if h.copy == nil || h.copy.Status != c.status || h.copy.Reason != c.reason || h.copy.Stream != c.stream {
				t.Errorf("%+v", h.copy)
			}
			if c.what == "too late" && h.copy.Duration < 100*time.Millisecond {
				t.Errorf("after %v", h.copy.Duration)
			}
			eventually(t, func() bool { return f.Edge.copies.Load() == 0 })
			if n := len(sink.all()); n != 1 {
				t.Errorf("heard %d times", n)
			}
		})
	}
}

func TestClosingEndsCopies(t *testing.T) {
	e := New(Options{})
	addr, err := e.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve() }()
	sink := &heard{}
	e.Judge("shop", nil, sink)
	var ended sync.WaitGroup
	ended.Add(1)
	e.Route(shadowed(says("r5"), backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		defer ended.Done()
		<-ctx.Done()
		return muru.Outcome{Err: context.Cause(ctx)}
	})))
	f := &front{Edge: e, t: t, address: addr.String()}
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + copied + "\r\n\r\n")
	if r := conn.response("GET"); readAll(t, r.Body) != "r5" {
		t.Error("not answered")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	ended.Wait()
	if n := e.copies.Load(); n != 0 {
		t.Errorf("%d copies are left", n)
	}
	if all := sink.wait(t, 1); len(all) != 1 || !all[0].done {
		t.Errorf("%+v", all)
	}
	<-served
}

func TestAPairTellsItsPartsInAnyOrder(t *testing.T) {
	user, shadow := muru.Fact{Release: rel(5)}, muru.Fact{Release: rel(6)}
	for _, c := range []struct {
		what string
		run  func(p *pair)
		want string
	}{
		{"the user first", func(p *pair) { p.Done(user); p.copied(shadow) }, "pair"},
		{"the copy first", func(p *pair) { p.copied(shadow); p.Done(user) }, "pair"},
		{"the first word on the copy counts", func(p *pair) { p.copied(shadow); p.dropped(); p.copied(shadow); p.Done(user) }, "pair"},
		{"times are the pair's", func(p *pair) { p.Overdue(user, slow); p.copied(shadow); p.Overdue(user, slower); p.Done(user) }, "pair"},
		{"the user alone", func(p *pair) { p.Done(user); p.dropped(); p.copied(shadow) }, "done"},
		{"the user alone, late", func(p *pair) { p.Overdue(user, slow); p.dropped(); p.Overdue(user, slower); p.Done(user) }, "1s 30s done"},
		{"the user alone, without an answer", func(p *pair) { p.Done(user); p.dropped(); p.Overdue(user, slower) }, "done 30s"},
		{"no user", func(p *pair) { p.copied(shadow) }, ""},
	} {
		sink := &heard{}
		c.run(&pair{sink: sink})
		var got []string
		for _, h := range sink.all() {
			switch {
			case h.copy != nil:
				got = append(got, "pair")
			case h.done:
				got = append(got, "done")
			default:
				got = append(got, h.threshold.After.String())
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
