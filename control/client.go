package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"muru"
)

const (
	dialTimeout = 5 * time.Second

	// silence is for how long a server may say nothing at all, heartbeats
	// included, before it is taken for dead: stopped, or its disk hangs.
	silence = time.Minute

	// grace is what a client waits longer than the server's own bound.
	grace = 10 * time.Second
)

// A Client is a [Muru] that asks the server at a socket. It keeps no
// connection between requests: a server that was started again is found
// again. It is safe for concurrent use and needs no closing.
type Client struct {
	path    string
	version string
	silence time.Duration
	http    *http.Client
}

var _ Muru = (*Client)(nil)

// NewClient returns a client of the socket at path; version is the program's
// own. It starts nothing and asks nothing: the first request finds out
// whether somebody answers, and gives [ErrNoDaemon] if not.
func NewClient(path, version string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: dialTimeout}
		return dialer.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, version: version, silence: silence, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// Path returns where the socket is.
func (c *Client) Path() string { return c.path }

// Call implements [Muru].
func (c *Client) Call(ctx context.Context, call Call, out func(Message)) error {
	return c.messages(ctx, http.MethodPost, "/v1/call", call, out)
}

// StartRun implements [Muru].
func (c *Client) StartRun(ctx context.Context, r Run) (int, error) {
	var a startedRun
	r.Args = list(r.Args)
	err := c.ask(ctx, startTimeout, http.MethodPost, "/v1/runs", r, &a)
	return a.Run, err
}

// Attach implements [Muru].
func (c *Client) Attach(ctx context.Context, run int, out func(Message)) error {
	return c.messages(ctx, http.MethodGet, "/v1/runs/"+strconv.Itoa(run)+"/attach", nil, out)
}

// CancelRun implements [Muru].
func (c *Client) CancelRun(ctx context.Context, run int) error {
	return c.ask(ctx, cancelTimeout, http.MethodPost, "/v1/runs/"+strconv.Itoa(run)+"/cancel", nil, nil)
}

// Runs implements [Muru].
func (c *Client) Runs(ctx context.Context) ([]RunInfo, error) {
	var runs []RunInfo
	err := c.ask(ctx, lookTimeout, http.MethodGet, "/v1/runs", nil, &runs)
	return runs, err
}

// State implements [Muru].
func (c *Client) State(ctx context.Context) (State, error) {
	var state State
	err := c.ask(ctx, lookTimeout, http.MethodGet, "/v1/state", nil, &state)
	return state, err
}

// Events implements [Muru].
func (c *Client) Events(ctx context.Context, q EventRequest, out func(muru.Event)) error {
	return c.messages(ctx, http.MethodGet, withQuery("/v1/events", q.values()), nil, func(m Message) {
		if m.Event != nil {
			out(*m.Event)
		}
	})
}

// Logs implements [Muru].
func (c *Client) Logs(ctx context.Context, q LogRequest, out func(line string)) error {
	if q.Target == "" {
		return muru.Errorf(muru.KindUsage, "logs: of which app or release?")
	}
	return c.messages(ctx, http.MethodGet, withQuery("/v1/logs/"+url.PathEscape(q.Target), q.values()), nil, func(m Message) {
		if m.Kind == kindLine {
			out(m.Text)
		}
	})
}

// GC implements [Muru].
func (c *Client) GC(ctx context.Context) (GCReport, error) {
	var report GCReport
	err := c.ask(ctx, gcTimeout, http.MethodPost, "/v1/gc", nil, &report)
	return report, err
}

// OpenSession implements [Muru].
func (c *Client) OpenSession(ctx context.Context, q SessionRequest) (Session, error) {
	var a openedSession
	if err := c.ask(ctx, lookTimeout, http.MethodPost, "/v1/sessions", q, &a); err != nil {
		return nil, err
	}
	return &clientSession{client: c, path: "/v1/sessions/" + url.PathEscape(a.Session)}, nil
}

// A clientSession is a session of the server's.
type clientSession struct {
	client *Client
	path   string
}

// Eval implements [Session].
func (s *clientSession) Eval(ctx context.Context, source string, out func(Message)) error {
	return s.client.messages(ctx, http.MethodPost, s.path+"/eval", sessionSource{source}, out)
}

// Incomplete implements [Session].
func (s *clientSession) Incomplete(ctx context.Context, source string) (bool, error) {
	var a incompleteAnswer
	err := s.client.ask(ctx, lookTimeout, http.MethodPost, s.path+"/incomplete", sessionSource{source}, &a)
	return a.Incomplete, err
}

// Complete implements [Session].
func (s *clientSession) Complete(ctx context.Context, line string, pos int) (head string, candidates []string, tail string, err error) {
	var a completeAnswer
	err = s.client.ask(ctx, lookTimeout, http.MethodPost, s.path+"/complete", completeRequest{line, pos}, &a)
	return a.Head, a.Candidates, a.Tail, err
}

// LiveRollouts implements [Session].
func (s *clientSession) LiveRollouts(ctx context.Context) ([]int, error) {
	var a rolloutsAnswer
	err := s.client.ask(ctx, lookTimeout, http.MethodGet, s.path+"/rollouts", nil, &a)
	return a.Rollouts, err
}

// Close implements [Session]. A server that is gone has closed it.
func (s *clientSession) Close(ctx context.Context) error {
	err := s.client.ask(ctx, lookTimeout, http.MethodDelete, s.path, nil, nil)
	if errors.Is(err, ErrNoDaemon) {
		return nil
	}
	return err
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// ask asks for one value, within the server's bound and a bit.
func (c *Client) ask(ctx context.Context, timeout time.Duration, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout+grace, c.gone(fmt.Errorf("no answer within %s", timeout+grace)))
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	if err != nil {
		return c.cut(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.refusal(resp, text)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return c.stranger(fmt.Errorf("read an answer: %w", err))
	}
	return nil
}

// send sends a request and returns the answer of a muru, whatever it is.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	if err := checkPath(c.path); err != nil {
		return nil, err
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write a request as JSON: %w", err)
		}
		if len(text) > maxBody {
			return nil, muru.Errorf(muru.KindUsage, "the request has over %d MiB", maxBody>>20)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://muru"+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	setVersion(req.Header, c.version)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unsent(ctx, err)
	}
	if resp.Header.Get(headerAPI) == "" {
		resp.Body.Close()
		return nil, c.stranger(fmt.Errorf("HTTP status %d without %s", resp.StatusCode, headerAPI))
	}
	return resp, nil
}

// unsent words that a request got no answer.
func (c *Client) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var e *muru.Error
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		e = muru.Errorf(muru.KindRefused, "no muru serves at %s", c.path).WithHint("start one: muru serve")
		e.Err = errors.Join(ErrNoDaemon, err)
	case errors.Is(err, fs.ErrPermission):
		e = muru.Errorf(muru.KindDenied, "this user may not use the muru at %s", c.path).
			WithHint("ask its owner, or have it served with --socket-group GROUP")
		e.Err = err
	default:
		return c.gone(err)
	}
	return e
}

// cut words that an answer ended before its end.
func (c *Client) cut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.gone(err)
}

// gone says that the server ended, as far as one can see here.
func (c *Client) gone(err error) error {
	e := muru.Errorf(muru.KindInterrupted, "muru at %s ended before it answered: what was asked for may have been done", c.path).
		WithHint("when it serves again, muru status and muru events say what was done")
	e.Err = errors.Join(ErrDaemonGone, err)
	return e
}

// stranger says that the answer is no muru's.
func (c *Client) stranger(err error) error {
	e := muru.Errorf(muru.KindRefused, "what answers at %s is no muru", c.path).
		WithHint("MURU_CONTROL names the socket of another program?")
	e.Err = err
	return e
}

// refusal returns the error that is all of an answer.
func (c *Client) refusal(resp *http.Response, text []byte) error {
	l, err := decodeLine(text)
	if err == nil && l.Error == nil {
		err = fmt.Errorf("HTTP status %d without an error", resp.StatusCode)
	}
	if err != nil {
		return c.stranger(err)
	}
	return l.Error.error()
}
