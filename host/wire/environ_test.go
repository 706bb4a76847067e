package wire

import (
	"slices"
	"strings"
	"testing"

	"muru"
)

func TestEnvironHasWhatPEP3333AsksFor(t *testing.T) {
	w := start(t, "basic:echo_environ", threads(2), func(s *Spec) { s.Workers = 3 })
	x := request("PUT", "/caf\u00e9/a%b\x00c?q=1&r=%20")
	x.Target = "/caf%C3%A9/a%25b%00c?q=1&r=%20"
	x.Header = []muru.Field{
		{Name: "Accept", Value: "text/html"}, {Name: "Accept", Value: "text/plain"},
		{Name: "Cookie", Value: "a=1"}, {Name: "Cookie", Value: "b=2"},
		{Name: "Content-Type", Value: "text/plain"},
		{Name: "Content-Length", Value: "99"},
		{Name: "Host", Value: "evil"},
		{Name: "Proxy", Value: "http://evil"},
		{Name: "X_real-Ip", Value: "spoofed"},
		{Name: "X-Nul", Value: "a\x00REMOTE_USER\x00admin"},
		{Name: "X-Latin", Value: "caf\u00e9"},
		{Name: "X-Request-Id", Value: "01M8"},
	}
	a := w.do(x)
	want := []string{
		"CONTENT_LENGTH='0'",
		"CONTENT_TYPE='text/plain'",
		"HTTP_ACCEPT='text/html,text/plain'",
		"HTTP_COOKIE='a=1; b=2'",
		"HTTP_HOST='shop.example:8080'",
		"HTTP_X_LATIN='cafÃ©'",
		"HTTP_X_REQUEST_ID='01M8'",
		`PATH_INFO='/cafÃ©/a%b\x00c'`,
		"QUERY_STRING='q=1&r=%20'",
		"RAW_URI='/caf%C3%A9/a%25b%00c?q=1&r=%20'",
		"REMOTE_ADDR='192.0.2.7'",
		"REMOTE_PORT='4711'",
		"REQUEST_METHOD='PUT'",
		"REQUEST_URI='/caf%C3%A9/a%25b%00c?q=1&r=%20'",
		"SCRIPT_NAME=''",
		"SERVER_NAME='127.0.0.1'",
		"SERVER_PORT='8080'",
		"SERVER_PROTOCOL='HTTP/1.1'",
		"SERVER_SOFTWARE='muru'",
		"wsgi.input_terminated=True",
		"wsgi.multiprocess=True",
		"wsgi.multithread=True",
		"wsgi.run_once=False",
		"wsgi.url_scheme='http'",
		"wsgi.version=(1, 0)",
	}
	if got := strings.Split(a.body(), "\n"); !slices.Equal(got, want) {
		t.Errorf("environ %s\n%v\nwant\n%s", a, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRequestWithManyFieldsIsWrittenInLinearTime(t *testing.T) {
	x := request("GET", "/")
	for i := range 20000 {
		x.Header = append(x.Header, muru.Field{Name: "X-Same", Value: "v"},
			muru.Field{Name: "X-" + strings.Repeat("a", i%300+1), Value: "w"})
	}
	var head requestHead
	b, _ := head.append(nil, x)
	words := strings.Split(string(b), "\x00")
	if len(words)%2 != 0 {
		t.Errorf("%d words", len(words))
	}
	at := slices.Index(words, "HTTP_X_SAME")
	if at < 0 || len(words[at+1]) != 2*20000-1 {
		t.Error("the repeated field is not joined")
	}
	if len(head.cgi) > maxNames {
		t.Errorf("%d names are remembered", len(head.cgi))
	}
}

func TestWorkerSeesItsReleaseAndNotItsToken(t *testing.T) {
	w := start(t, "basic:releases")
	got := strings.Split(w.get("/").body(), " ")
	source := got[2]
	if got[0] != "shop@r6" || got[1] != "none" || !strings.HasSuffix(source, "testdata/apps") || got[3] != "[]" || got[4] != source {
		t.Errorf("%q", got)
	}
}
