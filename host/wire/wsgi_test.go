package wire

import (
	"fmt"
	"strings"
	"testing"

	"muru"
)

func TestWorkerAnswersAsPEP3333Says(t *testing.T) {
	tests := []struct {
		app, method string
		want        string // the answer
		log         string // in what the worker printed
	}{
		{"hello", "GET", `200 Content-Type=text/plain X-One=1 (6) ["hello\n"]`, ""},
		{"hello", "HEAD", `200 Content-Type=text/plain X-One=1 (-1) []`, ""},
		{"stream", "GET", `200 Content-Type=text/event-stream (-1) ["one " "two " "three"]`, ""},
		{"stream", "HEAD", `200 Content-Type=text/event-stream (-1) []`, ""},
		{"sized_stream", "GET", `200 (6) ["abc" "def"]`, "ran to the end\n"},
		{"empty_stream", "GET", `200 (0) []`, ""},
		{"several", "GET", `201 (3) ["abc"]`, ""},
		{"writes", "GET", `200 (-1) ["written " "twice " "and returned"]`, ""},
		{"ok_with_body", "GET", `200 (5) ["12345"]`, ""},
		{"ok_with_body", "HEAD", `200 (5) []`, ""},
		{"no_content", "GET", `204 (-1) []`, ""},
		{"not_modified", "GET", `304 (5) []`, ""},
		{"closing", "GET", `200 (2) ["ok"]`, "closed\n"},
		{"close_raises", "GET", `200 (2) ["ok"]`, "GET /close_raises in close()\nTraceback"},
		{"raises", "GET", `raised`, "ValueError: no such mug"},
		{"raises_after_start", "GET", `raised`, "ValueError: too late"},
		{"raises_in_stream", "GET", `200 (-1) ["part"] reset`, "ValueError: in the middle\nclosed\n"},
		{"exits", "GET", `raised`, "SystemExit: 3"},
		{"never_starts", "GET", `raised`, "the application did not call start_response"},
		{"returns_none", "GET", `raised`, "TypeError: the application returned None, not an iterable of bytes"},
		{"returns_str", "GET", `raised`, "TypeError: the application's answer must be bytes, not str"},
		{"starts_twice", "GET", `raised`, "start_response was called twice without exc_info"},
		{"replaces_head", "GET", `500 X-New=1 (5) ["sorry"]`, ""},
		{"replaces_late", "GET", `200 (-1) ["begun"] reset`, "too late to replace"},
		{"too_short", "GET", `200 (10) ["abc"] reset`, "the answer ended 7 bytes before its Content-Length"},
		{"too_short_whole", "GET", `raised`, "the answer ended 7 bytes before its Content-Length"},
		{"too_long", "GET", `200 (3) ["ab" "c"]`, "GET /too_long: the application sent more than its Content-Length"},
		{"too_long_whole", "GET", `200 (3) ["abc"]`, "sent more than its Content-Length"},
		{"line_break", "GET", `raised`, `ValueError: the value of X-Bad has a line break or control character: 'one\r\nSet-Cookie: evil=1'`},
		{"nul_value", "GET", `raised`, `the value of X-Bad has a line break or control character: 'a\x00b'`},
		{"bad_name", "GET", `raised`, `bad header name 'X Bad'`},
		{"name_break", "GET", `raised`, `bad header name 'X-Bad\r\nX'`},
		{"not_str", "GET", `raised`, `TypeError: the value of X-Bad must be a str, not int`},
		{"bytes_name", "GET", `raised`, `TypeError: a header name must be a str, not bytes`},
		{"not_latin", "GET", `raised`, `the value of X-Bad has a character outside of latin-1: '€'`},
		{"bad_status", "GET", `raised`, `bad status 'OK': it is three digits, a space and a reason`},
		{"status_break", "GET", `raised`, `the value of status has a line break`},
		{"interim", "GET", `raised`, `bad status '101 Switching': an answer's is from 200 to 599`},
		{"two_lengths", "GET", `raised`, `Content-Length is given twice: 1 and 2`},
		{"bad_length", "GET", `raised`, `bad Content-Length '-1'`},
		{"many_fields", "GET", `raised`, `the answer's header is too large: 6000 fields`},
		{"hop_fields", "GET", `200 X-Two=a (1) ["x"]`, ""},
		{"prints", "GET", `200 (2) ["ok"]`, "printed by /prints\nan error\n"},
		{"WsgiClass", "GET", `200 (-1) ["class"]`, ""},
		{"wsgi_object", "GET", `200 (6) ["object"]`, ""},
	}
	for _, interpreter := range interpreters(t) {
		w := start(t, "every:application", python(interpreter))
		for _, test := range tests {
			before := len(w.output())
			got := w.do(request(test.method, "/"+test.app)).String()
			if got != test.want {
				t.Errorf("%s: %s %s: %s, want %s", interpreter, test.method, test.app, got, test.want)
			}
			if test.log != "" {
				eventually(t, test.app+" to print "+test.log, func() bool {
					return strings.Contains(w.output()[before:], test.log)
				})
			}
		}
	}
}

func TestExceptionIsPrintedWithItsRequestFromTheApplicationsFirstFrame(t *testing.T) {
	w := start(t, "basic:raises")
	if a := w.get("/orders/3?x=1"); !a.Raised {
		t.Fatal(a)
	}
	lines := strings.Split(w.output(), "\n")
	want := []string{
		"request 01M8V4Q7J2W3N5X6Y8Z9A0B1C2 GET /orders/3 raised",
		"Traceback (most recent call last):",
	}
	for i, line := range want {
		if lines[i] != line {
			t.Errorf("line %d is %q, want %q", i, lines[i], line)
		}
	}
	if want := fmt.Sprintf(`basic.py", line %d, in raises`, lineOf(t, "# at the first frame")); !strings.HasSuffix(lines[2], want) {
		t.Errorf("the first frame is %q", lines[2])
	}
	if strings.Contains(w.output(), "muru_worker") {
		t.Error("our own frames are in the traceback")
	}
}

func TestTheStandardValidatorFindsNothing(t *testing.T) {
	for _, interpreter := range interpreters(t) {
		w := start(t, "validated:application", python(interpreter))
		for _, test := range []struct {
			x    *muru.Exchange
			want string
		}{
			{request("GET", "/whole?a=b"), `200 Content-Type=text/plain (5) ["00000"]`},
			{upload("/whole", strings.NewReader("some text"), 9), `200 Content-Type=text/plain (5) ["00009"]`},
			{upload("/whole", strings.NewReader("some text"), -1), `200 Content-Type=text/plain (5) ["00009"]`},
			{upload("/whole", &pattern{n: 90_000}, 90_000), `200 Content-Type=text/plain (5) ["90000"]`},
			{request("GET", "/parts"), `200 Content-Type=text/plain (-1) ["a" "b" "c"]`},
			{request("GET", "/spawns"), `200 (4) ["[42]"]`},
		} {
			if got := w.do(test.x).String(); got != test.want {
				t.Errorf("%s: %s, want %s", test.x.Target, got, test.want)
			}
		}
		if out := w.output(); strings.Contains(out, "Error") || strings.Contains(out, "Warning") {
			t.Errorf("printed %s", out)
		}
	}
}
