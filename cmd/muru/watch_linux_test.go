package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/person"
	"muru/cmd/muru/person/persontest"
	"muru/cmd/muru/visitortest"
)

// A screen is a command on a terminal of its own.
type screen struct {
	t    *testing.T
	tty  *os.File // the side of the person
	cmd  *exec.Cmd
	text lockedBuffer
	read chan struct{} // closed when the command's side is closed
}

// openScreen starts a command on a new terminal.
func openScreen(t *testing.T, name string, args ...string) *screen {
	t.Helper()
	tty, other := persontest.OpenTerminal(t)
	s := &screen{t: t, tty: tty, cmd: exec.Command(name, args...), read: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = other, other, other
	// Ours of the command's side stays open until the end: what was written to
	// it and not read is lost when the last one closes.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.cmd.Env = append(os.Environ(), "TERM=dumb")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the command's side is closed
		defer close(s.read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.text.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		other.Close()
		<-s.read
		tty.Close()
	})
	return s
}

// sees waits until the screen shows a text.
func (s *screen) sees(text string) {
	s.t.Helper()
	visitortest.Eventually(s.t, fmt.Sprintf("%q on the screen", text), func() bool { return strings.Contains(s.text.String(), text) })
}

// types presses keys.
func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the command and returns its status and all that
// it showed.
func (s *screen) ends() (status int, text string) {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		s.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		s.t.Fatalf("it does not end; on the screen:\n%s", s.text.String())
	}
	visitortest.Eventually(s.t, "what it was asked", func() bool {
		_, last, _ := strings.Cut(s.text.String(), "asked: ")
		return strings.HasSuffix(last, "\n")
	})
	return s.cmd.ProcessState.ExitCode(), strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// leaveQuestion is the one that Ctrl-C asks.
const leaveQuestion = "leave it running [Enter], abort it and clean up [a], go on watching [w]? "

const ctrlC = "\x03"

func TestCtrlCOnATerminalAsksWhatBecomesOfTheRollout(t *testing.T) {
	quickest := time.Hour // of several: the machine may have other things to do
	for _, c := range []struct{ name, keys, asked, last string }{
		{"Enter leaves it running", "\n", "left", ""},
		{"a aborts it", "a\n", "left, abort(7)", "muru: rollout 7 aborted: by ana at 10%\n"},
		{"Ctrl-C again leaves it running", ctrlC, "left", ""},
		{"Ctrl-D leaves it running", "\x04", "left", ""},
		{"another word asks again", "what?\n\n", "left", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openScreen(t, "muru-watching", "rollout", "canary", "shop@r6", "--wait")
			s.sees("rollout 7 running step 1 of 2: 10% for 30s")
			pressed := time.Now()
			s.types(ctrlC)
			s.sees("go on watching [w]? ")
			quickest = min(quickest, time.Since(pressed))
			s.types(c.keys)
			status, text := s.ends()
			if status != person.StatusInterrupted {
				t.Errorf("status %d", status)
			}
			if !strings.Contains(text, `interrupted at canary("shop@r6") after `) || !strings.Contains(text, "; rollout 7 left at 10%\n"+leaveQuestion) {
				t.Errorf("showed\n%s", text)
			}
			if !strings.HasSuffix(text, c.last+"asked: "+c.asked+"\n") {
				t.Errorf("showed\n%s\nwant at its end %q", text, c.last+"asked: "+c.asked)
			}
			if strings.Contains(text, "\x1b") {
				t.Errorf("escapes on a dumb terminal: %q", text)
			}
		})
	}
	if quickest > 200*time.Millisecond {
		t.Errorf("the question took %s", quickest)
	}
}

func TestWatchingGoesOnAfterTheQuestionAndCanBeInterruptedAgain(t *testing.T) {
	t.Parallel()
	s := openScreen(t, "muru-watching", "attach", "3")
	s.sees("working")
	s.types(ctrlC)
	s.sees("; run 3 goes on\r\n" + leaveQuestion)
	s.types("w\n")
	s.sees(leaveQuestion + "w\r\nworking")
	s.types(ctrlC)
	visitortest.Eventually(t, "a second question", func() bool { return strings.Count(s.text.String(), leaveQuestion) == 2 })
	s.types("a\n")
	status, text := s.ends()
	if status != person.StatusInterrupted || !strings.HasSuffix(text, "muru: run 3 cancelled\nasked: cancel 3\n") {
		t.Errorf("status %d, showed\n%s", status, text)
	}
}

func TestCtrlCOnATerminalCancelsWhatMovesNoTraffic(t *testing.T) {
	t.Parallel()
	s := openScreen(t, "muru-watching", "observe", "shop@r6")
	s.sees("observing")
	s.types(ctrlC)
	status, text := s.ends()
	if status != person.StatusInterrupted || !strings.Contains(text, "\ninterrupted at observe(\"shop@r6\") after ") || strings.Contains(text, "[Enter]") {
		t.Errorf("status %d, showed\n%s", status, text)
	}
	if !strings.HasSuffix(text, "asked: left\n") {
		t.Errorf("showed\n%s", text)
	}
}

func TestATerminalThatGoesAwayLeavesTheRolloutRunning(t *testing.T) {
	t.Parallel()
	s := openScreen(t, "muru-watching", "rollout", "canary", "shop@r6", "--wait")
	s.sees("rollout 7 running")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	status, text := s.ends()
	if status != person.StatusInterrupted || !strings.HasSuffix(text, "rollout 7 left at 10%\nasked: left\n") {
		t.Errorf("status %d, showed\n%s", status, text)
	}
}
