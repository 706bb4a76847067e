package edge

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

// watched is a watch of one request in a bubble of virtual time.
func watched(sink muru.Sink, thresholds ...muru.Threshold) (*watch, *muru.Exchange) {
	x := &muru.Exchange{Arrived: time.Now()}
	return newWatch(&judge{thresholds: thresholds, sink: sink}, x, &pace{}, muru.Fact{Release: rel(6), Arrived: x.Arrived}), x
}

var (
	slow   = muru.Threshold{Of: muru.OfDuration, After: time.Second}
	slower = muru.Threshold{Of: muru.OfDuration, After: 30 * time.Second}
	queued = muru.Threshold{Of: muru.OfQueueWait, After: 2 * time.Second}
)

// story is what a sink heard: "done" or the threshold's time.
func (h *heard) story() []string {
	var all []string
	for _, e := range h.all() {
		if e.done {
			all = append(all, "done "+http.StatusText(e.fact.Status))
		} else {
			all = append(all, e.threshold.Of.String()+" "+e.threshold.After.String())
		}
	}
	return all
}

func TestWhenAJudgeHearsOfARequest(t *testing.T) {
	for _, c := range []struct {
		what string
		run  func(w *watch, x *muru.Exchange)
		want []string
	}{
		{"answered in time", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			w.end(time.Now(), 200, 0, true)
		}, []string{"done OK"}},
		{"answered late", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			time.Sleep(3 * time.Second)
			w.end(time.Now(), 200, 0, true)
		}, []string{"duration 1s", "done OK"}},
		{"answered exactly at the threshold", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			w.end(x.Arrived.Add(time.Second), 200, 0, true)
		}, []string{"duration 1s", "done OK"}},
		{"measured late by an end that came before its timer", func(w *watch, x *muru.Exchange) {
			x.Start(x.Arrived.Add(5 * time.Second))
			w.end(x.Arrived.Add(31*time.Second), 200, 0, true)
		}, []string{"duration 1s", "duration 30s", "queue_wait 2s", "done OK"}},
		{"waited in the queue", func(w *watch, x *muru.Exchange) {
			time.Sleep(3 * time.Second)
			x.Start(time.Now())
			w.end(time.Now(), 200, 0, true)
		}, []string{"duration 1s", "queue_wait 2s", "done OK"}},
		{"started just in time, ran long", func(w *watch, x *muru.Exchange) {
			time.Sleep(1900 * time.Millisecond)
			x.Start(time.Now())
			time.Sleep(time.Minute)
			w.end(time.Now(), 504, muru.ReasonHardTimeout, true)
		}, []string{"duration 1s", "duration 30s", "done Gateway Timeout"}},
		{"left, and no answer ever came", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			time.Sleep(5 * time.Second)
			w.end(time.Now(), 499, muru.ReasonClientGone, false)
		}, []string{"duration 1s", "done ", "duration 30s"}},
		{"left while it was queued", func(w *watch, x *muru.Exchange) {
			w.end(time.Now(), 499, muru.ReasonClientGone, false)
		}, []string{"done ", "duration 1s", "queue_wait 2s", "duration 30s"}},
		{"left, and the worker answered in time", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			w.end(time.Now(), 499, muru.ReasonClientGone, true)
		}, []string{"done "}},
		{"a stream that goes on", func(w *watch, x *muru.Exchange) {
			x.Start(time.Now())
			w.headSent(time.Now())
			time.Sleep(time.Hour)
			w.end(time.Now(), 200, 0, true)
		}, []string{"done OK"}},
		{"a stream whose head came late", func(w *watch, x *muru.Exchange) {
			time.Sleep(3 * time.Second)
			x.Start(time.Now())
			w.headSent(time.Now())
			time.Sleep(time.Hour)
			w.end(time.Now(), 200, 0, true)
		}, []string{"duration 1s", "queue_wait 2s", "done OK"}},
		{"its release did not take it", func(w *watch, x *muru.Exchange) { w.drop() }, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &heard{}
				w, x := watched(sink, slow, slower, queued)
				c.run(w, x)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := sink.story(); !slices.Equal(got, c.want) {
					t.Errorf("heard %q, want %q", got, c.want)
				}
			})
		})
	}
}

// The release shifts the arrival by what it waited for the client itself.
func TestWaitingForTheClientsBodyIsNoQueueWait(t *testing.T) {
	for _, c := range []struct {
		queued time.Duration
		want   []string
	}{
		{1900 * time.Millisecond, []string{"done OK"}},
		{2100 * time.Millisecond, []string{"queue_wait 2s", "done OK"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			sink := &heard{}
			w, x := watched(sink, queued)
			w.pace.waited.Store(1)
			w.pace.begin(time.Now())
			time.Sleep(10 * time.Second)
			w.pace.end(1)
			x.Arrived = x.Arrived.Add(10 * time.Second)
			time.Sleep(c.queued)
			before := len(sink.story())
			x.Start(time.Now())
			w.end(time.Now(), 200, 0, true)
			if got := sink.story(); !slices.Equal(got, c.want) || before != len(c.want)-1 {
				t.Errorf("heard %q, %d of it while it was queued, want %q", got, before, c.want)
			}
		})
	}
}

func TestFactsSayHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &heard{}
		w, x := watched(sink, slow)
		time.Sleep(300 * time.Millisecond)
		x.Start(time.Now())
		time.Sleep(900 * time.Millisecond)
		w.end(time.Now(), 200, 0, true)
		all := sink.all()
		over, done := all[0].fact, all[1].fact
		if over.Duration != time.Second || over.QueueWait != 300*time.Millisecond || over.Status != 0 {
			t.Errorf("overdue %+v", over)
		}
		if done.Duration != 1200*time.Millisecond || done.QueueWait != 300*time.Millisecond || done.Stream || !done.Arrived.Equal(x.Arrived) {
			t.Errorf("done %+v", done)
		}
	})
}

func TestEndingTwiceIsABug(t *testing.T) {
	w, _ := watched(&heard{})
	w.end(time.Now(), 200, 0, true)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	w.end(time.Now(), 200, 0, true)
}

// A candidate whose requests never end is seen although every client gives up.
func TestARequestIsOverdueThoughItsClientLeft(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", []muru.Threshold{{Of: muru.OfDuration, After: 150 * time.Millisecond}}, sink)
	started, release := make(chan struct{}), make(chan struct{})
	f.Route(shop(5000, map[int]muru.Backend{5: says("r5"), 6: backendFunc(func(ctx context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		close(started)
		<-ctx.Done()
		<-release
		return muru.Outcome{Err: muru.ErrClientGone}
	})}))
	conn := f.dial()
	conn.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: muru_id=" + idIn(true) + "\r\n\r\n")
	<-started
	conn.Close()
	over := sink.wait(t, 1)[0]
	close(release)
	done := sink.wait(t, 2)[1]
	if over.done || over.fact.Release != rel(6) || over.fact.Share != 5000 || over.fact.Generation != 1 {
		t.Errorf("%+v", over)
	}
	if !done.done || done.fact.Status != 499 || done.fact.Client != over.fact.Client {
		t.Errorf("%+v", done)
	}
}

func TestFactsAreMadeOfRandomisedRequestsOnly(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	both := map[int]muru.Backend{5: says("r5"), 6: says("r6"), 7: says("r7")}
	f.Route(shop(1000, both))
	f.get("/") // before the judge
	f.Judge("shop", nil, sink)
	f.get("/") // it begins with the next Routing
	f.Route(shop(1000, both, func(r *muru.Routing) { r.Generation = 2 }))
	cookie := "Cookie: muru_id=" + idIn(true)
	f.get("/", "Muru-Preview: r7")
	f.get("/", "Cookie: muru_preview=r6")
	f.get("/", cookie)
	f.get("/", cookie)
	f.get("/")
	all := sink.wait(t, 3)
	if len(all) != 3 {
		t.Fatalf("heard %+v", all)
	}
	a, b, c := all[0].fact, all[1].fact, all[2].fact
	if a.Release != rel(6) || a.Generation != 2 || a.Share != 1000 || a.Minted || a.App != "shop" || a.Client == 0 || a.Status != 200 {
		t.Errorf("%+v", a)
	}
	if b.Client != a.Client || !c.Minted || c.Client == a.Client {
		t.Errorf("%+v\n%+v", b, c)
	}
	// At 100% ids decide nothing, but the judge still needs its requests.
	f.Route(shop(muru.Buckets, both))
	f.get("/")
	f.get("/", cookie)
	all = sink.wait(t, 5)
	if d, e := all[3].fact, all[4].fact; !d.Minted || d.Share != muru.Buckets || e.Minted || e.Client != a.Client {
		t.Errorf("%+v\n%+v", d, e)
	}
	f.Judge("shop", nil, nil)
	f.get("/", cookie)
	if n := len(sink.all()); n != 5 {
		t.Errorf("heard %d after the judge left", n)
	}
}
