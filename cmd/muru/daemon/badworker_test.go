package daemon

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

// The candidate's application turns on the runtime it runs in. Whoever is
// with it sees one failure, which is told as what it was; the worker is
// replaced, and everybody else is served.
func TestWorkerThatBreaksItsProtocolFailsOneRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True)`)
	for _, c := range []struct {
		path    string
		code    int
		body    string // regular expression
		cut     bool   // the head was there already
		crashed string // the cause in worker.crashed; empty: it is no crash
		log     string // in the last line of the release's log
	}{
		{"/sends-garbage", 502, `502 Bad Gateway\nreason: worker_crashed\nrequest id: \w{26}\nThe worker answering this request died.\n`, false,
			`sent no frame: "HTTP/1.1 200 OK\r"`, `sent no frame`},
		{"/closes-socket", 200, `begun\n`, true, `closed its connection in a request`, `closed its connection in a request`},
		{"/forges-header", 502, `502 Bad Gateway\nreason: worker_crashed\n.*\n.*\n`, false,
			`sent a line break or control character in the header X-Mug: "red\r\nSet-Cookie: admin=1"`, `in the header X-Mug`},
		{"/answers-twice", 200, `first\n`, false, `answered a request twice`, `answered a request twice`},
		{"/breaks-header", 500, `500 Internal Server Error\nreason: app_error\n.*\nThe application raised an exception.\n`, false,
			"", `ValueError: the value of X-Mug has a line break or control character: 'red\r\nSet-Cookie: admin=1'`},
		{"/fail", 500, `500 Internal Server Error\nreason: app_error\n.*\nThe application raised an exception.\n`, false, "", `KeyError: 'mug'`},
		{"/prints-garbage", 200, `hello from shop@r2\n`, false, "", `\xff`},
	} {
		t.Run(strings.TrimPrefix(c.path, "/"), func(t *testing.T) {
			s := s.on(t)
			crashes := len(s.events("worker.crashed"))
			a := s.get(c.path, "Muru-Preview: r2")
			if a.Code != c.code || !regexp.MustCompile(`^`+c.body+`$`).MatchString(a.Body) || c.cut != errors.Is(a.Err, io.ErrUnexpectedEOF) {
				t.Errorf("answered %+v", a)
			}
			if a.Header.Get("Set-Cookie") != "" {
				t.Error("the forged cookie came through")
			}
			// A surplus answer is noticed when its thread is next used. If it
			// comes late, the next request is in that thread already and fails.
			failed := 0
			for range 20 {
				if next := s.get("/", "Muru-Preview: r2"); next.Code == 502 && c.path == "/answers-twice" && failed == 0 {
					failed++
				} else if next.Body != "hello from shop@r2\n" {
					t.Errorf("the next request is answered %+v", next)
				}
			}
			if c.crashed != "" {
				// One that dies again soon is replaced later, and its event does not wait.
				s.waitEvent("worker.crashed", `^shop@r2 worker \d \(pid \d+\) died: broke the protocol: `+regexp.QuoteMeta(c.crashed)+`(; replaced by pid \d+)?; last requests: /`)
			} else if n := len(s.events("worker.crashed")); n != crashes {
				t.Errorf("crashed: %q", s.events("worker.crashed")[crashes:])
			}
			s.serves("shop@r1")
			if log := s.must(`print(logs("shop@r2", lines = 1))`); !strings.Contains(log, c.log) {
				t.Errorf("log: %q", log)
			}
		})
	}
}
