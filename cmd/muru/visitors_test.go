package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"sync"
	"testing"
	"time"
)

// Visitors request a page again and again on connections that are kept, each
// time as somebody new.
type visitors struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex     // guards all below
	answers  map[string]int // "200 hello from shop@r1" or an error: how often
	requests int
}

// come sends n visitors to a page. every is the pause each makes after an
// answer; who has none in giveUp leaves.
func (s *stage) come(n int, path string, every, giveUp time.Duration) *visitors {
	ctx, stop := context.WithCancel(s.t.Context())
	v := &visitors{stop: stop, answers: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	client := &http.Client{Transport: transport}
	for range n {
		v.wg.Go(func() {
			tick := time.NewTicker(max(every, 1))
			defer tick.Stop()
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
				v.saw(visit(client, one, s.url+path))
				cancel()
				<-tick.C
			}
		})
	}
	s.t.Cleanup(func() { v.leave(); transport.CloseIdleConnections() })
	return v
}

func (v *visitors) saw(a answer) {
	text := fmt.Sprint(a.err)
	if a.err == nil {
		text = fmt.Sprintf("%d %.22s", a.code, a.body)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[text]++
	v.requests++
}

// seen counts the requests so far that were answered with what begins a text.
func (v *visitors) seen(text string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answers[text]
}

// leave ends the visits; it may be called twice.
func (v *visitors) leave() {
	v.stop()
	v.wg.Wait()
}

// wantOnlyGreetings ends the visits and checks that every request was
// answered by a release, and some were sent.
func (v *visitors) wantOnlyGreetings(t *testing.T) {
	t.Helper()
	v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	good := 0
	for text, n := range v.answers {
		var release string
		if _, err := fmt.Sscanf(text, "200 hello from %s", &release); err == nil {
			good += n
		}
	}
	if good != v.requests || good == 0 {
		t.Errorf("of %d requests %d were answered: %v", v.requests, good, v.answers)
	}
	t.Logf("%d requests: %v", v.requests, v.answers)
}

// A regular is a visitor with cookies.
type regular struct {
	s      *stage
	client *http.Client
}

func (s *stage) regulars(n int) []regular {
	s.t.Helper()
	all := make([]regular, n)
	for i := range all {
		jar, err := cookiejar.New(nil)
		if err != nil {
			s.t.Fatal(err)
		}
		all[i] = regular{s, &http.Client{Jar: jar}}
	}
	return all
}

// release is which release answers a page.
func (r regular) release(path string) string {
	r.s.t.Helper()
	a := visit(r.client, r.s.t.Context(), r.s.url+path)
	var release string
	if _, err := fmt.Sscanf(a.body, "hello from %s", &release); err != nil || a.err != nil || a.code != 200 {
		r.s.t.Errorf("answered %+v", a)
	}
	return release
}

// newClient is a client that was never here.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
