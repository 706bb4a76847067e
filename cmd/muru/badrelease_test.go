package main

import "testing"

func TestReleaseThatCannotStartSaysWhyAndTheBaselineServes(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ name, source, want string }{
		{"no directory", `deploy("shop", "releases/v2")`, `X`},
		{"no directory before hold", `deploy("shop", "releases/v2", hold = True)`, `X`},
		{"a file", `deploy("shop", "r.star")`, `X`},
		{"no entry", `deploy("shop", BROKEN)`, `X`},
		{"no entry of that name", `deploy("shop", BROKEN, entry = "nothing:application")`, `X`},
		{"raises", `deploy("shop", BROKEN, entry = "raises:application")`, `X`},
		{"syntax", `deploy("shop", BROKEN, entry = "syntax:application")`, `X`},
		{"exits", `deploy("shop", BROKEN, entry = "exits:application")`, `X`},
		{"hangs", `deploy("shop", BROKEN, entry = "hangs:application", timeouts = {"ready": "300ms"})`, `X`},
		{"command exits", `deploy("shop", BROKEN, command = "echo no kettle; exit 4")`, `X`},
		{"command never listens", `deploy("shop", BROKEN, command = ["sleep", "3600"], timeouts = {"ready": "300ms"})`, `X`},
		{"no program", `deploy("shop", BROKEN, command = ["./serve"])`, `X`},
		{"command is not ready", `deploy("shop", BROKEN, command = ["python3", "-m", "http.server", "--bind", "127.0.0.1"], ready = "/healthz", timeouts = {"ready": "1s"})`, `X`},
		{"port taken", `deploy("shop", BROKEN, command = "exec python3 -m http.server --bind 127.0.0.1 $TAKEN", env = {"TAKEN": "` + s.port() + `"})`, `X`},
		{"nobody at the upstream", `deploy("shop", upstream = "127.0.0.1:1", timeouts = {"ready": "300ms"})`, `X`},
	} {
		t.Run(c.name, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}
