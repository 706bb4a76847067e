package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

func TestREPLCompletesFromWhatThereIs(t *testing.T) {
	t.Parallel()
	stage := serveStage(t)
	before := len(stage.events("*"))
	s := stage.typeAt(t)
	s.expect(promptPattern)
	for _, c := range []struct{ typed, line string }{
		{"statu\t", "status"},
		{`canary("shop@r` + "\t", `canary("shop@r1`},
		{`deploy("sh` + "\t", `deploy("shop`},
		{`canary("shop@r1", min_r` + "\t", `canary("shop@r1", min_requests = `},
		{`status("shop").basel` + "\t", `status("shop").baseline`},
		{"%att\t", "%attach"},
		{"%time statu\t", "%time status"},
		{"%run fla\t", "%run flat.star"},
	} {
		if strings.HasPrefix(c.typed, "%run") {
			if err := os.WriteFile(filepath.Join(s.cmd.Dir, "flat.star"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := regexp.MustCompile(`> ` + regexp.QuoteMeta(c.line) + `$`)
		s.send(strings.TrimSuffix(c.typed, "\t"))
		if !visitortest.Within(10*time.Second, func() bool {
			s.send("\t") // on a busy machine one may be given up
			return visitortest.Within(300*time.Millisecond, func() bool { return want.MatchString(s.shown()) })
		}) {
			t.Fatalf("%q does not become %q, but\n%s", c.typed, c.line, s.shown())
		}
		s.send("\x03")
		s.expect(`\^C\n`)
		s.expect(promptPattern)
	}
	// Two tabs list, and inside a call show its keywords.
	s.send("canary(")
	if !visitortest.Within(10*time.Second, func() bool {
		s.send("\t")
		return visitortest.Within(300*time.Millisecond, func() bool { return strings.Contains(s.shown(), "steps = ") })
	}) {
		t.Fatalf("it shows\n%s", s.shown())
	}
	s.send("\x03")
	s.expect(promptPattern)
	// A name of the session, and an indent in a block.
	s.enter("visitors = 3", `\n`)
	s.send("visi")
	if !visitortest.Within(10*time.Second, func() bool {
		s.send("\t")
		return visitortest.Within(300*time.Millisecond, func() bool { return strings.HasSuffix(s.shown(), "visitors") })
	}) {
		t.Fatalf("it shows\n%s", s.shown())
	}
	s.send(" + 1\r")
	s.expect(`\n4\n`)
	s.expect(promptPattern)
	s.send("if True:\r")
	s.expect(`\.\.\. $`)
	s.send("\t")
	s.expect(`\.\.\.     $`)
	s.send("print('in' + 'dented')\r\r")
	s.expect(`\nindented\n`)
	s.expect(promptPattern)
	if after := len(stage.events("*")); after != before {
		t.Errorf("completion made events: %q", stage.events("*")[before:])
	}
}

func TestPastedTabsDoNotComplete(t *testing.T) {
	t.Parallel()
	s := typeAt(t, visitortest.ShortDir(t))
	s.expect(promptPattern)
	const block = "def f():\r\tif True:\r\t\treturn 'a\tb'\r\rlen(f()), ord(f().elems()[1]) if False else f() == 'a\\tb'\r"
	s.send(block)
	s.expect(`\n\(3, True\)\n`)
	s.expect(promptPattern)
	s.send(pasteBegin + "statu\t" + pasteEnd)
	s.expect(`^statu.$`)
	s.send("\x03")
	s.expect(promptPattern)
	s.send(pasteBegin + strings.Replace(block, "len(", "1, len(", 1) + pasteEnd)
	s.expect(`\n\(1, 3, True\)\n`)
	s.expect(promptPattern)
	s.enter("'⏎\u2007'", "\n⏎\u2007\n")
	s.send(pasteBegin + "1\x03\x1b[A + 1" + pasteEnd + "\r") // control bytes in a paste do nothing
	s.expect(`1\[A \+ 1\n\.\.\. $`)
	s.send("\x03")
	s.expect(promptPattern)
	s.leaves()
}

func TestABlockIsOneHistoryEntry(t *testing.T) {
	t.Parallel()
	home := visitortest.ShortDir(t)
	s := typeAt(t, home)
	s.expect(promptPattern)
	s.send("for i in [1, 2]:\r\tprint('v%d' % i)\r\r")
	s.expect(`\nv1\nv2\n`)
	s.expect(promptPattern)
	s.enter(" print('hid' + 'den')", `\nhidden\n`)
	s.enter("t = 'secret(' + 'x'", `\n`)
	s.enter("t = [\r'secret('\r]", `\n\.\.\. .*\n\.\.\. .*\n`)
	s.send("\x1b[A")
	s.expect("> for i in \\[1, 2\\]:⏎\u2007print\\('v%d' % i\\)$")
	s.send("\r")
	s.expect(`\nv1\nv2\n`)
	s.expect(promptPattern)
	s.leaves()
	path := filepath.Join(home, "muru", "history")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := `for i in [1, 2]:\n` + "\t" + `print('v%d' % i)` + "\n"; string(text) != want {
		t.Errorf("the history has\n%s\nwant\n%s", text, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again := typeAt(t, home)
	again.expect(promptPattern)
	again.send("\x10\r")
	again.expect(`\nv1\nv2\n`)
	again.expect(promptPattern)
	again.leaves()
}

func TestREPLWithoutHistoryGoesOn(t *testing.T) {
	t.Parallel()
	home := visitortest.ShortDir(t)
	if err := os.WriteFile(filepath.Join(home, "muru"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := typeAt(t, home)
	s.expect(`muru: what you type is not kept: .*\n`)
	s.expect(promptPattern)
	s.enter("1 + 1", `\n2\n`)
	s.leaves()
}
