package daemon

import (
	"strings"
	"testing"
)

func TestReleaseThatCannotStartSaysWhyAndTheBaselineServes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct{ name, source, want string }{
		{"no directory", `deploy("shop", "releases/v2")`, `deploy: source: there is no directory (/.*)/releases/v2\nhint: relative paths start at /.*; here\("releases/v2"\) is beside the recipe`},
		{"a file", `deploy("shop", "r.star")`, `deploy: source: /.*/r.star is a file, not a directory`},
		{"no entry", `deploy("shop", BROKEN)`, `deploy: entry: there is no app.py in /.*/apps/broken\nhint: entry = "MODULE:ATTR" names the application, command = "..." runs anything else`},
		{"no entry of that name", `deploy("shop", BROKEN, entry = "nothing:application")`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) cannot load nothing:application: module nothing has no attribute application \(entry nothing:application\): entry = "MODULE:ATTR" names the application; r1 keeps serving` + log(`module nothing has no attribute application .*`)},
		{"raises", `deploy("shop", BROKEN, entry = "raises:application")`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) cannot load raises:application: KeyError: 'mug'; r1 keeps serving` + log(`Traceback .*`, `  File \".*/raises.py\", line 2, in <module>`, `    PRICE = PRICES\[\"mug\"\]`, `KeyError: 'mug'`)},
		{"syntax", `deploy("shop", BROKEN, entry = "syntax:application")`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) cannot load syntax:application: SyntaxError: .*; r1 keeps serving` + log(`  File \".*/syntax.py\", line 1`, `SyntaxError: .*`)},
		{"exits", `deploy("shop", BROKEN, entry = "exits:application")`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) cannot load exits:application: SystemExit: 7; r1 keeps serving` + log(`    raise SystemExit\(7\)`)},
		{"hangs", `deploy("shop", BROKEN, entry = "hangs:application", timeouts = {"ready": "3s"})`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) is not ready after 3s: loading hangs:application hangs at .*threading.py line \d+ in wait, .*, called from hangs.py line 5 in connect; r1 keeps serving` + log(`muru: not ready; every thread:`, `muru:   hangs.py line 8 in <module>`)},
		{"command exits", `deploy("shop", BROKEN, command = "echo no kettle; exit 4")`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) ended before it listened: exit status 4; r1 keeps serving` + log(`no kettle`)},
		{"command never listens", `deploy("shop", BROKEN, command = ["sleep", "3600"], timeouts = {"ready": "300ms"})`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) is not ready after 300ms: it listens neither on \$PORT \(\d+\) nor on \$MURU_SOCKET; r1 keeps serving`},
		{"no program", `deploy("shop", BROKEN, command = ["./serve"])`, `deploy: release shop@r\d+ failed to start: worker \d: start ./serve: no such file or directory; r1 keeps serving`},
		{"command is not ready", `deploy("shop", BROKEN, command = "exec python3 -m http.server --bind 127.0.0.1 $PORT", ready = "/healthz", timeouts = {"ready": "5s"})`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) is not ready after 5s: /healthz answered 404; r1 keeps serving` + log()},
		{"port taken", `deploy("shop", BROKEN, command = "exec python3 -m http.server --bind 127.0.0.1 $TAKEN", env = {"TAKEN": "` + s.port() + `"})`, `deploy: release shop@r\d+ failed to start: worker \d \(pid \d+\) ended before it listened: exit status 1; r1 keeps serving` + log(`OSError: \[Errno 98\] Address already in use`)},
		{"nobody at the upstream", `deploy("shop", upstream = "127.0.0.1:1", timeouts = {"ready": "300ms"})`, `deploy: release shop@r\d+ failed to start: 127.0.0.1:1 is not ready after 300ms: connection refused; r1 keeps serving`},
	} {
		t.Run(c.name, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}

// log matches the end of a release's log with these among its lines.
func log(lines ...string) string {
	const some = `(\n  \S+Z muru.worker\[\d\]: .*)*`
	var b strings.Builder
	b.WriteString(some)
	for _, line := range lines {
		b.WriteString(`\n  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z muru.worker\[\d\]: ` + line + some)
	}
	return b.String()
}
