package rollout

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"muru"
)

// probeBodyMax bounds the body that a probe keeps; the rest is dropped.
const probeBodyMax = 1 << 20

// probeWithin is how long a probe waits that was not told.
const probeWithin = 5 * time.Second

// ProbeRequest is one request to a release, past the split and never counted.
type ProbeRequest struct {
	Release muru.ReleaseID
	Method  string // empty: GET
	Path    string // with its query; empty: /
	Header  []muru.Field
	Body    []byte
	Within  time.Duration // 0: 5s
}

// ProbeResponse is the answer to a [ProbeRequest]. A release that does not
// answer in time gives 504; muru's own failures have their reason's status and
// the page's text. Body is cut at 1 MiB.
type ProbeResponse struct {
	Status    int
	Header    []muru.Field
	Body      []byte
	Took      time.Duration
	RequestID string

	answered bool // by the release itself
}

// Probe sends one request to a release, held or warm too, through the same
// queue and workers as any other. The errors are of kind not_found, refused (a
// release without workers), usage or, when ctx ends, its cause.
func (e *Engine) Probe(ctx context.Context, q ProbeRequest) (ProbeResponse, error) {
	a, err := e.actorOf(q.Release.App)
	if err != nil {
		return ProbeResponse{}, err
	}
	var backend muru.Backend
	var route muru.Route
	err = a.do(ctx, func() error {
		r, err := a.release(q.Release)
		if err != nil {
			return err
		}
		backend, route = r.backend, a.route
		if !r.State.Live() || r.stopping != nil || backend == nil {
			return muru.Errorf(muru.KindRefused, "%s is %s: nothing can answer", r.ID, r.State)
		}
		return nil
	})
	if err != nil {
		return ProbeResponse{}, err
	}
	return e.probe(ctx, backend, route, q)
}

// probe passes one request through a backend and waits for the answer, but no
// longer than q.Within. A backend that holds on to a request whose time is
// over, because its worker does, is left to end it when the release ends.
func (e *Engine) probe(ctx context.Context, b muru.Backend, route muru.Route, q ProbeRequest) (ProbeResponse, error) {
	q.Within = cmpOr(q.Within, probeWithin)
	x, answer, err := newProbeExchange(route, q, e.clock.Now())
	if err != nil {
		return ProbeResponse{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(muru.ErrClientGone)
	done := make(chan muru.Outcome, 1)
	if !e.spawnLoose(func() { done <- b.Do(ctx, x) }) {
		return ProbeResponse{}, errClosed
	}
	passed, stop := e.clock.After(q.Within)
	defer stop()
	out := muru.Outcome{Err: muru.ErrHardTimeout}
	select {
	case out = <-done:
	case <-passed:
	case <-ctx.Done():
		return ProbeResponse{}, context.Cause(ctx)
	}
	return answer.response(x, out, e.clock.Now()), nil
}

// cmpOr is a, or b when a is 0.
func cmpOr(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return a
}

// newProbeExchange makes the request as the edge would have.
func newProbeExchange(route muru.Route, q ProbeRequest, now time.Time) (*muru.Exchange, *memoryAnswer, error) {
	method, target := q.Method, q.Path
	if method == "" {
		method = "GET"
	}
	if target == "" {
		target = "/"
	}
	path, query, err := splitTarget(target)
	if err != nil {
		return nil, nil, err
	}
	host := "localhost"
	for _, h := range route.Hosts {
		if h != "*" && h[0] != '*' {
			host = h
			break
		}
	}
	id := ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
	answer := &memoryAnswer{method: method}
	x := &muru.Exchange{
		ID: id, Method: method, Target: target, Path: path, Query: query,
		Proto: "HTTP/1.1", Scheme: "http", Host: host, Remote: "127.0.0.1:0", Local: "127.0.0.1:0",
		Header: append([]muru.Field{
			{Name: "X-Request-Id", Value: id},
			{Name: "X-Forwarded-For", Value: "127.0.0.1"},
			{Name: "X-Forwarded-Proto", Value: "http"},
			{Name: "X-Forwarded-Host", Value: host},
		}, q.Header...),
		Answer: answer, Arrived: now,
	}
	if len(q.Body) > 0 {
		x.Body, x.Length = bytes.NewReader(q.Body), int64(len(q.Body))
	}
	return x, answer, nil
}

// memoryAnswer keeps an answer. The backend may still write to it when the
// probe has stopped waiting, so it is guarded.
type memoryAnswer struct {
	method string

	mu     sync.Mutex // guards what is below
	status int
	header []muru.Field
	body   bytes.Buffer
	stream bool
}

func (a *memoryAnswer) Inform(int, []muru.Field) error { return nil }

func (a *memoryAnswer) Head(status int, header []muru.Field, length int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.header = status, slices.Clone(header) // it is the backend's again
	a.stream = muru.IsStream(a.method, status, header, length)
	return nil
}

func (a *memoryAnswer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body.Write(p[:min(len(p), probeBodyMax-a.body.Len())])
	return len(p), nil
}

func (a *memoryAnswer) Flush() error               { return nil }
func (a *memoryAnswer) Trailer([]muru.Field) error { return nil }

// Upgrade refuses: a probe has no second half to its connection.
func (a *memoryAnswer) Upgrade(int, []muru.Field) (io.ReadWriteCloser, error) {
	return nil, muru.ErrClientGone
}

// response is what the probe saw. A stream that has begun is an answer, since
// it need not end.
func (a *memoryAnswer) response(x *muru.Exchange, out muru.Outcome, now time.Time) ProbeResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := ProbeResponse{Took: now.Sub(x.Arrived), RequestID: x.ID}
	if a.status != 0 && (out.Err == nil || a.stream && errors.Is(out.Err, muru.ErrHardTimeout)) {
		r.Status, r.Header, r.Body, r.answered = a.status, a.header, bytes.Clone(a.body.Bytes()), true
		return r
	}
	reason, _ := muru.ReasonOf(out.Err)
	r.Status = reason.Status()
	r.Header = []muru.Field{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}
	r.Body = fmt.Appendf(nil, "%s\nreason: %s\nrequest id: %s\n%s\n", textStatus(r.Status), reason, x.ID, reason.Sentence())
	return r
}
