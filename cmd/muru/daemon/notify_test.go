package daemon

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/rollout"
)

// A receiver takes what muru notifies it of.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex // guards what follows
	bodies []string
	status func(n int) int // of the answer to request n; nil: 200
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
			body = []byte(req.Method + " " + req.Header.Get("Content-Type"))
		}
		r.bodies = append(r.bodies, string(body))
		if r.status != nil {
			w.WriteHeader(r.status(len(r.bodies)))
		}
	}))
	t.Cleanup(r.Server.Close)
	return r
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

// testNotifier notifies r of a log's events, trying again at once.
func testNotifier(t *testing.T, r *receiver) (events *rollout.Log, log *strings.Builder, stop func()) {
	t.Helper()
	log = new(strings.Builder)
	events = rollout.NewLog(nil, 0)
	n, err := newNotifier(r.URL, "test", events, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	n.retry = []time.Duration{0, 0}
	return events, log, n.start()
}

func warning(subject string) muru.Event {
	return muru.Event{Level: muru.LevelWarning, Kind: "worker.crashed", Subject: subject}
}

func TestReceiverThatFailsIsAskedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status = func(n int) int { return map[bool]int{true: 302, false: 200}[n < 6] }
	events, log, stop := testNotifier(t, r)
	events.Append(warning("shop@r1")) // three tries
	events.Append(warning("shop@r2")) // the third succeeds
	events.Append(muru.Event{Kind: "worker.ready", Subject: "shop@r3"})
	events.Append(warning("shop@r4"))
	stop() // what has happened is posted still
	var subjects []string
	for _, body := range r.got() {
		_, after, _ := strings.Cut(body, `"subject":"`)
		subject, _, _ := strings.Cut(after, `"`)
		subjects = append(subjects, subject)
	}
	if got := strings.Join(subjects, " "); got != "shop@r1 shop@r1 shop@r1 shop@r2 shop@r2 shop@r2 shop@r4" {
		t.Errorf("posted %s", got)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "seq=1") || !strings.Contains(text, "302 Found") || strings.Contains(text, r.URL) {
		t.Errorf("logged %s", text)
	}
}

// Whatever the receiver does: the log waits for nobody, and the notifier goes
// on with what comes later.
func TestStormOfEventsEndsNoNotifier(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	events, _, stop := testNotifier(t, r)
	for range 50_000 {
		events.Append(muru.Event{Kind: "worker.ready", Subject: "shop@r1"})
	}
	events.Append(warning("shop@r2"))
	if !visitortest.Within(10*time.Second, func() bool { return len(r.got()) == 1 }) {
		t.Errorf("posted %q", r.got())
	}
	stop()
	if len(r.got()) != 1 {
		t.Errorf("posted %q", r.got())
	}
}
