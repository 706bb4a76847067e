package wire

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"muru"
)

// upload returns a request with a body of n bytes; known is whether its
// length is.
func upload(target string, body io.Reader, length int64) *muru.Exchange {
	x := request("POST", target)
	x.Body, x.Length = body, length
	return x
}

// pattern is n bytes without a short period.
type pattern struct{ at, n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.n {
		return 0, io.EOF
	}
	n := min(int64(len(b)), p.n-p.at)
	for i := range n {
		v := p.at + i
		b[i] = byte(v ^ v>>7 ^ v>>16)
	}
	p.at += n
	return int(n), nil
}

func TestRequestBodiesReachTheApplication(t *testing.T) {
	w := start(t, "every:application")
	lines := "first line\nsecond\nthird\nfourth"
	tests := []struct {
		app  string
		x    *muru.Exchange
		want string
	}{
		{"small", upload("/read_all", strings.NewReader("small body"), 10), "10 small body"},
		{"small of unknown length", upload("/read_all", strings.NewReader("small body"), -1), "10 small body"},
		{"empty of unknown length", upload("/read_all", strings.NewReader(""), -1), "0 "},
		{"none", request("GET", "/read_all"), "0 "},
		{"byte by byte", upload("/read_all", iotest.OneByteReader(strings.NewReader("small body")), -1), "10 small body"},
		{"just small", upload("/read_all", &pattern{n: smallBody}, smallBody), "65536 "},
		{"just large", upload("/read_all", &pattern{n: smallBody + 1}, smallBody+1), "65537 "},
		{"data with its end", upload("/read_all", iotest.DataErrReader(&pattern{n: 200000}), 200000), "200000 "},
		{"lines", upload("/read_lines", strings.NewReader(lines), int64(len(lines))), "first line\n|sec|ond\n|third\n,fourth"},
		{"pulled lines", upload("/read_lines", strings.NewReader(lines), -1), "first line\n|sec|ond\n|third\n,fourth"},
		{"echo", upload("/echo_body", strings.NewReader(strings.Repeat("x", 70000)), 70000), strings.Repeat("x", 70000)},
		{"not read", upload("/ignore_body", &pattern{n: 1 << 40}, 1<<40), "ignored"},
		{"not read, unknown length", upload("/ignore_body", &pattern{n: 1 << 40}, -1), "ignored"},
		{"kept", upload("/keep_input", &pattern{n: 1 << 20}, 1<<20), "[]"},
		{"kept after its end", request("GET", "/keep_input"), "[b'']"},
	}
	for _, test := range tests {
		a := w.do(test.x)
		if a.err != nil || a.status != 200 || !strings.HasPrefix(a.body(), test.want) {
			t.Errorf("%s: %.100s", test.app, a)
		}
	}
}

func TestGatheredBodyCanBeSentAgain(t *testing.T) {
	w := start(t, "basic:read_all")
	x := upload("/", strings.NewReader("small body"), 10)
	for range 2 {
		if err := Gather(x); err != nil {
			t.Fatal(err)
		}
		if a := w.do(x); a.body() != "10 small body" {
			t.Errorf("%s", a)
		}
	}
	if all, err := io.ReadAll(x.Body); err != nil || string(all) != "small body" {
		t.Errorf("read %q, %v", all, err)
	}
}

func TestUploadOf100MBStreamsThroughWithoutGrowth(t *testing.T) {
	w := start(t, "basic:count_body")
	before := w.do(upload("/", &pattern{n: 100_000}, 100_000))
	const size = 100_000_000
	a := w.do(upload("/", &pattern{n: size}, size))
	sum := md5.New()
	if _, err := io.Copy(sum, &pattern{n: size}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d %x", size, sum.Sum(nil)); a.body() != want {
		t.Errorf("%s, want %s", a, want)
	}
	small, _ := strconv.Atoi(before.get("X-Peak-Kib"))
	large, _ := strconv.Atoi(a.get("X-Peak-Kib"))
	if small == 0 || large-small > 2048 {
		t.Errorf("the worker grew from %d to %d KiB", small, large)
	}
}

func TestLargeAnswerArrivesWhole(t *testing.T) {
	w := start(t, "basic:big")
	a := &answer{}
	sum := md5.New()
	a.got = func(p []byte) error { _, err := sum.Write(p); return err }
	w.exchange(request("GET", "/"), a)
	want := md5.Sum([]byte(strings.Repeat("0123456789abcdef", 5*65536/2)))
	if a.err != nil || a.size != 16*5*65536/2 || a.length != int64(a.size) || [16]byte(sum.Sum(nil)) != want {
		t.Errorf("%d bytes, %v", a.size, a.err)
	}
}

func TestFileWrapperStreamsAFile(t *testing.T) {
	w := start(t, "basic:file")
	want, err := os.ReadFile("testdata/apps/basic.py")
	if err != nil {
		t.Fatal(err)
	}
	if a := w.get("/"); a.body() != string(want) || len(a.parts) < 5 {
		t.Errorf("%.200s", a)
	}
}

func TestBrokenBodyIsTheClientsFaultAndTheThreadGoesOn(t *testing.T) {
	w := start(t, "every:application")
	broken := func(n int64) io.Reader { return io.MultiReader(&pattern{n: n}, iotest.ErrReader(muru.ErrBodyTooLarge)) }
	for name, x := range map[string]*muru.Exchange{
		"small":          upload("/read_all", broken(10), 100),
		"large":          upload("/read_all", broken(100_000), 200_000),
		"unknown length": upload("/read_all", broken(100_000), -1),
	} {
		a := w.do(x)
		if _, ok := errors.AsType[*BodyError](a.err); !ok || !errors.Is(a.err, muru.ErrBodyTooLarge) || a.status != 0 {
			t.Errorf("%s: %s", name, a)
		}
	}
	for name, x := range map[string]*muru.Exchange{
		"small":  upload("/read_all", &pattern{n: 10}, 100),
		"large":  upload("/read_all", &pattern{n: 100_000}, 200_000),
		"echoed": upload("/echo_body", &pattern{n: 100_000}, 200_000),
	} {
		if a := w.do(x); !errors.Is(a.err, io.ErrUnexpectedEOF) {
			t.Errorf("ends early, %s: %s", name, a)
		}
	}
	if a := w.get("/hello"); a.body() != "hello\n" {
		t.Errorf("afterwards: %s", a)
	}
	if out := w.output(); strings.Contains(out, "Traceback") || !strings.Contains(out, "the request's body broke off") {
		t.Errorf("printed %s", out)
	}
}

func TestWorkersDeathIsSeenWhileTheClientSendsNothing(t *testing.T) {
	w := start(t, "basic:read_all")
	body, client := io.Pipe()
	defer client.Close()
	a := new(answer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.exchange(upload("/", body, -1), a)
	}()
	// A pipe's write returns when it was read: the worker asked for it.
	if _, err := client.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	receiveClosed(t, done, "the exchange")
	if !errors.Is(a.err, ErrClosed) || errors.Is(a.err, ErrNotSent) {
		t.Errorf("%s", a)
	}
}

func TestEveryPartOfAStreamArrivesAtOnce(t *testing.T) {
	w := start(t, "basic:echo_body")
	body, client := io.Pipe()
	parts := make(chan string)
	a := &answer{got: func(p []byte) error { parts <- string(p); return nil }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.exchange(upload("/", body, -1), a)
	}()
	var got []string
	for i := range 3 {
		part := strings.Repeat(strconv.Itoa(i), 10000) // what the application reads at once
		if _, err := client.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		got = append(got, receiveFrom(t, parts, "the part that was sent")[:1])
	}
	_ = client.Close()
	receiveClosed(t, done, "the answer's end")
	if !slices.Equal(got, []string{"0", "1", "2"}) || a.err != nil || a.Result != (Result{}) {
		t.Errorf("%q %s", got, a)
	}
}

func receiveClosed(t *testing.T, c chan struct{}, what string) {
	t.Helper()
	receiveFrom(t, c, what)
}
