package main

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
	"time"

	"muru"
	"muru/control"
)

// A notifier posts every event of warning and above as JSON to a URL: one
// event a request, in order. What the receiver does not take within a few
// tries is dropped and logged, so that a receiver that is down costs nothing
// but its own news.
type notifier struct {
	url    string
	client *http.Client
	events <-chan muru.Event
	log    *slog.Logger
	retry  []time.Duration // waits before the second try, the third, ...
}

func newNotifier(target string, events <-chan muru.Event, log *slog.Logger) (*notifier, error) {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, muru.Errorf(muru.KindUsage, "--notify: %q is not a URL", target).
			WithHint("write it like https://hooks.example/muru")
	}
	return &notifier{
		url: target, events: events, log: log,
		client: &http.Client{Timeout: 10 * time.Second},
		retry:  []time.Duration{time.Second, 5 * time.Second},
	}, nil
}

// run posts until the events end or ctx does.
func (n *notifier) run(ctx context.Context) {
	for {
		select {
		case e, ok := <-n.events:
			if !ok {
				return
			}
			if e.Level >= muru.LevelWarning {
				n.post(ctx, e)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (n *notifier) post(ctx context.Context, e muru.Event) {
	body, err := json.Marshal(control.EventJSONOf(e))
	if err != nil {
		n.log.Error("notify: encode an event", "seq", e.Seq, "error", err)
		return
	}
	for try := 0; ; try++ {
		if err = n.try(ctx, body); err == nil || ctx.Err() != nil {
			return
		}
		if try == len(n.retry) {
			n.log.Error("notify: an event is dropped", "seq", e.Seq, "kind", e.Kind, "error", err)
			return
		}
		wait := time.NewTimer(n.retry[try])
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
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
	req.Header.Set("User-Agent", "muru/"+version)
	res, err := n.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode >= 400 {
		return fmt.Errorf("the receiver answered %s", res.Status)
	}
	return nil
}
