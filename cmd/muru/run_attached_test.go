package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"muru/cmd/muru/person"
	"muru/control"
	"muru/control/controltest"
)

func TestARecipeRunsInTheMuruThatServes(t *testing.T) {
	m := serveTest(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"hello.star":  "def main(name, times = 1):\n    \"\"\"Greets somebody.\"\"\"\n    for _ in range(times):\n        print('hello, ' + name)\n    print(status())\n",
		"fails.star":  "def main():\n    promote('shop@r9')\n",
		"broken.star": "def main():\nreturn 1\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const table = "APP  BASELINE CANDIDATE TRAFFIC HELD WARM ROLLOUT\nshop r1       -         r1 100% r2   -    -\n"
	for _, c := range []struct {
		line, stdout, stderr string // stderr: its beginning
		status               int
	}{
		{"run hello.star World --times 2", "hello, World\nhello, World\n" + table, "", 0},
		{"attach 1", "hello, World\nhello, World\n" + table, "", 0},
		{"run fails.star", "", "muru: fails.star:2:5: promote: ", 1}, // a recipe was started: not 3
		{"attach 2", "", "muru: fails.star:2:5: promote: ", 1},
		{"run hello.star World --tmes 2", "", "muru: hello.star: ", 2},
		{"run broken.star", "", "muru: broken.star:2:7: ", 2},
		{"run missing.star", "", "muru: ", 3},
		{"run --detach hello.star World", "muru: run 3 started: muru attach 3\n", "", 0},
		{"attach 3", "hello, World\n" + table, "", 0},
		{"cancel 3", "", "muru: ", 3},
		{"run --detach --serve hello.star World", "", "muru: run: --detach leaves", 2},
	} {
		out, errs, status := typed(t, m, strings.Fields(c.line)...)
		if out != c.stdout || !strings.HasPrefix(errs, c.stderr) || c.stderr == "" && errs != "" || status != c.status {
			t.Errorf("muru %s\n got stdout %q stderr %q status %d\nwant stdout %q stderr %q status %d",
				c.line, out, errs, status, c.stdout, c.stderr, c.status)
		}
	}
	out, _, _ := typed(t, m, "run", "hello.star", "--help")
	if !strings.Contains(out, "Greets somebody") {
		t.Errorf("help of the recipe is %q", out)
	}
}

func TestARecipeRunsHereWhenNobodyServes(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("hello.star", []byte("def main():\n    print('hello')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &controltest.Muru{OnStartRun: func(context.Context, control.Run) (int, error) { return 0, control.ErrNoDaemon }}
	c := &cli{
		Person:  person.Person{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)},
		connect: func(string) (control.Muru, error) { return m, nil },
	}
	done, err := c.runAttached(t.Context(), runFlags{}, "hello.star", nil)
	if done || err != nil {
		t.Errorf("done %v, %v", done, err)
	}
	if _, _, status := typed(t, m, "run", "--detach", "hello.star"); status != person.StatusUnavailable {
		t.Errorf("--detach: status %d", status)
	}
}
