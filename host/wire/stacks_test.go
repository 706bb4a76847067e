package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru"
)

// threadAt returns the frames of a thread in one line.
func threadAt(stacks []ThreadStack, name string) string {
	for _, s := range stacks {
		if s.Name == name {
			return framesLine(s)
		}
	}
	return "no thread " + name
}

// lineOf returns the number of the line of basic.py that has mark.
func lineOf(t *testing.T, mark string) int {
	t.Helper()
	text, err := os.ReadFile("testdata/apps/basic.py")
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("no line has %s", mark)
	}
	return strings.Count(before, "\n") + 1
}

func framesLine(s ThreadStack) string {
	var frames []string
	for _, f := range s.Frames {
		frames = append(frames, f.String())
	}
	return strings.Join(frames, ", ")
}

func TestStacksShowAThreadBlockedInALock(t *testing.T) {
	for _, interpreter := range interpreters(t) {
		w := start(t, "basic:blocked", python(interpreter), threads(2))
		if err := w.link.Send(request("GET", "/"), 1); err != nil {
			t.Fatal(err)
		}
		w.waitOutput("blocking\n")
		var stuck ThreadStack
		want := fmt.Sprintf("basic.py line %d in blocked", lineOf(t, "# for ever"))
		eventually(t, "the second acquire", func() bool {
			stacks, err := w.control.Stacks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range stacks {
				if s.Ident == w.link.Hello.Ident {
					stuck = s
				}
			}
			return len(stuck.Frames) > 0 && stuck.Frames[0].String() == want
		})
		if stuck.Frames[1].File != "muru_worker/wsgi.py" || stuck.Frames[1].Function != "run_application" || stuck.Name == "" || stuck.Current {
			t.Errorf("%+v", stuck)
		}
	}
}

func TestDumpShowsAThreadWhileCCodeHoldsTheInterpreter(t *testing.T) {
	for _, interpreter := range interpreters(t) {
		w := start(t, "basic:backtracks", python(interpreter))
		if err := w.link.Send(request("GET", "/"), 1); err != nil {
			t.Fatal(err)
		}
		w.waitOutput("matching\n")
		// Held: nobody answers on the control connection.
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := w.control.Stacks(short); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("stacks of a held worker: %v", err)
		}
		source, err := filepath.Abs("testdata/apps")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second dump stands alone
			stacks, err := Dump(t.Context(), w.stacksFile(), source, func() error { return w.cmd.Process.Signal(DumpSignal) })
			if err != nil {
				t.Fatal(err)
			}
			var held string
			for _, s := range stacks {
				if s.Ident == w.link.Hello.Ident {
					held = framesLine(s)
				}
			}
			want := fmt.Sprintf(", basic.py line %d in backtracks, muru_worker/wsgi.py line", lineOf(t, "# for ages"))
			if !strings.Contains(held, want) {
				t.Errorf("held at %s, want %s", held, want)
			}
		}
	}
}

func TestDumpOfAProcessThatIsSilentEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stacks")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dump(ctx, file, "", func() error { return nil }); !errors.Is(err, ErrUnresponsive) {
		t.Errorf("%v", err)
	}
	if _, err := Dump(ctx, file, "", func() error { return syscall.ESRCH }); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("%v", err)
	}
}

func TestStacksEndWithTheConnection(t *testing.T) {
	w := start(t, "basic:hello")
	pid := w.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Each thread stops when it is next looked at by the system.
	eventually(t, "all threads to stop", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(task string) bool {
			stat, _ := os.ReadFile(task)
			return !strings.Contains(string(stat), ") T ")
		})
	})
	ended := make(chan error, 1)
	go func() {
		_, err := w.control.Stacks(context.Background())
		ended <- err
	}()
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := receiveFrom(t, ended, "Stacks to end"); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

const dumped = `Thread 0x00007f2a5e7fc640 (most recent call first):
  File "/srv/shop/app.py", line 27 in order
  File "/srv/shop/sub "dir", line 1/x.py", line 3 in <lambda>
  File "<frozen runpy>", line ??? in run

Current thread 0x00007f2a6a1b7740 [python3] (most recent call first):
  Garbage-collecting
  <no Python frame>
`

func TestParseFaulthandlerReadsEveryForm(t *testing.T) {
	got := ParseFaulthandler([]byte("noise\n" + dumped))
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if got[0].Ident != 0x7f2a5e7fc640 || got[0].Current || framesLine(got[0]) !=
		`/srv/shop/app.py line 27 in order, /srv/shop/sub "dir", line 1/x.py line 3 in <lambda>, <frozen runpy> line 0 in run` {
		t.Errorf("%+v", got[0])
	}
	if !got[1].Current || got[1].Name != "python3" || len(got[1].Frames) != 0 {
		t.Errorf("%+v", got[1])
	}
	if again := ParseFaulthandler([]byte(dumped + dumped)); len(again) != 2 || len(again[0].Frames) != 3 {
		t.Errorf("two dumps: %+v", again)
	}
}

func TestFilesAreNamedFromTheReleaseOrTheRuntime(t *testing.T) {
	for _, test := range []struct{ file, source, want string }{
		{"/srv/shop/app.py", "/srv/shop", "app.py"},
		{"/srv/shop/a/b.py", "/srv/shop/", "a/b.py"},
		{"/srv/shopping/app.py", "/srv/shop", "/srv/shopping/app.py"},
		{"/run/x/0123456789ab/muru_worker/wsgi.py", "/srv/shop", "muru_worker/wsgi.py"},
		{"/usr/lib/python3.11/re.py", "", "/usr/lib/python3.11/re.py"},
	} {
		if got := relativeFile(test.file, test.source); got != test.want {
			t.Errorf("%s in %s is %s, want %s", test.file, test.source, got, test.want)
		}
	}
}

func TestStuckAtNamesTheApplicationBeforeTheRuntime(t *testing.T) {
	s := muru.Stack{Frames: []muru.Frame{{File: "app.py", Line: 27, Function: "order"}, {File: "muru_worker/wsgi.py", Line: 68, Function: "run_application"}}}
	if got := s.StuckAt(); got != "at app.py line 27 in order, called from muru_worker/wsgi.py line 68 in run_application" {
		t.Error(got)
	}
}
