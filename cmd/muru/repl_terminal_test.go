package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

func TestREPLKeepsNamesAndGoesOnWithBlocks(t *testing.T) {
	t.Parallel()
	s := typeAt(t, visitortest.ShortDir(t))
	s.expect(`^muru: \w\S*: no muru serves, so this process does, on http://127.0.0.1:\d+, until you leave. help\(\) lists the calls, %help the commands, Ctrl-D leaves\n`)
	s.expect(promptPattern)
	s.enter("1 + 1", `\n2\n`)
	s.enter("_ * 21", `\n42\n`)
	s.enter("x = 1", `\n`)
	s.enter("x = x + 1", `\n`)
	s.enter("x", `\n2\n`)
	s.send("def f(n):\r")
	s.expect(`\.\.\. $`)
	s.send("    return n * x\r")
	s.expect(`\.\.\. $`)
	s.enter("", `\n`)
	s.enter("f(4)", `\n8\n`)
	s.send("if x == 2:\r    print('two')\relse:\r    print('other')\r\r")
	s.expect(`\ntwo\n`)
	s.send("[1,\r2,\r3]\r")
	s.expect(`\n\[1, 2, 3\]\n`)
	s.send("t = \"\"\"a\r b\"\"\"\rt\r")
	s.expect(`\na\n b\n`)
}

func TestREPLRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	t.Run("after Ctrl-D", func(t *testing.T) {
		t.Parallel()
		s := typeAt(t, visitortest.ShortDir(t))
		s.expect(promptPattern)
		s.leaves()
		if !strings.HasSuffix(s.shown(), "> \n") {
			t.Errorf("it ends with %q", s.shown())
		}
	})
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run("after "+sig.String(), func(t *testing.T) {
			t.Parallel()
			s := typeAt(t, visitortest.ShortDir(t))
			s.expect(promptPattern)
			s.send("half a li")
			s.expect(`half a li`)
			_ = s.cmd.Process.Signal(sig)
			s.ends(130)
		})
	}
	t.Run("while a call works", func(t *testing.T) {
		t.Parallel()
		s := typeAt(t, visitortest.ShortDir(t))
		s.expect(promptPattern)
		s.send("sleep('1h')\r")
		s.expect(`\n`)
		if !visitortest.Within(5*time.Second, func() bool { return s.mode() == s.found }) {
			t.Errorf("the mode is %+v", s.mode())
		}
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		s.ends(130)
	})
}
