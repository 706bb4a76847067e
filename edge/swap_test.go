package edge

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"muru"
)

func TestNoRequestIsLostWhileRoutesChange(t *testing.T) {
	f := newFront(t, Options{AccessLog: &lines{}})
	both := map[int]muru.Backend{5: says("r5"), 6: says("r6")}
	f.Route(shop(0, both))
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		sink := &nobody{}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			f.Judge("shop", []muru.Threshold{{After: time.Hour}}, sink)
			f.Route(shop(muru.Share(i%10)*1000, both, func(r *muru.Routing) {
				r.Generation = uint64(i)
				if i%3 == 0 {
					r.Route.Hosts = []string{"127.0.0.1"} // another table
				}
			}))
			f.Route(muru.Routing{Route: muru.Route{App: "other", Path: "/other"}})
			f.Remove("other")
			f.Judge("shop", nil, nil)
			f.WriteMetrics(&lines{})
		}
	})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 200 {
				r, err := f.client.Get(f.url)
				if err != nil {
					t.Error(err)
					return
				}
				body := readAll(t, r.Body)
				r.Body.Close()
				if r.StatusCode != http.StatusOK || body != "r5" && body != "r6" {
					t.Errorf("%s %s", r.Status, body)
				}
			}
		})
	}
	users.Wait()
	close(stop)
	changes.Wait()
	if c5, c6 := f.Counts(rel(5)), f.Counts(rel(6)); c5.Requests+c6.Requests != 800 {
		t.Errorf("counted %+v and %+v", c5, c6)
	}
}

func TestClientsWithoutCookiesAreDividedByTheShare(t *testing.T) {
	e := New(Options{})
	e.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}))
	s := e.table.Load().apps["shop"].state.Load()
	const n = 10000
	in := 0
	for range n {
		if ch := s.pick(&client{header: http.Header{}}, "x", time.Now()); ch.release == rel(6) {
			in++
		}
	}
	// Ids are random: five sigma, so that it fails once in two million runs.
	if math.Abs(float64(in)-n*0.1) > 5*math.Sqrt(n*0.1*0.9) {
		t.Errorf("%d of %d", in, n)
	}
}
