package wire

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muru"
)

func TestCancelEndsAStreamAndFreesItsThread(t *testing.T) {
	w := start(t, "every:application")
	a := &answer{}
	a.got = func([]byte) error {
		if a.size == 5*3 {
			w.link.Cancel(w.next)
		}
		return nil
	}
	w.exchange(request("GET", "/forever"), a)
	if a.err != nil || !a.Reset {
		t.Errorf("%s", a)
	}
	w.waitOutput("closed\n")
	w.link.Cancel(w.next) // late: no effect
	if a := w.get("/hello"); a.body() != "hello\n" {
		t.Errorf("afterwards: %s", a)
	}
}

func TestAnswerNobodyTakesIsReadToItsEnd(t *testing.T) {
	w := start(t, "every:application")
	a := &answer{got: func([]byte) error { return muru.ErrClientGone }}
	w.exchange(request("GET", "/stream"), a)
	if a.err != nil || a.Result != (Result{}) || a.size != 4 {
		t.Errorf("%s, %d bytes", a, a.size)
	}
	if a := w.get("/hello"); a.body() != "hello\n" {
		t.Errorf("afterwards: %s", a)
	}
}

func TestWorkerThatBreaksTheProtocolIsNamedForIt(t *testing.T) {
	tests := []struct {
		app, want string
		next      bool // the breach shows with the next request, which was not started
	}{
		{"answers_twice", "answered a request twice", true},
		{"writes_garbage", `sent no frame: "HTTP/1.1 200 OK\r"`, false},
		{"injects_header", `sent a line break or control character in the header X-Bad: "a\r\nSet-Cookie: evil=1"`, false},
	}
	for _, test := range tests {
		w := start(t, "every:application")
		a := w.get("/" + test.app)
		if test.next {
			if a.err != nil || a.body() != "extra" {
				t.Errorf("%s: first answer %s", test.app, a)
			}
			eventually(t, "the second answer", func() bool { return w.link.look() != nil })
			a = w.get("/hello")
			if !errors.Is(a.err, ErrNotSent) {
				t.Errorf("%s: %v", test.app, a.err)
			}
		}
		breach, ok := errors.AsType[*ProtocolError](a.err)
		if !ok || breach.What != test.want {
			t.Errorf("%s: %v, want %s", test.app, a.err, test.want)
		}
	}
}

func TestWorkerThatClosesItsSocketMidAnswerComesBack(t *testing.T) {
	w := start(t, "every:application")
	a := w.get("/closes_sockets")
	if !errors.Is(a.err, ErrClosed) || a.status != 200 || a.body() != "begun" {
		t.Errorf("%s", a)
	}
	// The application also closed the control connection.
	w.link = receiveFrom(t, w.daemon.links, "the thread's next link")
	if a := w.get("/hello"); a.body() != "hello\n" {
		t.Errorf("afterwards: %s", a)
	}
}

func TestRequestIsNotGivenToAWorkerThatDied(t *testing.T) {
	w := start(t, "basic:hello")
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.exited
	a := w.get("/")
	if !errors.Is(a.err, ErrNotSent) || !errors.Is(a.err, ErrClosed) {
		t.Errorf("%v", a.err)
	}
}

func TestThreadThatWorksAfterItsAnswerSaysSo(t *testing.T) {
	w := start(t, "every:application")
	file := filepath.Join(w.dir, "go")
	slow := "/close_waits"
	// The first slow close is not announced; it is what makes the rest be.
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := w.get(slow + "?" + file); a.body() != "ok" || w.link.Busy() {
		t.Errorf("%s, busy %v", a, w.link.Busy())
	}
	if a := w.get("/hello"); a.body() != "hello\n" || w.link.Busy() {
		t.Errorf("%s, busy %v", a, w.link.Busy())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if a := w.get(slow + "?" + file); a.body() != "ok" || !w.link.Busy() {
		t.Errorf("%s, busy %v", a, w.link.Busy())
	}
	settled := make(chan error, 1)
	go func() { settled <- w.link.Settle() }()
	select {
	case err := <-settled:
		t.Fatalf("settled while in close(): %v", err)
	default:
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := receiveFrom(t, settled, "the thread to be free"); err != nil {
		t.Error(err)
	}
	if a := w.get("/hello"); a.body() != "hello\n" {
		t.Errorf("%s", a)
	}
}

func TestForkedChildHoldsNoConnection(t *testing.T) {
	w := start(t, "basic:forks")
	for _, path := range []string{"/", "/exec"} {
		a := w.get(path)
		child, err := strconv.Atoi(a.body())
		if err != nil {
			t.Fatal(a)
		}
		defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	}
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.exited
	if a := w.get("/"); !errors.Is(a.err, ErrClosed) {
		t.Errorf("%s", a)
	}
}

func TestManyRequestsOnManyThreads(t *testing.T) {
	w := start(t, "every:application", threads(4))
	links := []*Link{w.link}
	for range 3 {
		links = append(links, receiveFrom(t, w.daemon.links, "a link"))
	}
	done := make(chan error)
	for _, l := range links {
		go func() {
			for id := range uint32(200) {
				a := new(answer)
				path := []string{"/hello", "/stream", "/several", "/writes"}[id%4]
				if err := l.Send(request("GET", path), id); err != nil {
					done <- err
					return
				}
				if _, err := l.Receive(id, a); err != nil {
					done <- err
					return
				}
				if want := []string{"hello\n", "one two three", "abc", "written twice and returned"}[id%4]; a.body() != want {
					done <- errors.New(a.String())
					return
				}
			}
			done <- nil
		}()
	}
	for range links {
		if err := receiveFrom(t, done, "200 requests"); err != nil {
			t.Error(err)
		}
	}
	threads := make(map[int]bool)
	for _, l := range links {
		threads[l.Hello.Thread] = true
	}
	if len(threads) != 4 || strings.Contains(w.output(), "Traceback") {
		t.Errorf("threads %v", threads)
	}
}
