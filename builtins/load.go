package builtins

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

// maxClients bounds the connections of one load.
const maxClients = 1000

// A loadPlan is what traffic was asked for.
type loadPlan struct {
	target   string // for errors
	base     *url.URL
	host     string // instead of base's, for apps by host name
	dial     string // address connected to instead of base's: a host name of an app need not resolve here
	token    string // for the edge of this muru only
	header   []muru.Field
	paths    []string
	clients  int
	rate     float64 // per second in all; 0: closed loop
	cookies  bool
	duration time.Duration
	timeout  time.Duration
	clock    rollout.Clock
}

// A load is traffic that runs or has run. Its methods are safe for concurrent
// use.
type load struct {
	plan    loadPlan
	client  *http.Client
	began   time.Time
	sending context.Context // ends when no more requests are to be sent
	stop    context.CancelFunc
	ctx     context.Context // ends when requests in flight are to be dropped
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when every client has ended

	mu    sync.Mutex
	count tally // guarded by mu
	ended bool  // guarded by mu
}

// loads are the loads of a Set. The zero value is ready.
type loads struct {
	mu     sync.Mutex
	active map[*load]bool // guarded by mu
	closed bool           // guarded by mu
}

// start begins a load; it runs until its duration has passed, it is stopped,
// or the loads are closed.
func (ls *loads) start(plan loadPlan) (*load, error) {
	l := &load{
		plan: plan, began: plan.clock.Now(), done: make(chan struct{}),
		count: tally{statuses: make(map[int]int), releases: make(map[string]int)},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.sending, l.stop = context.WithCancel(l.ctx)
	dialer := net.Dialer{Timeout: plan.timeout}
	l.client = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, cmp.Or(plan.dial, address))
			},
			MaxIdleConnsPerHost: maxClients,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			WriteBufferSize:     2 << 10,
			ReadBufferSize:      8 << 10,
		},
		// What an app answers is counted, not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		l.cancel(nil)
		return nil, muru.Errorf(muru.KindCanceled, "the run has ended")
	}
	if ls.active == nil {
		ls.active = make(map[*load]bool)
	}
	ls.active[l] = true
	go l.run(func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.active, l)
	})
	return l, nil
}

// close drops every load and waits for their ends, or for ctx.
func (ls *loads) close(ctx context.Context) error {
	ls.mu.Lock()
	ls.closed = true
	var running []*load
	for l := range ls.active {
		running = append(running, l)
	}
	ls.mu.Unlock()
	for _, l := range running {
		l.cancel(errRunEnded)
	}
	for _, l := range running {
		select {
		case <-l.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

var errRunEnded = errors.New("the run has ended")

// run drives the clients and returns when all of them have ended.
func (l *load) run(ended func()) {
	defer close(l.done)
	defer ended()
	defer l.cancel(nil)
	defer l.client.CloseIdleConnections()
	var clients sync.WaitGroup
	clients.Go(func() {
		defer l.stop()
		_ = rollout.Sleep(l.sending, l.plan.clock, l.plan.duration) // the end of sending ends it, too
	})
	if l.plan.rate > 0 {
		l.paced(&clients)
	} else {
		for range l.plan.clients {
			clients.Go(func() {
				for v := l.newVisitor(); l.sending.Err() == nil; {
					if !l.request(v) {
						// A server that is down is not asked in a tight loop.
						_ = rollout.Sleep(l.sending, l.plan.clock, 20*time.Millisecond)
					}
				}
			})
		}
	}
	clients.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.count.took = true, l.plan.clock.Now().Sub(l.began)
}

// paced sends at the rate of the plan. A visitor that is free sends the next
// request, a new one if there is none; when all there may be are busy, the
// requests that would be due are left out rather than sent in a burst later.
func (l *load) paced(clients *sync.WaitGroup) {
	interval := time.Duration(float64(time.Second) / l.plan.rate)
	free := make(chan visitor, maxClients)
	visitors, next := 0, l.began
	for {
		now := l.plan.clock.Now()
		if next.Before(now.Add(-time.Second)) {
			next = now
		}
		if err := rollout.Sleep(l.sending, l.plan.clock, next.Sub(now)); err != nil {
			return
		}
		next = next.Add(interval)
		var v visitor
		select {
		case v = <-free:
		default:
			if visitors == maxClients {
				continue
			}
			visitors++
			v = l.newVisitor()
		}
		clients.Go(func() {
			l.request(v)
			free <- v
		})
	}
}

// A visitor is one client: a cookie jar, or nothing.
type visitor struct{ jar http.CookieJar }

func (l *load) newVisitor() visitor {
	if !l.plan.cookies {
		return visitor{}
	}
	jar, _ := cookiejar.New(nil) // cannot fail
	return visitor{jar}
}

// request sends one request and counts what came of it; it reports whether
// there was a connection. One that the end of the run dropped is not counted.
func (l *load) request(v visitor) (connected bool) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.plan.timeout, errGaveUp)
	defer cancel()
	// The transport repeats a GET whose connection was closed without an
	// answer. Visitors would not notice; traffic is there to notice.
	var sent atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			sent.Add(1)
		}
	}})
	began := time.Now()
	status, release, err := l.send(ctx, v)
	took := time.Since(began)
	if err != nil && l.ctx.Err() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if repeated := int(sent.Load()) - 1; repeated > 0 {
		l.count.statuses[0] += repeated
	}
	switch {
	case err == nil:
		l.count.statuses[status]++
		l.count.times.Observe(took)
		if release != "" {
			l.count.releases[release]++
		}
	case context.Cause(ctx) == errGaveUp:
		l.count.gaveUp++
	default:
		l.count.statuses[0]++
		if l.count.failure == "" {
			l.count.failure = netProblem(err)
		}
		return false
	}
	return true
}

var errGaveUp = errors.New("given up")

func (l *load) send(ctx context.Context, v visitor) (status int, release string, err error) {
	u := l.plan.base.String()
	path := l.plan.paths[rand.IntN(len(l.plan.paths))]
	req, err := http.NewRequestWithContext(ctx, "GET", strings.TrimSuffix(u, "/")+path, nil)
	if err != nil {
		return 0, "", err
	}
	if l.plan.host != "" {
		req.Host = l.plan.host
	}
	for _, f := range l.plan.header {
		if f.Name == "Host" {
			req.Host = f.Value
			continue
		}
		req.Header[f.Name] = []string{f.Value}
	}
	if l.plan.token != "" {
		req.Header["Muru-Token"] = []string{l.plan.token}
	}
	if v.jar != nil {
		for _, cookie := range v.jar.Cookies(req.URL) {
			req.AddCookie(cookie)
		}
	}
	answer, err := l.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	if v.jar != nil {
		v.jar.SetCookies(req.URL, answer.Cookies())
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, "", err
	}
	return answer.StatusCode, answer.Header.Get("Muru-Release"), nil
}

// tally returns what was counted so far.
func (l *load) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.count
	t.statuses, t.releases, t.times = maps.Clone(t.statuses), maps.Clone(t.releases), t.times.Clone()
	if t.running = !l.ended; t.running {
		t.took = l.plan.clock.Now().Sub(l.began)
	}
	return t
}

// end lets the requests in flight finish and returns the counts.
func (l *load) end(ctx context.Context) (starlark.Value, error) {
	l.stop()
	select {
	case <-l.done:
		return trafficRecord(l, l.tally()), nil
	case <-ctx.Done():
		l.cancel(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// wait returns the counts when the load has run its duration. Traffic that
// nobody answered is an error.
func (l *load) wait(ctx context.Context) (starlark.Value, error) {
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t := l.tally()
	if err := l.nothingAnswered(t); err != nil {
		return nil, err
	}
	return trafficRecord(l, t), nil
}
