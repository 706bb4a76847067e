// Package recipes_test checks what the recipes deploy without muru, and that
// every recipe can be read and loaded. Running them is cmd/muru's test.
package recipes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// answer is what testdata/drive.py says of one request.
type answer struct {
	Status  string
	Headers map[string]string
	Body    string
	Raised  string // the exception, as Python's repr prints it
}

func TestShopPagesOfEachRelease(t *testing.T) {
	const home = "Welcome to the shop: 3 orders"
	ok := func(text string) answer { return answer{Status: "200 OK", Body: text} }
	missing := answer{Status: "404 Not Found", Body: "There is no such page"}
	shared := map[string]answer{
		"/": ok(home), "/healthz": ok("Healthy"),
		"/orders/4": missing, "/orders/0": missing, "/orders/01": missing, "/orders/": missing,
		"/orders/1/": missing, "/orders/mug": missing, "/orders/²": missing,
		"/orders/99999999999999999999": missing, "/nope": missing, "": missing,
	}
	own := map[string]map[string]answer{
		"v5": {
			"/orders/1": ok("Order 1: 1 x teapot"),
			"/orders/2": ok("Order 2: 2 x kettle"),
			"/orders/3": ok("Order 3: 6 x mug"),
		},
		"v6": {
			"/orders/1": ok("Order 1: 1 x teapot for $45.00"),
			"/orders/2": ok("Order 2: 2 x kettle for $120.00"),
			"/orders/3": {Raised: "KeyError('mug')"},
		},
		"v7": {
			"/orders/1": ok("Order 1: 1 x teapot for $45.00"),
			"/orders/2": ok("Order 2: 2 x kettle for $120.00"),
			"/orders/3": ok("Order 3: 6 x mug for $72.00"),
		},
		"v8": { // /orders/2 never answers: TestShopV8IsStuckAtItsSecondAcquire
			"/orders/1": ok("Order 1: 1 x teapot for $45.00"),
			"/orders/3": ok("Order 3: 6 x mug for $72.00"),
		},
	}
	for release, pages := range own {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			wants := map[string]answer{}
			for _, pages := range []map[string]answer{shared, pages} {
				for path, want := range pages {
					wants[path] = want
				}
			}
			name := "shop@r" + release[1:]
			for path, got := range get(t, release, name, keys(wants)) {
				want := wants[path]
				if got.Raised != want.Raised || got.Status != want.Status {
					t.Errorf("%q: got %q %q, want %q %q", path, got.Status, got.Raised, want.Status, want.Raised)
				}
				if want.Raised != "" {
					continue
				}
				if body := want.Body + ", served by " + name + "\n"; got.Body != body {
					t.Errorf("%q: got body %q, want %q", path, got.Body, body)
				}
				if length := fmt.Sprint(len(got.Body)); got.Headers["Content-Length"] != length {
					t.Errorf("%q: got Content-Length %q, want %s", path, got.Headers["Content-Length"], length)
				}
			}
		})
	}
}

func TestShopSaysShopWhereNoReleaseIsNamed(t *testing.T) {
	const want = "Healthy, served by shop\n"
	if got := get(t, "v5", "", []string{"/healthz"})["/healthz"].Body; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShopV8IsStuckAtItsSecondAcquire(t *testing.T) {
	source, err := os.ReadFile("shop/v8/app.py")
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(source), "prices_lock.acquire()")
	if !found {
		t.Fatal("shop/v8/app.py has no line with prices_lock.acquire()")
	}
	line := strings.Count(before, "\n") + 1

	stdout, stderr, err := drive(t, "v8", "shop@r8", "--patience", "1", "/orders/1", "/orders/2", "/orders/3")
	if err == nil {
		t.Fatalf("the kettle was answered: %s", stdout)
	}
	if answered := strings.Count(stdout, "\n"); answered != 1 {
		t.Errorf("got %d answers, want that for the teapot alone:\n%s", answered, stdout)
	}
	if want := fmt.Sprintf("app.py\", line %d in order\n", line); !strings.Contains(stderr, want) {
		t.Errorf("got these stacks, want one at %q:\n%s", want, stderr)
	}
}

func TestShopStartsEverywhereAtOnceAndLeavesNothingBehind(t *testing.T) {
	const processes, threads, requests = 2, 8, 200
	empty := t.TempDir()
	t.Setenv("TMPDIR", empty)
	t.Setenv("HOME", empty)
	var group errgroup.Group
	for _, release := range []string{"v5", "v6", "v7"} {
		for range processes {
			group.Go(func() error {
				stdout, stderr, err := drive(t, release, "shop", "--threads", fmt.Sprint(threads),
					"--requests", fmt.Sprint(requests), "/", "/orders/1", "/orders/2", "/orders/3")
				if err != nil {
					return fmt.Errorf("%s: %w\n%s", release, err, stderr)
				}
				var got map[string]int
				if err := json.Unmarshal([]byte(stdout), &got); err != nil {
					return fmt.Errorf("%s: %w", release, err)
				}
				want := map[string]int{"200 OK": threads * requests}
				if release == "v6" {
					want = map[string]int{"200 OK": threads * requests * 3 / 4, "KeyError('mug')": threads * requests / 4}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("%s: got %v, want %v", release, got, want)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(empty)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Someone will compare two releases with diff, and should see the change only.
func TestShopReleasesDifferByAFewLines(t *testing.T) {
	for _, test := range []struct {
		older, newer   string
		removed, added int // the first line, which names the release, is one of each
	}{
		{"v5", "v6", 2, 4},
		{"v6", "v7", 2, 2},
		{"v7", "v8", 2, 6},
	} {
		older, newer := lines(t, test.older), lines(t, test.newer)
		if removed := without(older, newer); len(removed) != test.removed {
			t.Errorf("%s to %s removes %d lines, want %d:\n%s", test.older, test.newer, len(removed), test.removed, strings.Join(removed, "\n"))
		}
		if added := without(newer, older); len(added) != test.added {
			t.Errorf("%s to %s adds %d lines, want %d:\n%s", test.older, test.newer, len(added), test.added, strings.Join(added, "\n"))
		}
	}
}

// get requests paths of a release one after the other in one Python process.
// An empty name leaves MURU_RELEASE unset.
func get(t *testing.T, release, name string, paths []string) map[string]answer {
	t.Helper()
	stdout, stderr, err := drive(t, release, name, paths...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", release, err, stderr)
	}
	answers := map[string]answer{}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	for _, path := range paths {
		var got answer
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: the answer to %q: %v", release, path, err)
		}
		answers[path] = got
	}
	return answers
}

// drive runs testdata/drive.py on a release and returns what it printed.
func drive(t *testing.T, release, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// -B: the test writes no __pycache__ into the source.
	command := exec.CommandContext(ctx, "python3", append([]string{"-B", "testdata/drive.py", filepath.Join("shop", release)}, args...)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MURU_RELEASE=") {
			command.Env = append(command.Env, variable)
		}
	}
	if name != "" {
		command.Env = append(command.Env, "MURU_RELEASE="+name)
	}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

// lines returns the lines of a release's app.py.
func lines(t *testing.T, release string) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("shop", release, "app.py"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(source), "\n"), "\n")
}

// without returns the lines of a that b has not, counting equal lines.
func without(a, b []string) []string {
	have := map[string]int{}
	for _, line := range b {
		have[line]++
	}
	var rest []string
	for _, line := range a {
		if have[line]--; have[line] < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

func keys(pages map[string]answer) []string {
	var paths []string
	for path := range pages {
		paths = append(paths, path)
	}
	return paths
}
