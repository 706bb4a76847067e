package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muru"
)

func TestApplicationThatCannotBeServedIsReported(t *testing.T) {
	tests := []struct{ entry, want, log string }{
		{"raising:application", "ModuleNotFoundError: No module named 'no_such_module_anywhere'", `raising.py", line 1, in <module>`},
		{"raising_lines:application", "ValueError: first second [2J", `raising_lines.py", line 1, in <module>`},
		{"exiting:application", "SystemExit: 4", `exiting.py", line 1, in <module>`},
		{"broken:application", "SyntaxError: invalid syntax (", "def application(:"},
		{"missing:application", "there is no module missing in ", "there is no module missing in "},
		{"basic:nothing", "module basic has no attribute nothing (entry basic:nothing): entry = \"MODULE:ATTR\" names the application", "has no attribute"},
		{"flask_like:application", `module flask_like has no attribute application (entry flask_like:application): did you mean entry = "flask_like:app"`, "did you mean"},
		{"basic", `entry "basic" is not MODULE:ATTR`, "is not MODULE:ATTR"},
		{"basic:not_callable", "basic:not_callable is not callable: it is of type int", "is not callable"},
		{"basic:asgi", "basic:asgi is an ASGI application: only WSGI is supported in this version", "only WSGI"},
		{"basic:asgi_object", "basic:asgi_object is an ASGI application: only WSGI is supported in this version", "only WSGI"},
		{"basic:one_parameter", "basic:one_parameter takes 1 parameters: a WSGI application takes 2", "takes 1"},
	}
	for _, test := range tests {
		w := launch(t, test.entry)
		receiveFrom(t, w.daemon.controls, "the control connection")
		report := receiveFrom(t, w.daemon.reports, "a report")
		if report.Ready || !strings.HasPrefix(report.Failed, test.want) {
			t.Errorf("%s: %+v, want %s", test.entry, report, test.want)
		}
		if status := w.waitExit(); status != 1 {
			t.Errorf("%s: exit status %d", test.entry, status)
		}
		if out := w.output(); !strings.Contains(out, test.log) || strings.Contains(out, "muru_worker") || strings.Contains(out, "importlib") {
			t.Errorf("%s printed %s", test.entry, out)
		} else if n := strings.Count(out, test.want); n > 1 {
			t.Errorf("%s printed %d times: %s", test.want, n, out)
		}
	}
}

func TestEveryKindOfWSGICallableIsAccepted(t *testing.T) {
	for _, entry := range []string{"basic:WsgiClass", "basic:wsgi_object", "basic:wsgi_method", "basic:wsgi_object.__call__"} {
		w := start(t, entry)
		if a := w.get("/"); a.status != 200 {
			t.Errorf("%s: %s", entry, a)
		}
	}
}

func TestImportThatHangsCanBeLookedAtAndEnded(t *testing.T) {
	w := launch(t, "hanging:application")
	control := receiveFrom(t, w.daemon.controls, "the control connection")
	eventually(t, "the import to hang", func() bool {
		stacks, err := control.Stacks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(threadAt(stacks, "MainThread"), "hanging.py line 8 in hang, hanging.py line 11 in <module>")
	})
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.waitExit() // by the signal: there is nothing to finish
}

func TestSIGTERMFinishesTheRunningRequestFirst(t *testing.T) {
	w := start(t, "basic:waits_for_file", threads(2))
	idle := receiveFrom(t, w.daemon.links, "the other link")
	file := filepath.Join(w.dir, "go")
	a, done := new(answer), make(chan struct{})
	go func() {
		defer close(done)
		w.exchange(request("GET", file), a)
	}()
	w.waitOutput("waiting\n")
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil { // ignored
		t.Fatal(err)
	}
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the idle thread to end", func() bool { return idle.look() != nil })
	if err := idle.Send(request("GET", "/"), 1); !errors.Is(err, ErrNotSent) {
		t.Errorf("send to a thread that ended: %v", err)
	}
	select {
	case <-w.exited:
		t.Error("the worker ended before its request")
	default:
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	receiveClosed(t, done, "the answer")
	if a.err != nil || a.body() != "done" {
		t.Errorf("%s", a)
	}
	if status := w.waitExit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestExitEndsAWorkerAtOnce(t *testing.T) {
	w := start(t, "basic:blocked")
	if err := w.link.Send(request("GET", "/"), 1); err != nil {
		t.Fatal(err)
	}
	w.waitOutput("blocking\n")
	if err := w.control.Exit(); err != nil {
		t.Fatal(err)
	}
	if status := w.waitExit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestWorkerOutlivesTheDaemonAndServesTheNextOne(t *testing.T) {
	w := start(t, "basic:waits_for_file", threads(2))
	receiveFrom(t, w.daemon.links, "the other link")
	first := w.link.Hello
	file := filepath.Join(w.dir, "go")
	if err := w.link.Send(request("GET", file), 7); err != nil {
		t.Fatal(err)
	}
	w.waitOutput("waiting\n")
	w.daemon.stop()

	w.daemon = startDaemon(t, filepath.Join(w.dir, "s"))
	w.control = receiveFrom(t, w.daemon.controls, "the control connection")
	if r := receiveFrom(t, w.daemon.reports, "ready, again"); !r.Ready {
		t.Errorf("report %+v", r)
	}
	idle := receiveFrom(t, w.daemon.links, "the idle thread")
	if idle.Hello.PID != first.PID || !idle.Hello.Started.Equal(first.Started) || idle.Hello.Thread == first.Thread {
		t.Errorf("hello %+v, before %+v", idle.Hello, first)
	}
	// The other thread drops its answer to the daemon that is gone.
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.waitOutput("finished\n")
	w.link = receiveFrom(t, w.daemon.links, "the thread that was busy")
	if w.link.Hello.Thread != first.Thread || w.link.Hello.Ident != first.Ident {
		t.Errorf("hello %+v, before %+v", w.link.Hello, first)
	}
	if a := w.get(file); a.body() != "done" {
		t.Errorf("%s", a)
	}
}

func TestWorkerWithoutADaemonPrintsOnAndEndsItself(t *testing.T) {
	w := start(t, "chatty:application", orphan(300*time.Millisecond))
	w.daemon.stop()
	lines := strings.Count(w.output(), "\n")
	eventually(t, "the worker to print on", func() bool { return strings.Count(w.output(), "\n") > lines+3 })
	if status := w.waitExit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	out := w.output()
	if !strings.Contains(out, "muru worker: no daemon came for 0.3 s, ending\n") || strings.Contains(out, "Error") {
		t.Errorf("printed %s", out)
	}
}

// A daemon that is killed while it stops its workers kills none of them.
func TestWorkerThatWasToldToEndEndsWithoutADaemonToo(t *testing.T) {
	w := start(t, "basic:waits_for_file", orphan(300*time.Millisecond))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.exchange(request("GET", filepath.Join(w.dir, "never")), new(answer))
	}()
	w.waitOutput("waiting\n")
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.daemon.stop()
	if status := w.waitExit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	receiveClosed(t, done, "the request to end")
}

func TestWorkerThatNoDaemonKnowsEndsItself(t *testing.T) {
	w := start(t, "basic:hello", orphan(500*time.Millisecond))
	w.daemon.stop()
	l, err := Listen(filepath.Join(w.dir, "s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int32
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = l.Serve(t.Context(), func(_ Hello, c net.Conn) { refused.Add(1); _ = c.Close() })
	}()
	if status := w.waitExit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	_ = l.Close()
	receiveClosed(t, served, "Serve to end")
	if n := refused.Load(); n < 1 || n > 20 {
		t.Errorf("it came %d times", n)
	}
}

func TestOldPythonIsRefusedWithASentence(t *testing.T) {
	dir := t.TempDir()
	runtime, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile(filepath.Join(runtime.dir, packageName, "__main__.py"))
	if err != nil {
		t.Fatal(err)
	}
	// The sentence comes before anything that an old one could not read.
	early, _, _ := strings.Cut(string(main), "\nimport os\n")
	if !strings.Contains(early, "muru needs Python 3.9 or newer") || strings.Contains(early, `f"`) {
		t.Errorf("__main__.py begins %s", early)
	}
}

func TestInstallRepairsAndRepeats(t *testing.T) {
	dir := t.TempDir()
	first, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(first.dir, packageName, "wsgi.py")
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Install(dir); err != nil || second != first {
		t.Errorf("%v %v", second, err)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("installed again: %v", err)
	}
	if err := os.WriteFile(file, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) < 1000 {
		t.Errorf("not repaired: %d bytes, %v", len(text), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestFindPythonPrefersTheReleasesOwn(t *testing.T) {
	dir := t.TempDir()
	if path, err := FindPython(dir); err != nil || filepath.Base(path) != "python3" || !filepath.IsAbs(path) {
		t.Errorf("%s %v", path, err)
	}
	venv := filepath.Join(dir, ".venv", "bin", "python")
	if err := os.MkdirAll(filepath.Dir(venv), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := FindPython(dir); muru.KindOf(err) != muru.KindNotFound || !strings.HasSuffix(err.Error(), ".venv/bin/python is not a program") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(venv, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := FindPython(dir)
	if err != nil || path != venv {
		t.Errorf("%s %v", path, err)
	}
	_, env := Runtime{}.Command(Spec{Source: dir, Python: path})
	if !strings.Contains(strings.Join(env, "\n"), "VIRTUAL_ENV="+filepath.Join(dir, ".venv")) {
		t.Errorf("%q", env)
	}
	t.Setenv("PATH", dir)
	if _, err := FindPython(t.TempDir()); err == nil || err.Error() != "there is no python3 on PATH" {
		t.Errorf("%v", err)
	}
}

func TestListenReplacesOnlyWhatIsLeftOver(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if _, err := Listen(path, nil); err == nil || err.Error() != "another muru uses "+path {
		t.Errorf("%v", err)
	}
	if err := l.socket.Close(); err != nil { // as after kill -9: the file stays
		t.Fatal(err)
	}
	if l, err = Listen(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, nil); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("%v", err)
	}
	long := "/" + strings.Repeat("x", 110)
	if _, err := Listen(long, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("too long: 111 bytes, at most %d", MaxSocketPath)) {
		t.Errorf("%v", err)
	}
}

func TestASocketThatWasRemovedIsMadeAgain(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	d := startDaemon(t, path)
	reach := func() bool {
		c, err := net.Dial("unix", path)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte("no hello at all, which is dropped"))
		_, err = c.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	renew := func(want string) {
		t.Helper()
		if err := d.listener.Renew(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("renew: %v, want %q", err, want)
		}
	}
	renew("") // nothing to do
	if !reach() {
		t.Fatal("it does not listen")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	renew("")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !reach() {
		t.Errorf("it does not listen again: %v, %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	renew("another muru uses " + path)
	d.stop()
	renew("") // closed is closed
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the other's socket: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed, and it is still there: %v", err)
	}
}

func TestConnectionsThatSayNoHelloAreDropped(t *testing.T) {
	d := startDaemon(t, filepath.Join(shortDir(t), "s"))
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("\x00", 40), ""} {
		c, err := net.Dial("unix", d.listener.socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			d.stop() // does not wait for one that says nothing
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %.10q: %v", text, err)
		}
		_ = c.Close()
	}
	if len(d.links)+len(d.controls) != 0 {
		t.Error("one was accepted")
	}
}
