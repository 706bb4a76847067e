package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A daemon is the listening side for one worker at a time.
type daemon struct {
	t        testing.TB
	listener *Listener
	links    chan *Link
	controls chan *Control
	reports  chan Report
	stop     func()
}

func startDaemon(t testing.TB, socket string) *daemon {
	t.Helper()
	l, err := Listen(socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, listener: l, links: make(chan *Link, 64), controls: make(chan *Control, 64), reports: make(chan Report, 64)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn // guarded by mu until served is closed
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		if err := l.Serve(ctx, func(h Hello, c net.Conn) {
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			if h.Token != "secret" || h.Release != "shop@r6" {
				t.Errorf("hello %+v", h)
			}
			if h.Thread == ControlThread {
				control := NewControl(h, c)
				running.Go(func() { _ = control.Serve(func(r Report) { d.reports <- r }) })
				d.controls <- control
				return
			}
			d.links <- NewLink(h, c)
		}); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	d.stop = sync.OnceFunc(func() {
		cancel()
		<-served // nothing is accepted any more
		for _, c := range open {
			_ = c.Close()
		}
		running.Wait()
	})
	t.Cleanup(d.stop)
	return d
}

func receiveFrom[T any](t testing.TB, c chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// A worker is a real one.
type worker struct {
	t       testing.TB
	cmd     *exec.Cmd
	daemon  *daemon
	link    *Link
	control *Control
	dir     string // has out, stacks and the socket
	next    uint32
	exited  chan struct{} // closed when the process is gone
}

type option func(*Spec)

func python(path string) option     { return func(s *Spec) { s.Python = path } }
func threads(n int) option          { return func(s *Spec) { s.Threads = n } }
func orphan(d time.Duration) option { return func(s *Spec) { s.Orphan = d } }

// shortDir returns a directory whose path leaves room for a socket's.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "muru")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// launch starts a worker of testdata/apps and waits for nothing.
func launch(t testing.TB, entry string, options ...option) *worker {
	t.Helper()
	dir := shortDir(t)
	w := &worker{t: t, dir: dir, exited: make(chan struct{})}
	w.daemon = startDaemon(t, filepath.Join(dir, "s"))
	runtime, err := Install(filepath.Join(dir, "runtime"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("testdata/apps")
	if err != nil {
		t.Fatal(err)
	}
	interpreter, err := FindPython(source)
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Release: muru.ReleaseID{App: "shop", Number: 6}, Worker: 0, Workers: 1, Threads: 1, Source: source, Entry: entry,
		Socket: filepath.Join(dir, "s"), Token: "secret", StacksFile: w.stacksFile(), Python: interpreter,
	}
	for _, o := range options {
		o(&spec)
	}
	argv, env := runtime.Command(spec)
	out, err := os.OpenFile(filepath.Join(dir, "out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w.cmd = exec.Command(argv[0], argv[1:]...)
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stdout, w.cmd.Stderr = out, out
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait()
		close(w.exited)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
		<-w.exited
		if t.Failed() {
			t.Logf("the worker's output:\n%s", w.output())
		}
	})
	return w
}

// start starts a worker with one thread and waits until it is ready.
func start(t testing.TB, entry string, options ...option) *worker {
	t.Helper()
	w := launch(t, entry, options...)
	w.adopt()
	return w
}

// adopt waits until the worker has come to its daemon.
func (w *worker) adopt() {
	w.t.Helper()
	w.control = receiveFrom(w.t, w.daemon.controls, "the control connection")
	if r := receiveFrom(w.t, w.daemon.reports, "ready"); !r.Ready {
		w.t.Fatalf("report %+v", r)
	}
	w.link = receiveFrom(w.t, w.daemon.links, "a link")
}

func (w *worker) stacksFile() string { return filepath.Join(w.dir, "stacks") }

func (w *worker) output() string {
	text, err := os.ReadFile(filepath.Join(w.dir, "out"))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *worker) waitOutput(text string) {
	w.t.Helper()
	eventually(w.t, "output "+text, func() bool { return strings.Contains(w.output(), text) })
}

func (w *worker) waitExit() int {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(patience):
		w.t.Fatal("the worker does not end")
	}
	return w.cmd.ProcessState.ExitCode()
}

// An answer is what a worker answered, written down.
type answer struct {
	status int
	header []muru.Field
	length int64
	parts  []string
	size   int
	Result
	err error
	got func(p []byte) error // instead of parts
}

func (a *answer) Head(status int, header []muru.Field, length int64) error {
	a.status, a.header, a.length = status, append([]muru.Field(nil), header...), length
	return nil
}

func (a *answer) Body(p []byte) error {
	a.size += len(p)
	if a.got != nil {
		return a.got(p)
	}
	a.parts = append(a.parts, string(p))
	return nil
}

func (a *answer) body() string { return strings.Join(a.parts, "") }

func (a *answer) get(name string) string {
	for _, f := range a.header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// String is the answer in one line, for tables.
func (a *answer) String() string {
	switch {
	case a.err != nil:
		return "error: " + a.err.Error()
	case a.Raised:
		return "raised"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d", a.status)
	for _, f := range a.header {
		fmt.Fprintf(&b, " %s=%s", f.Name, f.Value)
	}
	fmt.Fprintf(&b, " (%d) %q", a.length, a.parts)
	if a.Reset {
		b.WriteString(" reset")
	}
	return b.String()
}

// request returns a request such as the edge makes.
func request(method, target string) *muru.Exchange {
	path, query, _ := strings.Cut(target, "?")
	return &muru.Exchange{
		ID: "01M8V4Q7J2W3N5X6Y8Z9A0B1C2", Method: method, Target: target, Path: path, Query: query,
		Proto: "HTTP/1.1", Scheme: "http", Host: "shop.example:8080", Remote: "192.0.2.7:4711", Local: "127.0.0.1:8080",
		Header: []muru.Field{{Name: "X-Request-Id", Value: "01M8V4Q7J2W3N5X6Y8Z9A0B1C2"}},
	}
}

func (w *worker) get(target string) *answer { return w.do(request("GET", target)) }

func (w *worker) do(x *muru.Exchange) *answer {
	a := new(answer)
	w.exchange(x, a)
	return a
}

func (w *worker) exchange(x *muru.Exchange, a *answer) {
	w.next++
	if a.err = w.link.Send(x, w.next); a.err == nil {
		a.Result, a.err = w.link.Receive(w.next, a)
	}
}

func isProtocolError(err error) bool {
	_, ok := errors.AsType[*ProtocolError](err)
	return ok
}
