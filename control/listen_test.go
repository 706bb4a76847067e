package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func TestStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // as after kill -9
	w := serveAt(t, path, "", saysWho())
	if _, err := w.State(deadline(t)); err != nil {
		t.Error(err)
	}
}

func TestSocketThatSomebodyAnswersAtIsLeftAlone(t *testing.T) {
	w := serve(t, saysWho())
	_, err := control.Listen(w.path, "")
	if !errors.Is(err, control.ErrSocketTaken) || muru.KindOf(err) != muru.KindRefused {
		t.Errorf("got %v", err)
	}
	if _, err := w.State(deadline(t)); err != nil {
		t.Errorf("the first one: %v", err)
	}
}

func TestFileThatIsNoSocketIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := control.Listen(path, "")
	if muru.KindOf(err) != muru.KindRefused || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

func TestPathThatIsTooLongOrNowhereIsASentence(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	long := filepath.Join(dir, strings.Repeat("x", control.MaxPath))
	for path, want := range map[string]string{
		long:                                  "the path of the control socket is too long",
		"":                                    "has no path",
		filepath.Join(dir, "no", "muru.sock"): "does not exist",
	} {
		_, err := control.Listen(path, "")
		if muru.KindOf(err) != muru.KindUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("listen at %.40q: got %v, want %q", path, err, want)
		}
	}
	if _, err := control.NewClient(long, "1").State(deadline(t)); muru.KindOf(err) != muru.KindUsage || errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("a client of a path too long: got %v", err)
	}
	longest := filepath.Join(dir, strings.Repeat("x", control.MaxPath-len(dir)-1))
	l, err := control.Listen(longest, "")
	if err != nil {
		t.Fatalf("a path of %d bytes: %v", len(longest), err)
	}
	l.Close()
}

func TestCloseRemovesTheSocketUnlessItIsAnothers(t *testing.T) {
	path := socketPath(t)
	l, err := control.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	other, err := control.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the other's socket: %v", err)
	}
	if err := errors.Join(other.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOfManyThatStartAtOnceOneListens(t *testing.T) {
	path := socketPath(t)
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	got := make(chan *control.Listener, 16)
	var group sync.WaitGroup
	for range cap(got) {
		group.Go(func() {
			l, err := control.Listen(path, "")
			if err == nil {
				got <- l
			} else if !errors.Is(err, control.ErrSocketTaken) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	close(got)
	n := 0
	for l := range got {
		n++
		l.Close()
	}
	if n != 1 {
		t.Errorf("%d listen at one path", n)
	}
}

func TestNobodyAtTheSocketIsASentenceWithTheWayOut(t *testing.T) {
	stale := socketPath(t)
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	plain := socketPath(t)
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{
		"no file": socketPath(t), "no directory": "/nonexistent/muru.sock", "a stale socket": stale, "a plain file": plain,
	} {
		c := control.NewClient(path, "1.2.3")
		for how, ask := range map[string]func() error{
			"a value":  func() error { _, err := c.State(deadline(t)); return err },
			"a stream": func() error { return c.Call(deadline(t), control.Call{Source: "x"}, nil) },
		} {
			err := ask()
			if !errors.Is(err, control.ErrNoDaemon) || err.Error() != "no muru serves at "+path ||
				!strings.HasSuffix(control.ErrorText(err), "\nhint: start one: muru serve") {
				t.Errorf("%s, %s: got %q", what, how, control.ErrorText(err))
			}
		}
	}
}

func TestSocketIsFoundWhereItIsSaidToBe(t *testing.T) {
	t.Setenv("MURU_CONTROL", "")
	if got, err := control.Find("/srv/state"); got != "/srv/state/muru.sock" || err != nil {
		t.Errorf("of a state directory: got %q, %v", got, err)
	}
	dir, err := control.DefaultStateDir()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := control.Find(""); got != dir+"/muru.sock" || err != nil {
		t.Errorf("by default: got %q, %v", got, err)
	}
	t.Setenv("MURU_CONTROL", "/run/muru.sock")
	if got, err := control.Find("/srv/state"); got != "/run/muru.sock" || err != nil {
		t.Errorf("by the environment: got %q, %v", got, err)
	}
}

func TestStateDirectoryFollowsTheXDGSpecification(t *testing.T) {
	for _, c := range []struct {
		root             bool
		xdg, home, state string
	}{
		{true, "/x", "/root", "/var/lib/muru"},
		{false, "/x", "/home/ana", "/x/muru"},
		{false, "relative", "/home/ana", "/home/ana/.local/state/muru"},
		{false, "", "/home/ana", "/home/ana/.local/state/muru"},
		{false, "", "", ""},
	} {
		got, err := control.StateDir(c.root, c.xdg, c.home)
		if got != c.state || (err != nil) != (c.state == "") {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

func TestServerThatWasStartedAgainIsFoundAgain(t *testing.T) {
	path := socketPath(t)
	first := serveAt(t, path, "", saysWho())
	if _, err := first.State(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.server.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	serveAt(t, path, "", &controltest.Muru{OnState: func(context.Context) (control.State, error) {
		return control.State{PID: 2}, nil
	}})
	if state, err := first.State(deadline(t)); state.PID != 2 || err != nil {
		t.Errorf("got pid %d, %v", state.PID, err)
	}
}
