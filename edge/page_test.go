package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"muru"
)

func TestEveryCauseHasItsStatusAndPage(t *testing.T) {
	f := newFront(t, Options{})
	for _, c := range []struct {
		cause    error
		status   int
		reason   string
		sentence string
	}{
		{muru.ErrApp, 500, "app_error", "The application raised an exception."},
		{muru.ErrWorkerDied, 502, "worker_crashed", "The worker answering this request died."},
		{muru.ErrHardTimeout, 504, "hard_timeout", "The request ran past its time limit."},
		{muru.ErrQueueTimeout, 503, "queue_timeout", "No worker was free in time."},
		{muru.ErrQueueFull, 503, "queue_full", "Too many requests are waiting."},
		{muru.ErrDraining, 503, "no_release", "Nothing is serving this application."},
		{muru.ErrDrainCut, 503, "no_release", "Nothing is serving this application."},
		{muru.ErrBodyTooLarge, 413, "body_too_large", "The request's body is too large."},
		{muru.ErrBodyTooSlow, 408, "body_too_slow", "The request's body came too slowly."},
		{muru.ErrMalformedBody, 400, "malformed", "The request cannot be understood."},
		{fmt.Errorf("link 3: %w", muru.ErrWorkerDied), 502, "worker_crashed", "The worker answering this request died."},
		{errors.New("what is this"), 502, "worker_crashed", "The worker answering this request died."},
	} {
		f.Route(shop(-1, map[int]muru.Backend{5: fails(c.cause)}))
		r := f.get("/")
		id := ""
		if lines := strings.Split(r.body, "\n"); len(lines) > 2 {
			id = strings.TrimPrefix(lines[2], "request id: ")
		}
		want := fmt.Sprintf("%d %s\nreason: %s\nrequest id: %s\n%s\n", c.status, http.StatusText(c.status), c.reason, id, c.sentence)
		if r.StatusCode != c.status || r.body != want || len(id) != 26 {
			t.Errorf("%v: %s\n%s", c.cause, r.Status, r.body)
		}
		if retry := r.Header.Get("Retry-After"); (retry == "1") != (c.status == 503) {
			t.Errorf("%v: Retry-After %q", c.cause, retry)
		}
		if r.Header.Get("Content-Type") != "text/plain; charset=utf-8" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v: %v", c.cause, r.Header)
		}
	}
}

func TestPagesForRequestsWithoutARelease(t *testing.T) {
	f := newFront(t, Options{})
	if r := f.get("/"); r.StatusCode != 404 || !strings.Contains(r.body, "reason: no_route\n") || !strings.HasSuffix(r.body, "\nNo application is served here.\n") {
		t.Errorf("%s", r.body)
	}
	f.Route(muru.Routing{Route: muru.Route{App: "shop"}})
	if r := f.get("/"); r.StatusCode != 503 || !strings.Contains(r.body, "reason: no_release\n") || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%s", r.body)
	}
	f.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}))
	r := f.get("/", "Muru-Preview: r9")
	if r.StatusCode != 404 || !strings.Contains(r.body, "reason: no_such_release\n") || !strings.HasSuffix(r.body, "\nThere is no such release.\n") {
		t.Errorf("%s", r.body)
	}
	f.Route(shop(1000, map[int]muru.Backend{5: says("r5"), 6: says("r6")}, func(r *muru.Routing) {
		r.Route.Maintenance = "Back at <noon>."
	}))
	r = f.get("/", "Accept: text/html")
	if r.StatusCode != 503 || !strings.Contains(r.body, "<p>Back at &lt;noon&gt;.</p>") || !strings.Contains(r.body, "reason: maintenance") ||
		r.Header.Get("Retry-After") != "1" || r.Header.Get("Set-Cookie") != "" {
		t.Errorf("%s %v", r.body, r.Header)
	}
	if r := f.get("/", "Muru-Preview: r6"); r.body != "r6" {
		t.Errorf("a preview during maintenance: %s", r.body)
	}
	f.Remove("shop")
	f.Remove("shop")
	if r := f.get("/"); r.StatusCode != 404 {
		t.Errorf("%s", r.body)
	}
}

func TestPagesComeInTheFormThatIsAccepted(t *testing.T) {
	f := newFront(t, Options{})
	r := f.get("/", "Accept: application/json")
	var problem map[string]any
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil {
		t.Fatal(err)
	}
	if r.Header.Get("Content-Type") != "application/problem+json" || problem["status"] != 404.0 || problem["reason"] != "no_route" ||
		problem["title"] != "Not Found" || len(problem["request_id"].(string)) != 26 || problem["detail"] != "No application is served here." {
		t.Errorf("%v", problem)
	}
	if r := f.do("HEAD", "/", nil); r.StatusCode != 404 || r.body != "" || r.ContentLength <= 0 {
		t.Errorf("%v %q", r.Header, r.body)
	}
	for accept, want := range map[string]format{
		"":    formatText,
		"*/*": formatText,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": formatHTML,
		"text/plain;q=0.5, text/html;q=0.4":                               formatText,
		"text/html;q=0.4, application/problem+json;q=0.5":                 formatProblem,
		"application/json, text/html":                                     formatProblem,
		"text/html;q=0":                                                   formatText,
		"text/html;q=2, text/html;q=NaN":                                  formatText,
		"TEXT/HTML ; Q=1":                                                 formatHTML,
		";;;,,,=":                                                         formatText,
	} {
		if got := acceptedFormat([]string{accept}); got != want {
			t.Errorf("%q: %d, want %d", accept, got, want)
		}
	}
}

func TestHealthAndRedirectsAreAnsweredByTheEdge(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, nil, func(r *muru.Routing) {
		r.Route.Health = "/healthz"
		r.Route.Redirects = map[string]string{"/old": "https://shop.example/new?a=b"}
		r.Route.Maintenance = "Later."
	}))
	if r := f.get("/healthz?x"); r.StatusCode != 200 || r.body != "ok\n" {
		t.Errorf("%s %s", r.Status, r.body)
	}
	if r := f.do("HEAD", "/healthz", nil); r.StatusCode != 200 || r.body != "" {
		t.Errorf("%s %s", r.Status, r.body)
	}
	if r := f.do("POST", "/old", strings.NewReader("x")); r.StatusCode != 308 || r.Header.Get("Location") != "https://shop.example/new?a=b" {
		t.Errorf("%s %v", r.Status, r.Header)
	}
	if r := f.get("/healthz/x"); r.StatusCode != 503 {
		t.Errorf("%s", r.Status)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: says("r5")}))
	for _, c := range []struct {
		what, request string
		status        int
	}{
		{"no HTTP", "hello\r\n\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"a broken escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a space in a name", "GET / HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", 400},
		{"an unknown encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"too much header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", maxHeader+8192) + "\r\n\r\n", 431},
		{"a tunnel", "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\r\n", 400},
		{"a star", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"HTTP/2 in clear text", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
	} {
		conn := f.dial()
		// A server that has had enough may close before it has all of it.
		_, _ = io.WriteString(conn, c.request)
		if r := conn.response("GET"); r.StatusCode != c.status {
			t.Errorf("%s: %s", c.what, r.Status)
		}
	}
	if r := f.get("/"); r.body != "r5" {
		t.Errorf("afterwards: %s", r.body)
	}
}

func TestAnAnswerOfTheAppIsPassedOnAsItIs(t *testing.T) {
	f := newFront(t, Options{})
	f.Route(shop(-1, map[int]muru.Backend{5: backendFunc(func(_ context.Context, x *muru.Exchange) muru.Outcome {
		x.Start(time.Now())
		if err := x.Answer.Head(503, []muru.Field{{Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Connection", Value: "close"}}, 4); err != nil {
			return muru.Outcome{Err: err}
		}
		_, err := x.Answer.Write([]byte("<b>x"))
		return muru.Outcome{Err: err, Answered: true}
	})}))
	r := f.get("/")
	if r.StatusCode != 503 || r.body != "<b>x" || r.Header.Get("Content-Type") != "" || r.Header.Get("Retry-After") != "" ||
		len(r.Header["X-A"]) != 2 || r.Close {
		t.Errorf("%s %v %q", r.Status, r.Header, r.body)
	}
}
