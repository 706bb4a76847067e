// Package visitortest visits what a muru serves, for tests. What it sends are
// real requests, and what it counts is what a person would have seen. wait.go
// has what such tests need beside: time, and a place for sockets.
package visitortest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Answer is what a visitor got.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
	Err    error // no connection, or one that was cut
}

// Visit makes a GET; fields are "Name: value".
func Visit(ctx context.Context, c *http.Client, url string, fields ...string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{Err: err}
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, string(body), err}
}

// NewClient is a client that was never here.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// Visitors request a page again and again on connections that are kept, each
// time as somebody new.
type Visitors struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex     // guards all below
	answers  map[string]int // "200 hello from shop@r1" or an error: how often
	requests int
}

// Come sends n visitors to a page, until they leave or the test ends. every is
// the pause each makes after an answer; who has none in giveUp leaves, and who
// is refused comes again.
func Come(t *testing.T, url string, n int, every, giveUp time.Duration) *Visitors {
	ctx, stop := context.WithCancel(t.Context())
	v := &Visitors{stop: stop, answers: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	client := &http.Client{Transport: transport}
	for range n {
		v.wg.Go(func() {
			tick := time.NewTicker(max(every, 1))
			defer tick.Stop()
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
				a := Visit(one, client, url)
				cancel()
				v.saw(a)
				if a.Err != nil {
					<-time.After(5 * time.Millisecond)
				}
				<-tick.C
			}
		})
	}
	t.Cleanup(func() { v.Leave(); transport.CloseIdleConnections() })
	return v
}

func (v *Visitors) saw(a Answer) {
	text := fmt.Sprint(a.Err)
	if a.Err == nil {
		text = fmt.Sprintf("%d %.22s", a.Code, a.Body)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[text]++
	v.requests++
}

// Seen counts the requests so far that were answered with what begins a text.
func (v *Visitors) Seen(text string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answers[text]
}

// String lists what was seen so far, and how often.
func (v *Visitors) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return fmt.Sprint(v.answers)
}

// Leave ends the visits; it may be called twice.
func (v *Visitors) Leave() {
	v.stop()
	v.wg.Wait()
}

// WantOnlyGreetings ends the visits and checks that every request was
// answered by a release, and some were sent.
func (v *Visitors) WantOnlyGreetings(t *testing.T) {
	t.Helper()
	v.Leave()
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

// WantOnlyAnswersOf ends the visits and checks that whoever was answered at
// all was answered by one of the releases. A connection may be refused, or
// reset before it was accepted.
func (v *Visitors) WantOnlyAnswersOf(t *testing.T, releases ...string) {
	t.Helper()
	v.Leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	unanswered := regexp.MustCompile(`^Get "[^"]*": (dial tcp \S+: connect: connection refused|read tcp .*: read: connection reset by peer)$`)
	for text, n := range v.answers {
		release, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "200 hello from ")
		if !(ok && slices.Contains(releases, release)) && !unanswered.MatchString(text) {
			t.Errorf("%d visitors got %q", n, text)
		}
	}
}
