package builtins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

// maxBody bounds the answers that http() reads into memory.
const maxBody = 16 << 20

var httpSpec = (&Spec{
	Name:    "http",
	Group:   GroupWorld,
	Summary: "sends a request and returns the answer",
	Doc:     "Redirects are followed. A body of more than 16 MiB is an error.",
	Params: []Param{
		{Name: "url", Type: urlType, Pass: Positional, Doc: "http or https"},
		{Name: "method", Type: methodType, Default: starlark.String("GET"), Doc: "method"},
		{Name: "headers", Type: headersType, Default: emptyDict(), Doc: "request headers"},
		{Name: "body", Type: bodyType, Default: starlark.None, Doc: "text; a dict or list is sent as JSON"},
		{Name: "timeout", Type: positive(durationType), Default: seconds(10), Doc: "until the whole body is read"},
		{Name: "check", Type: boolType, Default: starlark.True, Doc: "raise on a status of 400 and above"},
	},
	Returns: "Response",
	Errors:  []string{"http_failed: no connection, a status of 400 or above, or a body too large", "timeout: it took longer"},
	Example: `http("http://example.test/hook", method = "POST", body = {"text": "deployed"})`,
	Effect:  HTTP,
	Fn:      sendHTTP,
}).check()

func sendHTTP(c *Call) (starlark.Value, error) {
	u, method := arg[requestURL](c, "url"), arg[string](c, "method")
	if c.ctx.Value(pollKey{}) != nil && method != "GET" && method != "HEAD" {
		return nil, muru.Errorf(muru.KindRefused, "a function that wait() polls may GET, not %s", method)
	}
	what := fmt.Sprintf("%s %s", method, u.shown)
	timeout := arg[time.Duration](c, "timeout")
	ctx, cancel := context.WithTimeoutCause(c.ctx, timeout, errHTTPTimeout)
	defer cancel()
	body := arg[requestBody](c, "body")
	req, err := http.NewRequestWithContext(ctx, method, u.url.String(), body.reader())
	if err != nil {
		return nil, usagef("%s: %v", what, err)
	}
	for _, f := range body.fields(arg[map[string]string](c, "headers")) {
		if f.Name == "Host" {
			req.Host = f.Value
			continue
		}
		req.Header[f.Name] = []string{f.Value}
	}
	began := time.Now()
	r, err := roundTrip(c.set.env.Client, req)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errHTTPTimeout):
		return nil, muru.Errorf(muru.KindTimeout, "%s: no answer in %s", what, muru.FormatMeasured(timeout))
	case c.ctx.Err() != nil:
		return nil, context.Cause(c.ctx)
	default:
		return nil, &muru.Error{Kind: muru.KindHTTPFailed, Message: what + ": " + netProblem(err), Err: err}
	}
	r.took = time.Since(began)
	if arg[bool](c, "check") && r.status >= 400 {
		return nil, httpFailed(fmt.Sprintf("%s answered %s", what, statusText(r.status)), r)
	}
	return r.record(), nil
}

var errHTTPTimeout = errors.New("out of time")

func roundTrip(client *http.Client, req *http.Request) (response, error) {
	answer, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	if err != nil {
		return response{}, err
	}
	if len(data) > maxBody {
		return response{}, fmt.Errorf("the body is over %d MiB", maxBody>>20)
	}
	header := make(map[string]string, len(answer.Header))
	for name, values := range answer.Header {
		header[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return response{
		status: answer.StatusCode, header: header, body: data,
		requestID: answer.Header.Get("X-Request-Id"), release: answer.Header.Get("Muru-Release"),
	}, nil
}

// netProblem words a failed connection without the names of Go's layers.
func netProblem(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "there is no host " + e.Name
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		text := e.Err.Error()
		if inner := errors.Unwrap(e.Err); inner != nil {
			text = inner.Error()
		}
		return text
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed without a complete answer"
	}
	return err.Error()
}

// A requestBody is what a request carries. The zero value is nothing.
type requestBody struct {
	data []byte
	json bool
	set  bool
}

func (b requestBody) reader() io.Reader {
	if !b.set {
		return nil
	}
	return bytes.NewReader(b.data)
}

// fields returns the headers of a request in the order of their names, with
// the type of the body unless they name one.
func (b requestBody) fields(headers map[string]string) []muru.Field {
	var fields []muru.Field
	typed := false
	for name, value := range headers {
		name = http.CanonicalHeaderKey(name)
		typed = typed || name == "Content-Type"
		fields = append(fields, muru.Field{Name: name, Value: value})
	}
	if b.json && !typed {
		fields = append(fields, muru.Field{Name: "Content-Type", Value: "application/json"})
	}
	slices.SortFunc(fields, func(x, y muru.Field) int { return strings.Compare(x.Name, y.Name) })
	return fields
}

// joinFields makes headers with lower-case names; repeated ones are joined.
func joinFields(fields []muru.Field) map[string]string {
	header := make(map[string]string, len(fields))
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if old, ok := header[name]; ok {
			header[name] = old + ", " + f.Value
		} else {
			header[name] = f.Value
		}
	}
	return header
}

var (
	bodyType Type = typeOf{"text, dict or list", func(c *Call, v starlark.Value) (any, error) {
		switch v := v.(type) {
		case starlark.String:
			return requestBody{data: []byte(v), set: true}, nil
		case *starlark.Dict, *starlark.List:
			encoded, err := starlark.Call(c.thread, jsonModule.Members["encode"], starlark.Tuple{v}, nil)
			if err != nil {
				return nil, usagef("it cannot be sent as JSON: %s", plainError(err))
			}
			return requestBody{data: []byte(encoded.(starlark.String)), json: true, set: true}, nil
		}
		return nil, wanted("a text, a dict or a list", v)
	}}
	headersType Type = typeOf{"dict of text or Secret", func(c *Call, v starlark.Value) (any, error) {
		headers, err := dictType[string](textOrSecret).Convert(c, v)
		if err != nil {
			return nil, err
		}
		for name, value := range headers.(map[string]string) {
			if !isToken(name) {
				return nil, usagef("%q is not the name of a header", name)
			}
			if strings.ContainsAny(value, "\r\n\x00") {
				return nil, at(fmt.Sprintf("[%q]", name), usagef("a header is one line"))
			}
		}
		return headers, nil
	}}
	urlType Type = typeOf{"URL or Secret", func(_ *Call, v starlark.Value) (any, error) {
		if secret, ok := v.(Secret); ok {
			u, err := parseURL(secret.value)
			if err != nil {
				return nil, usagef("%s is not a URL", secret) // and no more is said of it
			}
			return requestURL{u, secret.String()}, nil
		}
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted("a URL", v)
		}
		u, err := parseURL(string(s))
		if err != nil {
			return nil, err
		}
		return requestURL{u, u.Redacted()}, nil
	}}
)

// A requestURL is a URL and how it is shown: a secret one by its name.
type requestURL struct {
	url   *url.URL
	shown string
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("%q is not a URL", text).WithHint(`write it like "http://127.0.0.1:8080/"`)
	}
	return u, nil
}

// isToken reports whether s can name a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// plainError is the text of an error of the interpreter without its stack.
func plainError(err error) string {
	if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		return e.Msg
	}
	return err.Error()
}
