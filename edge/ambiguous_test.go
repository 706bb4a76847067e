package edge

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muru"
)

func TestARequestWithTwoLengthsIsTheLastOfItsConnection(t *testing.T) {
	const (
		chunked = "POST /both HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n0\r\n\r\n"
		split   = "POST /both HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncOntent-|lEngth: 4\r\n\r\n4\r\nwiki\r\n0\r\n\r\n"
		plain   = "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"
		stuffed = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	)
	for _, c := range []struct {
		what, sent string
		answers    int // before the connection ends; 0: it is kept
	}{
		{"both", chunked + stuffed, 1},
		{"in two packets", split + stuffed, 1},
		{"after others", plain + plain + chunked + stuffed, 3},
		{"a length alone", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nwiki", 0},
		{"chunks alone", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Content-Length: 4\r\n\r\n4\r\nwiki\r\n0\r\n\r\n", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFront(t, Options{})
			f.Route(shop(-1, map[int]muru.Backend{5: reads(4)}))
			conn := f.dial()
			for part := range strings.SplitSeq(c.sent, "|") {
				conn.send(part)
			}
			if c.answers == 0 {
				if r := conn.response("POST"); r.Close || readAll(t, r.Body) != "POST /" {
					t.Errorf("%s, closes: %v", r.Status, r.Close)
				}
				return
			}
			for n := range c.answers {
				r := conn.response("POST")
				if body := readAll(t, r.Body); r.StatusCode != 200 || r.Close != (n == c.answers-1) || strings.Contains(body, "smuggled") {
					t.Errorf("answer %d: %s %q, closes: %v", n+1, r.Status, body, r.Close)
				}
			}
			if rest, _ := io.ReadAll(conn.r); len(rest) > 0 {
				t.Errorf("then %q", rest)
			}
		})
	}
}

func TestALengthIsSeenHoweverItArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringMatching(`([\r\nx]|\n?content-?|\nContent-LENGTH|LENGTH: 4){0,12}`).Draw(t, "text"))
		want := bytes.Contains(bytes.ToLower(text), []byte("\n"+lengthField))
		var s lengthScan
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			s.look(rest[:n])
			rest = rest[n:]
		}
		if s.seen != want {
			t.Errorf("%q: seen %v", text, s.seen)
		}
	})
}
