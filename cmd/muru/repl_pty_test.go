package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muru/cmd/muru/person/persontest"
	"muru/cmd/muru/visitortest"
)

// A terminalSession is a muru repl that a test types at.
type terminalSession struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open, so that the mode can be looked at afterwards
	found  unix.Termios

	mu   sync.Mutex // guards what follows
	out  bytes.Buffer
	seen int // how much of what is shown was expected

	read chan struct{} // closed at the end of the output
}

// typeAt starts muru repl on a terminal of its own, with env beside a state
// home of its own.
func typeAt(t *testing.T, home string, env ...string) *terminalSession {
	t.Helper()
	s := &terminalSession{t: t, read: make(chan struct{})}
	s.master, s.slave = persontest.OpenTerminal(t)
	s.found = s.mode()
	s.cmd = exec.Command("muru", "repl")
	s.cmd.Dir = home
	s.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "MURU_CONTROL=", "XDG_STATE_HOME="+home, "TMPDIR=/tmp")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.slave, s.slave, s.slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		buf := make([]byte, 4096)
		for {
			n, err := s.master.Read(buf)
			s.mu.Lock()
			s.out.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		s.slave.Close()
		s.master.Close()
		<-s.read
	})
	return s
}

// mode is how the terminal is set.
func (s *terminalSession) mode() unix.Termios {
	s.t.Helper()
	mode, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *mode
}

func (s *terminalSession) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b\[?[0-9;?]*$`)

// shown is what was printed so far, without what moves the cursor.
func (s *terminalSession) shown() string {
	return strings.ReplaceAll(escapes.ReplaceAllString(s.raw(), ""), "\r", "")
}

func (s *terminalSession) send(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until what was not expected yet has a match, and returns its
// last group.
func (s *terminalSession) expect(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []int
	var text string
	if !visitortest.Within(30*time.Second, func() bool {
		text = s.shown()
		if len(text) < s.seen {
			return false
		}
		text = text[s.seen:]
		found = re.FindStringSubmatchIndex(text)
		return found != nil
	}) {
		s.t.Fatalf("it does not show %s, but %q at the end of:\n%s", pattern, text, s.shown())
	}
	s.seen += found[1]
	return text[found[len(found)-2]:found[len(found)-1]]
}

const promptPattern = `(?m)^muru \S+> \z`

// enter types a line at the prompt and waits for what it shows and for the
// next prompt.
func (s *terminalSession) enter(line, pattern string) string {
	s.t.Helper()
	s.send(line + "\r")
	got := s.expect(pattern)
	s.expect(promptPattern)
	return got
}

// answers waits until it evaluates, after a Ctrl-C that may arrive a little
// later than what was typed behind it.
func (s *terminalSession) answers(word string) {
	s.t.Helper()
	if !visitortest.Within(30*time.Second, func() bool {
		s.send("\rprint('to' + '" + word + "')\r")
		return visitortest.Within(time.Second, func() bool { return strings.Contains(s.shown(), "to"+word+"\n") })
	}) {
		s.t.Fatalf("it shows\n%s", s.shown())
	}
	s.expect(`(?s).*to` + word + `\n`)
	s.expect(promptPattern)
}

// ends waits for its end and checks the status, and that the terminal is as
// it was.
func (s *terminalSession) ends(status int) {
	s.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it does not end:\n%s", s.shown())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != status {
		s.t.Errorf("status %d, want %d:\n%s", got, status, s.shown())
	}
	if mode := s.mode(); mode != s.found {
		s.t.Errorf("the terminal is left as %+v, it was %+v", mode, s.found)
	}
	if !visitortest.Within(5*time.Second, func() bool { // the end of what it wrote may not be read yet
		raw := s.raw() // not all that was written: with Ctrl-C the system drops what was not read yet
		return strings.LastIndex(raw, pasteOn) <= strings.LastIndex(raw, pasteOff)
	}) {
		s.t.Error("the terminal is left marking what is pasted")
	}
}

// leaves presses Ctrl-D.
func (s *terminalSession) leaves() {
	s.t.Helper()
	s.send("\x04")
	s.ends(0)
}

// How a terminal is told to mark what is pasted, and how it does.
const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)
