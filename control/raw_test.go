package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// send sends a request by hand and returns the connection.
func send(t *testing.T, w *world, request, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: muru\r\nContent-Length: %d\r\n\r\n%s", request, len(text), text)
	return conn
}

func TestRequestsThatMakeNoSenseAreRefusedWithASentence(t *testing.T) {
	w := serve(t, saysWho())
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/call", "", 400, "it is empty"},
		{"POST", "/v1/call", "{", 400, "unexpected EOF"},
		{"POST", "/v1/call", `{"source":"x"} {}`, 400, "goes on after its value"},
		{"POST", "/v1/call", `{"sauce":"x"}`, 400, `unknown field \"sauce\"`},
		{"POST", "/v1/call", `{"source":"x","by":"root"}`, 400, `unknown field \"by\"`},
		{"POST", "/v1/call", `[]`, 400, "cannot unmarshal"},
		{"POST", "/v1/call", strings.Repeat(" ", control.MaxBody+1), 400, "over 16 MiB"},
		{"GET", "/v1/call", "", 405, "takes no GET"},
		{"GET", "/v2/call", "", 404, "no GET /v2/call"},
		{"GET", "//v1/state", "", 404, "no GET"},
		{"GET", "/v1/runs/x/attach", "", 404, "no GET"},
		{"GET", "/v1/runs/99999999999999999999/attach", "", 404, "no run"},
		{"GET", "/v1/events?limit=-1", "", 400, "not a number"},
		{"GET", "/v1/events?since=yesterday", "", 400, "not a time"},
		{"GET", "/v1/events?level=loud", "", 400, "not a level"},
		{"GET", "/v1/events?follow=perhaps", "", 400, "not true or false"},
		{"GET", "/v1/events?lines=3", "", 400, "no parameter"},
		{"GET", "/v1/logs/shop?worker=one", "", 400, "not a number"},
		{"POST", "/v1/sessions/none/eval", `{"source":"x"}`, 404, "this session is gone"},
		{"POST", "/v1/runs", `{"file":"a.star","dir":"b"}`, 400, "not absolute"},
	} {
		req, err := http.NewRequest(c.method, "http://muru"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.raw(t).Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		text := body(t, resp)
		if resp.StatusCode != c.code || !strings.Contains(text, c.want) || !strings.HasPrefix(text, `{"kind":"error"`) {
			t.Errorf("%s %s %.30s: got %d %s", c.method, c.path, c.body, resp.StatusCode, text)
		}
	}
}

func TestGarbageOnTheSocketHarmsNobody(t *testing.T) {
	w := serve(t, saysWho())
	for _, garbage := range []string{
		"\x00\x01\x02\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", strings.Repeat("x", 100<<10) + "\r\n\r\n",
		"POST /v1/call HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST /v1/call HTTP/1.1\r\nHost: m\r\nContent-Length: -5\r\n\r\n",
	} {
		conn, err := net.Dial("unix", w.path)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write([]byte(garbage))
		conn.(*net.UnixConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		if errors.Is(err, context.DeadlineExceeded) || bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			t.Errorf("%.20q: got %.80q, %v", garbage, answer, err)
		}
		conn.Close()
	}
	if _, err := w.State(deadline(t)); err != nil {
		t.Errorf("after the garbage: %v", err)
	}
}

func TestPanicEndsItsRequestOnlyAndNamesItsBug(t *testing.T) {
	bugs := make(chan control.Bug, 10)
	w := serve(t, &controltest.Muru{
		OnCall: func(_ context.Context, c control.Call, out func(control.Message)) error {
			if c.Source == "say" {
				out(control.Message{Kind: control.KindSay, Text: "x"})
			}
			panic("oh")
		},
		OnState: func(context.Context) (control.State, error) { panic("oh") },
		OnRuns:  func(context.Context) ([]control.RunInfo, error) { return nil, nil },
	}, func(o *control.Options) { o.Bug = func(b control.Bug) { bugs <- b } })
	quiet := func(control.Message) {}
	for what, ask := range map[string]func() error{
		"a stream":       func() error { return w.Call(deadline(t), control.Call{Source: "x"}, quiet) },
		"a begun stream": func() error { return w.Call(deadline(t), control.Call{Source: "say"}, quiet) },
		"a value":        func() error { _, err := w.State(deadline(t)); return err },
	} {
		err := ask()
		b := receive(t, bugs, "the bug")
		if err == nil || !strings.Contains(err.Error(), "(bug "+b.ID+")") || strings.Contains(control.ErrorText(err), "oh") {
			t.Errorf("%s: got %v, bug %s", what, err, b.ID)
		}
		if b.Value != "oh" || !bytes.Contains(b.Stack, []byte("raw_test.go")) {
			t.Errorf("%s: the bug is %v with stack %s", what, b.Value, b.Stack)
		}
	}
	if _, err := w.Runs(deadline(t)); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}

func TestAnotherVersionsClientGetsASentence(t *testing.T) {
	w := serve(t, saysWho())
	for version, want := range map[string]string{
		"2":  "this muru (9.9.9) is newer than the one that serves (1.2.3)",
		"0":  "this muru (9.9.9) is too old for the one that serves (1.2.3)",
		"1":  "",
		"":   "",
		"x1": `"x1" is not a number`,
	} {
		c := control.NewClient(w.path, "9.9.9")
		c.PretendAPI(version)
		_, err := c.State(deadline(t))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("version %q: got %v", version, err)
		}
		if (version == "2" || version == "0") && !errors.Is(err, control.ErrOtherVersion) {
			t.Errorf("version %q: got %v", version, err)
		}
	}
}

func TestMetricsAndHealthAreText(t *testing.T) {
	sick := errors.New("the disk is full")
	var health error
	w := serve(t, saysWho(), func(o *control.Options) {
		o.WriteMetrics = func(w io.Writer) { fmt.Fprintln(w, "muru_up 1") }
		o.Healthy = func() error { return health }
	})
	get := func(path string) (int, string) {
		resp, err := w.raw(t).Get("http://muru" + path)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type") + "|" + body(t, resp)
	}
	for _, c := range []struct {
		path string
		do   func()
		code int
		text string
	}{
		{"/metrics", func() {}, 200, "text/plain; version=0.0.4; charset=utf-8|muru_up 1\n"},
		{"/healthz", func() {}, 200, "text/plain; charset=utf-8|ok\n"},
		{"/healthz", func() { health = sick }, 503, "text/plain; charset=utf-8|the disk is full\n"},
		{"/healthz", w.server.RefuseChanges, 503, "text/plain; charset=utf-8|muru is stopping: it takes no more calls\n"},
	} {
		c.do()
		if code, text := get(c.path); code != c.code || text != c.text {
			t.Errorf("%s: got %d %q", c.path, code, text)
		}
	}
}

func TestCurlReadsAStreamLineByLine(t *testing.T) {
	next := make(chan struct{})
	w := serve(t, &controltest.Muru{OnEvents: func(_ context.Context, _ control.EventRequest, out func(muru.Event)) error {
		out(event(1))
		<-next
		return nil
	}})
	resp, err := w.raw(t).Get("http://muru/v1/events?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	want := `{"kind":"event","event":{"seq":1,"time":"2026-11-07T07:20:07.756Z","level":"warning","kind":"rollout.gate_failed",` +
		`"subject":"shop@r6","message":"step 1 at 10%: 5xx","by":"ana","data":{"arms":["r5",3],"of":{"n":1},"rate":21.5,"rollout":7}}}` + "\n"
	line := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != want {
		t.Errorf("got %s, %v", line, err)
	}
	close(next) // the first line came before the work ended
	rest, err := io.ReadAll(resp.Body)
	if string(rest) != `{"kind":"end"}`+"\n" || err != nil {
		t.Errorf("then got %q, %v", rest, err)
	}
}

func FuzzStreamLine(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"print","text":"x"}`, `{"kind":"end"}`, `{"kind":"value","value":{"a":[1,2.5,null]}}`,
		`{"kind":"event","event":{"seq":1,"time":"2026-11-07T07:20:07Z","level":"error","data":{"n":9223372036854775807,"f":1e400}}}`,
		`{"kind":"error","error":{"kind":"rolled_back","message":"m","code":"stopping","detail":["a"]}}`,
		`{"kind":"error"}`, `{"kind":1}`, `[]`, ``, `{"kind":"event","event":{"level":"error","time":"9999999-01-01"}}`,
		"{\"kind\":\"print\",\"text\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		again, _, err := control.ReadStreamLine(text)
		if err != nil {
			return
		}
		// What was understood once is understood again, and the same.
		twice, _, err := control.ReadStreamLine(again)
		if err != nil || !bytes.Equal(again, twice) {
			t.Errorf("%q became %q became %q, %v", text, again, twice, err)
		}
	})
}
