package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"muru"
	"muru/control"
	"muru/rollout"
)

// notifyQueue is how many events wait for a receiver that is slow or down.
const notifyQueue = 1000

// notifyLastFor is how long what happened before the end may still take.
const notifyLastFor = 3 * time.Second

// A notifier posts every event of warning and above as JSON to a URL: one
// event a request, in order. What the receiver does not take within a few
// tries is dropped and logged, so that a receiver that is down costs nothing
// but its own news.
type notifier struct {
	url    string
	agent  string // how it is called in requests
	client *http.Client
	events *rollout.Log
	log    *slog.Logger
	queue  chan muru.Event // closed when no more come
	retry  []time.Duration // waits before the second try, the third, ...
}

func newNotifier(target, version string, events *rollout.Log, log *slog.Logger) (*notifier, error) {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, muru.Errorf(muru.KindUsage, "--notify: %q is not a URL", target).
			WithHint("write it like https://hooks.example/muru")
	}
	return &notifier{
		url: target, agent: "muru/" + version, events: events, log: log,
		client: &http.Client{
			Timeout:       10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would become a GET
		},
		queue: make(chan muru.Event, notifyQueue),
		retry: []time.Duration{time.Second, 5 * time.Second},
	}, nil
}

// start begins to post what happens from now on. stop posts what has happened
// until it is called, for a moment, and returns when all has ended.
func (n *notifier) start() (stop func()) {
	collecting, end := context.WithCancel(context.Background())
	posting, giveUp := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	events := n.events.Subscribe(collecting)
	tasks.Go(func() { n.collect(collecting, events) })
	tasks.Go(func() {
		for e := range n.queue {
			n.post(posting, e)
		}
	})
	return func() {
		end()
		last := time.AfterFunc(notifyLastFor, giveUp)
		tasks.Wait()
		last.Stop()
		giveUp()
		n.client.CloseIdleConnections()
	}
}

// collect queues what is to be posted until ctx ends: the log drops whoever
// does not keep up, and a receiver may be slow.
func (n *notifier) collect(ctx context.Context, events <-chan muru.Event) {
	defer close(n.queue)
	last := 0
	for {
		e, ok := <-events
		switch {
		case ok:
			n.take(e, &last)
		case ctx.Err() != nil:
			return
		default: // dropped, after thousands of events at once
			events = n.events.Subscribe(ctx)
			level := muru.LevelWarning
			for _, e := range n.events.Query(rollout.EventQuery{Level: &level, Limit: notifyQueue}) {
				n.take(e, &last)
			}
		}
	}
}

// take queues an event unless it has been seen.
func (n *notifier) take(e muru.Event, last *int) {
	if e.Seq <= *last {
		return
	}
	*last = e.Seq
	if e.Level < muru.LevelWarning {
		return
	}
	select {
	case n.queue <- e:
	default:
		n.log.Error("notify: an event is dropped, the receiver is too slow", "seq", e.Seq, "kind", e.Kind)
	}
}

func (n *notifier) post(ctx context.Context, e muru.Event) {
	body, err := json.Marshal(control.EventJSONOf(e))
	if err != nil {
		n.log.Error("notify: encode an event", "seq", e.Seq, "error", err)
		return
	}
	for try := 0; ; try++ {
		if err = n.try(ctx, body); err == nil {
			return
		}
		if try == len(n.retry) || ctx.Err() != nil {
			n.log.Error("notify: an event is dropped", "seq", e.Seq, "kind", e.Kind, "error", err)
			return
		}
		wait := time.NewTimer(n.retry[try])
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

// try posts once. The error never holds the URL, which may carry a secret.
func (n *notifier) try(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL makes no request")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", n.agent)
	res, err := n.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode >= 300 {
		return fmt.Errorf("the receiver answered %s", res.Status)
	}
	return nil
}
