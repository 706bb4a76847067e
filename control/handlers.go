package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"muru"
)

// How long answers that are no stream may take; the outcome is an error of
// kind timeout.
const (
	lookTimeout   = 30 * time.Second
	startTimeout  = time.Minute     // a run's start reads and checks its files
	cancelTimeout = 5 * time.Minute // a run's end drains what it owned
	gcTimeout     = 5 * time.Minute // a hundred thousand events take seconds
)

// routes is the whole API.
func (s *Server) routes() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	post, get := http.MethodPost, http.MethodGet

	r.Handle("/v1/call", s.stream(s.call)).Methods(post)
	r.Handle("/v1/runs", s.plain(startTimeout, s.startRun)).Methods(post)
	r.Handle("/v1/runs", s.plain(lookTimeout, s.runs)).Methods(get)
	r.Handle("/v1/runs/{n:[0-9]+}/attach", s.stream(s.attach)).Methods(get)
	r.Handle("/v1/runs/{n:[0-9]+}/cancel", s.plain(cancelTimeout, s.cancelRun)).Methods(post)
	r.Handle("/v1/sessions", s.plain(lookTimeout, s.openSession)).Methods(post)
	r.Handle("/v1/sessions/{id}", s.plain(lookTimeout, s.closeSession)).Methods(http.MethodDelete)
	r.Handle("/v1/sessions/{id}/eval", s.stream(s.eval)).Methods(post)
	r.Handle("/v1/sessions/{id}/incomplete", s.plain(lookTimeout, s.incomplete)).Methods(post)
	r.Handle("/v1/sessions/{id}/complete", s.plain(lookTimeout, s.complete)).Methods(post)
	r.Handle("/v1/sessions/{id}/rollouts", s.plain(lookTimeout, s.liveRollouts)).Methods(get)
	r.Handle("/v1/state", s.plain(lookTimeout, s.state)).Methods(get)
	r.Handle("/v1/events", s.stream(s.events)).Methods(get)
	r.Handle("/v1/logs/{release}", s.stream(s.logs)).Methods(get)
	r.Handle("/v1/gc", s.plain(gcTimeout, s.gc)).Methods(post)
	r.HandleFunc("/v1/backup", s.backup).Methods(get)
	r.HandleFunc("/metrics", s.metrics).Methods(get)
	r.HandleFunc("/healthz", s.healthz).Methods(get, http.MethodHead)

	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, muru.Errorf(muru.KindNotFound, "muru's API has no %s %.200s", r.Method, r.URL.Path))
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := muru.Errorf(muru.KindUsage, "%.200s takes no %s", r.URL.Path, r.Method)
		answer(w, http.StatusMethodNotAllowed, line{Kind: kindError, Error: toWire(err)})
	})
	return r
}

// plain makes a handler of work that answers with one value.
func (s *Server) plain(timeout time.Duration, work func(ctx context.Context, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, end := s.begin(r)
		defer end(nil)
		ctx, cancel := context.WithTimeoutCause(ctx, timeout,
			muru.Errorf(muru.KindTimeout, "no answer within %s", muru.FormatDuration(timeout)))
		defer cancel()
		v, err := work(ctx, r)
		if err != nil {
			s.refuse(w, worded(ctx, err))
			return
		}
		answer(w, http.StatusOK, v)
	}
}

// worded returns err in words when it only says that ctx has ended.
func worded(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if _, ok := errors.AsType[*muru.Error](err); ok || !errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		return err
	}
	if errors.Is(cause, ErrStopping) {
		e := muru.Errorf(muru.KindCanceled, "muru is stopping").
			WithHint("rollouts go on when it serves again")
		e.Err = ErrStopping
		return e
	}
	return cause
}

// take reads the body of a request for a change into v, unless changes are
// refused.
func (s *Server) take(r *http.Request, v any) error {
	if err := s.mayChange(); err != nil {
		return err
	}
	return read(r, v)
}

// read reads a request's body into v. It reads all of it: only then does the
// server notice that the client goes away.
func read(r *http.Request, v any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return muru.Errorf(muru.KindUsage, "the request has over %d MiB", maxBody>>20)
		}
		return muru.Errorf(muru.KindUsage, "read the request: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return muru.Errorf(muru.KindUsage, "the request's body is not what %s takes: %s", r.URL.Path, jsonProblem(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return muru.Errorf(muru.KindUsage, "the request's body goes on after its value")
	}
	return nil
}

// jsonProblem words what is wrong with a body, without the library's name.
func jsonProblem(err error) string {
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// marshal writes an answer.
func marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the answer as JSON: %w", err)
	}
	return append(text, '\n'), nil
}

// checkDir refuses a directory that would mean something else to us than to
// the one who asks.
func checkDir(dir string) error {
	if dir != "" && !filepath.IsAbs(dir) {
		return muru.Errorf(muru.KindUsage, "dir: %.200q is not absolute", dir)
	}
	return nil
}

// numberOf returns the run that a request is about.
func numberOf(r *http.Request) (int, error) {
	n, err := strconv.Atoi(mux.Vars(r)["n"])
	if err != nil {
		return 0, muru.Errorf(muru.KindNotFound, "there is no run %.40s", mux.Vars(r)["n"])
	}
	return n, nil
}

func (s *Server) call(ctx context.Context, r *http.Request, say func(line)) error {
	var c Call
	if err := s.take(r, &c); err != nil {
		return err
	}
	if err := checkDir(c.Dir); err != nil {
		return err
	}
	if strings.TrimSpace(c.Source) == "" {
		return muru.Errorf(muru.KindUsage, "source: there is nothing to evaluate")
	}
	return s.options.Muru.Call(ctx, c, func(m Message) { say(lineOf(m)) })
}

func (s *Server) startRun(ctx context.Context, r *http.Request) (any, error) {
	var run Run
	if err := s.take(r, &run); err != nil {
		return nil, err
	}
	if err := checkDir(run.Dir); err != nil {
		return nil, err
	}
	if run.File == "" {
		return nil, muru.Errorf(muru.KindUsage, "file: there is nothing to run")
	}
	n, err := s.options.Muru.StartRun(ctx, run)
	return startedRun{n}, err
}

func (s *Server) runs(ctx context.Context, _ *http.Request) (any, error) {
	runs, err := s.options.Muru.Runs(ctx)
	return list(runs), err
}

// list returns v as JSON should have it: nothing is [], not null.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func (s *Server) attach(ctx context.Context, r *http.Request, say func(line)) error {
	n, err := numberOf(r)
	if err != nil {
		return err
	}
	return s.options.Muru.Attach(ctx, n, func(m Message) { say(lineOf(m)) })
}

func (s *Server) cancelRun(ctx context.Context, r *http.Request) (any, error) {
	n, err := numberOf(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.options.Muru.CancelRun(ctx, n)
}

func (s *Server) state(ctx context.Context, _ *http.Request) (any, error) {
	state, err := s.options.Muru.State(ctx)
	state.You = Caller(ctx)
	state.Apps, state.Releases, state.Rollouts = list(state.Apps), list(state.Releases), list(state.Rollouts)
	return state, err
}

func (s *Server) events(ctx context.Context, r *http.Request, say func(line)) error {
	q, err := parseEventRequest(r.URL.Query())
	if err != nil {
		return err
	}
	return s.options.Muru.Events(ctx, q, func(e muru.Event) {
		wire := EventJSONOf(e)
		say(line{Kind: KindEvent, Event: &wire})
	})
}

func (s *Server) logs(ctx context.Context, r *http.Request, say func(line)) error {
	q, err := parseLogRequest(mux.Vars(r)["release"], r.URL.Query())
	if err != nil {
		return err
	}
	return s.options.Muru.Logs(ctx, q, func(text string) { say(line{Kind: kindLine, Text: text}) })
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if s.options.WriteMetrics != nil {
		s.options.WriteMetrics(w)
	}
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	err := s.mayChange()
	if err == nil && s.options.Healthy != nil {
		err = s.options.Healthy()
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
