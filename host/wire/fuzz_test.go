package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"muru"
)

// frameOf returns a frame as bytes.
func frameOf(h header, head, body string) []byte {
	h.head, h.body = uint32(len(head)), uint32(len(body))
	b := make([]byte, headerSize)
	h.put(b)
	return append(append(b, head...), body...)
}

// A script is a connection that reads what was written down and takes
// whatever is written to it.
type script struct{ io.Reader }

func (script) Write(p []byte) (int, error)      { return len(p), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return nil }
func (script) RemoteAddr() net.Addr             { return nil }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// checker checks that what reaches a handler keeps its promises.
type checker struct {
	t      *testing.T
	headed bool
	length int64
	size   int64
}

func (c *checker) Head(status int, header []muru.Field, length int64) error {
	if c.headed || status < 200 || status > 599 || length < -1 {
		c.t.Errorf("head %d, length %d", status, length)
	}
	c.headed, c.length = true, length
	for _, f := range header {
		if !isToken(f.Name) || strings.ContainsAny(f.Value, "\r\n\x00") || f.Name == "Content-Length" {
			c.t.Errorf("field %q", f)
		}
	}
	return nil
}

func (c *checker) Body(p []byte) error {
	if c.size += int64(len(p)); !c.headed || len(p) == 0 || c.length >= 0 && c.size > c.length {
		c.t.Errorf("body of %d bytes, %d in all of %d", len(p), c.size, c.length)
	}
	return nil
}

func receiveScript(t *testing.T, method string, text []byte) error {
	l := NewLink(Hello{}, script{bytes.NewReader(text)})
	x := request(method, "/")
	x.Body, x.Length = strings.NewReader("abc"), -1
	// What was sent before is an error of Send: this looks at Receive.
	l.x = x
	c := &checker{t: t}
	result, err := l.Receive(1, c)
	if err == nil && result == (Result{}) && method != "HEAD" && c.length >= 0 && c.size != c.length {
		t.Errorf("complete with %d bytes of %d", c.size, c.length)
	}
	if err == nil && result.Raised == c.headed {
		t.Errorf("%+v with head %v", result, c.headed)
	}
	return err
}

func FuzzReceive(f *testing.F) {
	f.Add(false, frameOf(header{id: 1, fields: 1}, "200 OK\x00Content-Type\x00text/plain", "hello"))
	f.Add(true, frameOf(header{id: 1, fields: 1}, "200 OK\x00Content-Length\x005", ""))
	f.Add(false, append(frameOf(header{id: 1, flags: flagMore}, "200 OK", "a"), frameOf(header{id: 1}, "", "b")...))
	f.Add(false, append(frameOf(header{id: 1, flags: flagPull}, "", ""), frameOf(header{id: 1, flags: flagRaised}, "", "")...))
	f.Add(false, append(frameOf(header{id: 1, flags: flagMore}, "500", ""), frameOf(header{id: 1, flags: flagReset}, "", "")...))
	f.Add(false, []byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head bool, text []byte) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		err := receiveScript(t, method, text)
		if _, broken := errors.AsType[*BodyError](err); err != nil && !isProtocolError(err) && !errors.Is(err, ErrClosed) && !broken {
			t.Errorf("%v", err)
		}
	})
}

func FuzzHello(f *testing.F) {
	words := "muru-worker\x001\x00shop@r6\x000\x00-1\x004242\x00140243414836928\x001795678901.250000\x00secret"
	f.Add(frameOf(header{flags: flagHello}, words, ""))
	f.Add(frameOf(header{flags: flagHello}, strings.Replace(words, "\x001\x00", "\x002\x00", 1), ""))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := readHello(bufio.NewReader(bytes.NewReader(text)))
		switch {
		case err != nil && !isProtocolError(err) && !errors.Is(err, ErrClosed):
			t.Errorf("%v", err)
		case err == nil && (h.Version != version || h.PID < 1 || h.Worker < 0 || h.Thread < -1 || h.Started.IsZero()):
			t.Errorf("%+v", h)
		}
	})
}

func FuzzParseFaulthandler(f *testing.F) {
	f.Add([]byte(dumped))
	f.Add([]byte("Thread 0x1 (most recent call first):\n  File \"\", line 1 in \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		seen := make(map[uint64]bool)
		for _, s := range ParseFaulthandler(text) {
			if seen[s.Ident] {
				t.Errorf("thread %d twice", s.Ident)
			}
			seen[s.Ident] = true
			for _, frame := range s.Frames {
				if frame.Line < 0 {
					t.Errorf("%+v", frame)
				}
			}
		}
	})
}

func FuzzStacks(f *testing.F) {
	f.Add("1\x00MainThread\x001\x001\x00app.py\x0027\x00order")
	f.Add("1\x00a\x000\x000\x002\x00b\x000\x000")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		stacks, err := parseStacks(splitWords(text))
		if err != nil && (!isProtocolError(err) || stacks != nil) {
			t.Errorf("%v", err)
		}
	})
}

func FuzzAnswerHead(f *testing.F) {
	f.Add("200 OK\x00X-One\x001", uint16(1))
	f.Add("204", uint16(0))
	f.Fuzz(func(t *testing.T, text string, declared uint16) {
		count := int(declared)
		var a answerHead
		if _, fields, _, err := a.parse(text, count); err == nil && len(fields) > count {
			t.Errorf("%d fields of %d", len(fields), count)
		}
	})
}

func TestBreachesOfTheProtocolAreNamed(t *testing.T) {
	head := func(fields uint16, text string) []byte { return frameOf(header{id: 1, fields: fields}, text, "") }
	join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	first := frameOf(header{id: 1, flags: flagMore}, "200 OK", "a")
	for _, test := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"other id", frameOf(header{id: 9}, "200 OK", ""), "answered request 9, it was asked 1"},
		{"huge head", frameOf(header{id: 1}, strings.Repeat("x", maxHead+1), "")[:20], `sent no frame: "\x01\x00\x10\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"`},
		{"no head", frameOf(header{id: 1}, "", "x"), `sent a bad status: ""`},
		{"interim", head(0, "100 Continue"), `sent a bad status: "100 Continue"`},
		{"no status", head(0, "OK"), `sent a bad status: "OK"`},
		{"status with sign", head(0, "+20"), `sent a bad status: "+20"`},
		{"too few fields", head(2, "200 OK\x00A\x00b"), "sent 1 header fields of the 2 it declared"},
		{"no fields", head(1, "200 OK"), "sent no header fields of the 1 it declared"},
		{"too many fields", head(1, "200 OK\x00A\x00b\x00C\x00d"), "sent more header fields than the 1 it declared"},
		{"half a field", head(1, "200 OK\x00A"), `sent the header field "A" without a value`},
		{"bad name", head(1, "200 OK\x00A B\x00c"), `sent a bad header name: "A B"`},
		{"empty name", head(1, "200 OK\x00\x00c"), `sent a bad header name: ""`},
		{"line break", head(1, "200 OK\x00A\x00b\nC: d"), `sent a line break or control character in the header A: "b\nC: d"`},
		{"bad length", head(1, "200 OK\x00Content-Length\x00-1"), `sent a bad Content-Length: "-1"`},
		{"two lengths", head(2, "200 OK\x00Content-Length\x001\x00content-length\x002"), `sent a bad Content-Length: "2"`},
		{"too short", head(1, "200 OK\x00Content-Length\x0010"), "ended its answer 10 bytes before its Content-Length"},
		{"too long", frameOf(header{id: 1, fields: 1}, "200 OK\x00Content-Length\x001", "abc"), "sent 2 bytes more than its Content-Length"},
		{"body of a 204", frameOf(header{id: 1}, "204 No Content", "abc"), "sent a body where there is none"},
		{"second head", join(first, first), "answered a request twice"},
		{"raised after its head", join(first, frameOf(header{id: 1, flags: flagRaised}, "", "")), "sent a frame out of order (flags 0x4)"},
		{"reset before its head", frameOf(header{id: 1, flags: flagReset}, "", ""), "sent a frame out of order (flags 0x8)"},
		{"hello again", frameOf(header{id: 1, flags: flagHello}, "x", ""), "sent a frame out of order (flags 0x40)"},
	} {
		err := receiveScript(t, "GET", test.bytes)
		if breach, ok := errors.AsType[*ProtocolError](err); !ok || breach.What != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if err := receiveScript(t, "GET", first); !errors.Is(err, ErrClosed) {
		t.Errorf("cut: %v", err)
	}
}

// What an application wrote in addition may arrive when the next request has
// been sent already. That has an answer of its own.
func TestSurplusAnswerDoesNotCostTheNextRequestItsOwn(t *testing.T) {
	surplus := frameOf(header{id: 1, flags: flagMore, fields: 1}, "200 OK\x00A\x00b", strings.Repeat("x", 100<<10))
	own := frameOf(header{id: 2}, "201 Created", "own")
	first := frameOf(header{id: 1}, "200 OK", "first")
	for _, test := range []struct {
		name  string
		bytes []byte
		want  Result
		err   string
	}{
		{"none", own, Result{}, ""},
		{"one", append(bytes.Clone(surplus), own...), Result{Surplus: true}, ""},
		{"two", append(append(bytes.Clone(surplus), first...), own...), Result{Surplus: true}, ""},
		{"without end", bytes.Repeat(first, maxSurplus+1), Result{Surplus: true}, "broke the protocol: answered a request twice"},
		{"cut", surplus[:1000], Result{Surplus: true}, ErrClosed.Error()},
	} {
		l := NewLink(Hello{}, script{bytes.NewReader(append(bytes.Clone(first), test.bytes...))})
		var got answer
		for id := uint32(1); id <= 2; id++ {
			l.x = request("GET", "/") // sent before the surplus came
			got = answer{}
			got.Result, got.err = l.Receive(id, &got)
		}
		text := ""
		if got.err != nil {
			text = got.err.Error()
		} else if got.status != 201 || got.body() != "own" {
			t.Errorf("%s: %s", test.name, &got)
		}
		if got.Result != test.want || text != test.err {
			t.Errorf("%s: %+v, %q", test.name, got.Result, text)
		}
	}
}

func TestWorkerAndDaemonAgreeOnFlags(t *testing.T) {
	text, err := embedded.ReadFile("python/muru_worker/link.py")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]int{
		"MORE": flagMore, "BODY": flagBody, "CANCEL": flagCancel, "BROKEN": flagBroken, "QUOTED": flagQuoted,
		"PULL": flagPull, "RAISED": flagRaised, "RESET": flagReset, "BUSY": flagBusy, "IDLE": flagIdle, "HELLO": flagHello,
	} {
		if line := fmt.Sprintf("\n%s = 0x%02x ", name, value); !strings.Contains(string(text), line) {
			t.Errorf("link.py does not say %s", line)
		}
	}
	if !strings.Contains(string(text), fmt.Sprintf("\nVERSION = %d\n", version)) {
		t.Error("link.py has another version")
	}
}
