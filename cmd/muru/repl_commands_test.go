package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

func TestREPLCommands(t *testing.T) {
	t.Parallel()
	stage := serveStage(t)
	home := visitortest.ShortDir(t)
	editor := filepath.Join(home, "editor")
	for name, text := range map[string]string{
		"editor":  "#!/bin/sh\nsed -i 's/pass/return \"edited\"/; s/one/two/' \"$2\"\n",
		"r.star":  "def main(what, times = 1):\n    print(what * times)\n",
		"no.star": "def main():\n    fail('bad luck')\n",
		"w.star":  "def main():\n    print('begun')\n    sleep('1h')\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := typeAt(t, home, "MURU_CONTROL="+stage.socket, "VISUAL=", "EDITOR="+editor+" --wait")
	s.expect(promptPattern)
	s.enter("%help", `COMMAND +WHAT IT DOES\n%run FILE \[ARG\.\.\.\] runs a recipe`)
	s.enter("%hlep", `muru: there is no command %hlep\nhint: did you mean %help\?\n`)
	s.enter("%run", `muru: %run needs a recipe\n`)
	s.enter(`%run r.star "a b" --times 2`, `\na ba b\n`)
	s.enter("%run no.star", `muru: no.star:2:5: bad luck\n`)
	s.enter("%run nothing.star", `muru: .*nothing.star`)
	s.enter("%runs", `RUN STATE +STARTED .*\n(?:.*\n)+\d+ +failed .* no.star +no.star:2:5: bad luck\n`)

	s.send("%run w.star\r")
	s.expect(`\nbegun\n`)
	s.send("\x03")
	number := s.expect(`interrupted (?:at sleep\("1h"\) )?after [\d.]+ m?s; run (\d+) goes on\nleave it running \[Enter\]`)
	s.send("\r")
	s.expect(promptPattern)
	s.send("%attach " + number + "\r")
	s.expect(`\nbegun\n`)
	s.send("\x03")
	s.expect(`go on watching \[w\]\? $`)
	s.send("\r")
	s.expect(promptPattern)
	s.enter("%cancel "+number, `muru: run `+number+` cancelled\n`)
	s.enter("%cancel "+number, `muru: run `+number+` has ended\n`)
	s.enter("%cancel x", `muru: "x" is not the number of a run\n`)

	s.enter("%edit greet", `\n`)
	s.enter("greet()", `\nedited\n`)
	s.enter("x = 'one'", `\n`)
	s.enter("%edit x", `\n`)
	s.enter("x", `\ntwo\n`)
	s.enter("%edit 1", `muru: %edit: "1" is not a name\n`)
	s.enter("%time sleep('10ms')", `\ntook [\d.]+ ms\n`)
	s.enter("%watch promote('shop@r1')", `muru: %watch: promote changes something each time\n`)
	s.send("%watch 100ms 6 * 7\r")
	s.expect(`every 100ms until Ctrl-C: 6 \* 7\n42\n(?:.*\n)*.*every 100ms until Ctrl-C: 6 \* 7\n42\n`)
	s.send("\x03")
	s.expect(`interrupted after .*\n`)
	s.expect(promptPattern)

	s.enter("%save saved.star", `muru: there is nothing to save: no call of this session has changed anything\n`)
	s.enter("app('shop', max_body = '1MiB')", `\n`)
	s.enter("sh('exit 3')", `muru: `)
	s.enter("sh(['true'])", `\nexit 0`)
	s.enter("%save saved.star", `muru: 2 calls saved: muru run saved.star\n`)
	s.enter("%save r.star", `muru: %save: r.star is there already\nhint: name another file\n`)
	text, err := os.ReadFile(filepath.Join(home, "saved.star"))
	if want := "def main():\n    app(\"shop\", max_body = \"1MiB\")\n    sh([\"true\"])\n"; err != nil || string(text) != want {
		t.Errorf("saved %q, %v", text, err)
	}
	s.enter("%run saved.star", `\n`)
	s.leaves()
	if strings.Contains(s.shown(), "BUG") {
		t.Errorf("it shows\n%s", s.shown())
	}
}

func TestHelpOfABuiltinIsTheSameHoweverItIsAsked(t *testing.T) {
	t.Parallel()
	s := typeAt(t, visitortest.ShortDir(t))
	s.expect(promptPattern)
	whole := `(?s)(canary\(\n.*?)muru \S+> \z`
	s.send("help(canary)\r")
	called := s.expect(whole)
	s.send("canary?\r")
	if asked := s.expect(whole); asked != called {
		t.Errorf("help(canary) shows\n%s\ncanary? shows\n%s", called, asked)
	}
	s.send("canary(")
	if !visitortest.Within(10*time.Second, func() bool {
		s.send("\t")
		return visitortest.Within(300*time.Millisecond, func() bool { return strings.Contains(s.shown()[s.seen:], "wait = ") })
	}) {
		t.Fatalf("it shows\n%s", s.shown())
	}
	listed := s.shown()
	for _, parameter := range []string{"steps", "hold", "gates", "min_requests", "wait"} {
		if !strings.Contains(called, parameter+" = ") || !strings.Contains(listed[strings.LastIndex(listed, "canary("):]+listed, parameter+" = ") {
			t.Errorf("%s is not shown everywhere", parameter)
		}
	}
}
