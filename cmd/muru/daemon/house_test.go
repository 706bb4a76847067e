package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muru/control"
)

// One house with real workers: what is deployed by a run is looked at in a
// session, followed in its log, and still serves when both have ended.
func TestARunASessionAndACallShareOneHouse(t *testing.T) {
	h := openTestHouse(t)
	r := NewRunner(h.runnerOptions())
	defer func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("v1/app.py", "def application(environ, start_response):\n    print(\"asked for\", environ[\"PATH_INFO\"], flush=True)\n    start_response(\"200 OK\", [])\n    return [b\"hello\"]\n")
	write("r.star", "def main(source):\n    deploy(\"shop\", source, workers = 1)\n    print(probe(\"shop@r1\").body)\n")
	n, err := r.StartRun(asAna(t), control.Run{File: "r.star", Args: []string{"v1"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	run := new(heard)
	if err := r.Attach(t.Context(), n, run.out); err != nil {
		t.Fatal(control.ErrorText(err))
	}
	wantLines(t, run.lines(control.KindSay, control.KindPrint),
		"say release shop@r1 is ready and serving: 100% of shop", "print hello")

	s := open(t, r)
	wantLines(t, sayTo(t, s, `[w.state for w in workers("shop")]`), "value ready")
	wantLines(t, sayTo(t, s, `_`), "value ready")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var lines []string
	err = r.Logs(ctx, control.LogRequest{Target: "shop", Follow: true}, func(line string) {
		lines = append(lines, line)
		switch {
		case strings.HasSuffix(line, "asked for /"):
			sayTo(t, s, `[probe("shop@r1", "/%d" % i).ok for i in range(20)]`)
		case strings.HasSuffix(line, "asked for /19"):
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, line := range lines {
		if _, path, ok := strings.Cut(line, "asked for "); ok {
			asked = append(asked, path)
		}
	}
	if len(asked) != 21 || len(slices.Compact(slices.Sorted(slices.Values(asked)))) != 21 {
		t.Errorf("the log was followed with gaps or twice: %q", asked)
	}
	call := new(heard)
	if err := r.Call(asAna(t), control.Call{Source: `status("shop")`, Dir: dir}, call.out); err != nil {
		t.Fatal(err)
	}
	if got := call.lines(control.KindValue)[0]; !strings.HasPrefix(got, "value APP") || !strings.Contains(got, "r1 100%") {
		t.Errorf("status is %q", got)
	}
}
