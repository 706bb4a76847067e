package control

import (
	"net/url"
	"strconv"
	"time"

	"muru"
)

// values returns q as a URL's query; only what is set is in it.
func (q EventRequest) values() url.Values {
	v := queryWriter{}
	v.text("target", q.Target)
	v.number("run", q.Run)
	v.number("after", q.After)
	v.time("since", q.Since)
	v.text("kind", q.Kind)
	if q.Level != muru.LevelNotice {
		v.text("level", q.Level.String())
	}
	v.number("limit", q.Limit)
	v.flag("follow", q.Follow)
	return url.Values(v)
}

func parseEventRequest(v url.Values) (EventRequest, error) {
	p := queryReader{values: v}
	q := EventRequest{
		Target: p.text("target"), Run: p.number("run"), After: p.number("after"), Since: p.time("since"),
		Kind: p.text("kind"), Limit: p.number("limit"), Follow: p.flag("follow"),
	}
	if level := p.text("level"); level != "" {
		var err error
		if q.Level, err = muru.ParseLevel(level); err != nil {
			p.fail(err)
		}
	}
	return q, p.end()
}

// values returns q, but for its target, as a URL's query.
func (q LogRequest) values() url.Values {
	v := queryWriter{}
	v.number("lines", q.Lines)
	v.time("since", q.Since)
	v.text("grep", q.Grep)
	if q.Worker != nil {
		v.text("worker", strconv.Itoa(*q.Worker))
	}
	v.text("request", q.Request)
	v.flag("follow", q.Follow)
	return url.Values(v)
}

func parseLogRequest(target string, v url.Values) (LogRequest, error) {
	p := queryReader{values: v}
	q := LogRequest{
		Target: target, Lines: p.number("lines"), Since: p.time("since"), Grep: p.text("grep"),
		Request: p.text("request"), Follow: p.flag("follow"),
	}
	if v.Has("worker") {
		worker := p.number("worker")
		q.Worker = &worker
	}
	return q, p.end()
}

// A queryWriter is a query to be: fields that are not set stay out.
type queryWriter url.Values

func (w queryWriter) text(key, v string) {
	if v != "" {
		url.Values(w).Set(key, v)
	}
}

func (w queryWriter) number(key string, n int) {
	if n != 0 {
		w.text(key, strconv.Itoa(n))
	}
}

func (w queryWriter) time(key string, t time.Time) {
	if !t.IsZero() {
		w.text(key, t.UTC().Format(time.RFC3339Nano))
	}
}

func (w queryWriter) flag(key string, on bool) {
	if on {
		w.text(key, "true")
	}
}

// A queryReader reads a query and keeps the first thing wrong with it.
type queryReader struct {
	values url.Values
	known  []string
	err    error
}

func (r *queryReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *queryReader) text(key string) string {
	r.known = append(r.known, key)
	return r.values.Get(key)
}

func (r *queryReader) number(key string) int {
	text := r.text(key)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		r.fail(muru.Errorf(muru.KindUsage, "%s: %.40q is not a number", key, text))
		return 0
	}
	return n
}

func (r *queryReader) time(key string) time.Time {
	text := r.text(key)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		r.fail(muru.Errorf(muru.KindUsage, "%s: %.40q is not a time", key, text).WithHint("such as 2026-11-07T07:20:07Z"))
	}
	return t
}

func (r *queryReader) flag(key string) bool {
	text := r.text(key)
	if text == "" {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		r.fail(muru.Errorf(muru.KindUsage, "%s: %.40q is not true or false", key, text))
	}
	return on
}

// end returns what was wrong, a key that nobody asked for included.
func (r *queryReader) end() error {
	known := map[string]bool{}
	for _, key := range r.known {
		known[key] = true
	}
	for key := range r.values {
		if !known[key] {
			r.fail(muru.Errorf(muru.KindUsage, "there is no parameter %.40q", key))
		}
	}
	return r.err
}
