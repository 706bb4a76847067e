package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"muru/cmd/muru/person"
	"muru/cmd/muru/visitortest"
)

// pipe runs muru repl with what is piped in.
func pipe(t *testing.T, in string, env ...string) (stdout, stderr string, status int) {
	t.Helper()
	home := visitortest.ShortDir(t)
	cmd := exec.Command("muru", "repl")
	cmd.Dir = home
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "MURU_CONTROL=", "XDG_STATE_HOME="+home, "TMPDIR=/tmp"), env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	_ = cmd.Run()
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestPipedInputPrintsResultsOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 3<<20)
	for _, c := range []struct {
		name, in    string
		out, errs   string
		status      int
		environment string
	}{
		{name: "nothing"},
		{name: "names, blocks, texts, and no line end behind the last", out: "2\n4\n4\n0\n1\na\nb\n7\n", in: `
x = 1
x = x + 1
x
def f(n):
    # a comment

    return n * 2

f(x)
_
for i in range(2):
    print(i)

"""a
b"""
(3 +
4)`},
		{name: "a block that the end of the input ends", in: "if True:\n  1\n  print(2)", out: "2\n"},
		{name: "blank lines in a body, and else behind one", in: "def f(x):\n  if x:\n    return 1\n\n\n  return 2\n\nf(0)\nif f(0) == 1:\n  print(3)\n\nelse:\n  print(4)\n\n5\n", out: "2\n4\n5\n"},
		{name: "lines of megabytes", in: "len('" + long + "')\n", out: fmt.Sprintln(3 << 20)},
		{name: "many lines", in: "len([\n" + strings.Repeat("  \"x\",\n", 50_000) + "])\nlen('''" + strings.Repeat("x\n", 50_000) + "''')\n", out: "50000\n100000\n"},
		{name: "line ends of other systems", in: "x = [1,\r\n2]\r\nx\r\n", out: "[1, 2]\n"},
		{
			name: "the first error ends it", in: "1\n\n\nfail('no')\nprint('not reached')\n", out: "1\n",
			errs: "muru: line 4: no\n", status: 1,
		},
		{
			name: "an error in a function of before", in: "def f():\n    return 1 // 0\n\n\nf()\n",
			errs: "muru: line 2:14: floored division by zero\n  at line 2:14 in f\n  at line 5:1 in <toplevel>\n", status: 1,
		},
		{name: "a mistake", in: "1\n[1,\n  )\n", out: "1\n", errs: "muru: line 3:4: got ')', want ']'\n", status: 1},
		{name: "a refused call", in: "promote('shop@r1')\n", errs: "muru: line 1: promote: no app is called \"shop\"\n", status: 1},
		{name: "commands", in: "%runs\n%rnus\n", out: "muru: no runs\n", errs: "muru: line 2: there is no command %rnus\nhint: did you mean %runs?\n", status: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, errs, status := pipe(t, c.in)
			if out != c.out || errs != c.errs || status != c.status {
				t.Errorf("status %d\nout  %q\nwant %q\nerr  %q\nwant %q", status, out, c.out, errs, c.errs)
			}
			if strings.Contains(out+errs, "\x1b") {
				t.Error("it prints an escape byte")
			}
		})
	}
}

func TestPipedInputGoesToTheMuruThatServes(t *testing.T) {
	t.Parallel()
	stage := serveStage(t)
	in := "status()\npromote('shop@r1')\nfor i in range(300):\n    x = i\n\n" + strings.Repeat("x += 1\n", 100) + "x\nlen('" + strings.Repeat("b", 2<<20) + "')\n"
	out, errs, status := pipe(t, in, "MURU_CONTROL="+stage.socket)
	want := "APP  BASELINE CANDIDATE TRAFFIC HELD WARM ROLLOUT\nshop r1       -         r1 100% -    -    -\n"
	if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "\n399\n2097152\n") || errs != "" || status != 0 {
		t.Errorf("status %d\nout %q\nerr %q", status, out, errs)
	}
	if _, errs, status := pipe(t, "1\n", "MURU_CONTROL="+stage.socket+".not"); status != person.StatusUnavailable || !strings.HasPrefix(errs, "muru: no muru serves at ") {
		t.Errorf("a socket that nobody serves: status %d, %s", status, errs)
	}
}

func TestNoEscapeByteWhereNoneIsWanted(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{"a dumb terminal": "TERM=dumb", "no terminal type": "TERM=", "NO_COLOR": "NO_COLOR=1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := typeAt(t, visitortest.ShortDir(t), env)
			s.expect(promptPattern)
			s.enter("x = 20", `\n`)
			s.send("if x:\n    x + 1\n")
			s.expect(`(?s)\.\.\. .*\.\.\. $`)
			s.enter("", `\n`)
			s.enter("print(x + 2)", `\n22\n`)
			s.enter("nope", `muru: .*undefined: nope\n`)
			// With Ctrl-C the system drops also what was printed and not read yet,
			// so the prompt behind it may not be seen.
			s.send("half a line\x03")
			s.answers("first")
			s.send("[1,\n\x03")
			s.answers("second")
			s.send("print('be' + 'gun') or sleep('1h')\n")
			s.expect(`begun\n`) // perhaps behind a prompt: a line may have been answered twice
			s.send("\x03")
			s.answers("third")
			s.enter("%watch 1ms nope", `undefined: nope\n`)
			s.enter("help(now)", `now\(\) -> Time\n`)
			s.leaves()
			if raw := s.raw(); strings.Contains(raw, "\x1b") {
				t.Errorf("it printed an escape byte: %q", raw)
			}
		})
	}
}
