package main

import (
	"os"
	"path/filepath"
	"testing"

	"muru/cmd/muru/visitortest"
	"muru/control"
)

func TestREPLOutlivesItsMuru(t *testing.T) {
	t.Parallel()
	h := openTestHouse(t)
	socket := filepath.Join(visitortest.ShortDir(t), control.SocketName)
	serve := func() (stop func()) { return serveAt(t, socket, h.NewRunner()) }
	stop := serve()
	s := typeAt(t, visitortest.ShortDir(t), "MURU_CONTROL="+socket)
	s.expect(`^muru: \w\S*: no apps\. help\(\)`)
	s.expect(promptPattern)
	s.enter("x = 1", `\n`)
	stop()
	s.enter("x", `muru: no muru serves at \S+\nhint: start one: muru serve\n`)
	stop = serve()
	defer stop()
	s.enter("x", `muru: the session was gone: `)
	s.enter("x", `undefined: x\n`)
	s.enter("1 + 1", `\n2\n`)
	s.leaves()
}

func TestCtrlDInAnEmbeddedSessionSaysThatNothingGoesOn(t *testing.T) {
	t.Parallel()
	shop, err := filepath.Abs("testdata/apps/shop")
	if err != nil {
		t.Fatal(err)
	}
	s := typeAt(t, visitortest.ShortDir(t))
	s.expect(promptPattern)
	s.enter(`deploy("shop", "`+shop+`")`, `muru: release shop@r1 is ready and serving`)
	s.enter(`deploy("shop", "`+shop+`", hold = True)`, `muru: release shop@r2 is ready and held`)
	s.enter(`canary("shop@r2", hold = "1h", wait = False)`, `muru: rollout 1 of shop@r2 started`)
	s.send("\x04")
	s.expect(`\nrollout 1 is (?:at 10%|running)\nit ends with this process: leave \[Enter\]`)
	s.send("\r")
	s.ends(0)
}

func TestCtrlCBetweenPromptsDoesNotEndTheSession(t *testing.T) {
	t.Parallel()
	s := typeAt(t, visitortest.ShortDir(t))
	s.expect(promptPattern)
	for range 30 {
		s.send("1 + 1\r\x03")
		_ = s.cmd.Process.Signal(os.Interrupt)
	}
	s.answers("alive")
	s.leaves()
}
