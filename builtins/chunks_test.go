package builtins

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	script "muru/starlark"
)

// Each file of testdata is chunks separated by "---". A chunk is a recipe
// that runs on a stage of its own. The line that should fail ends in
// "### REGEXP", which the message must match, followed by " hint: " and the
// hint when there is one. A chunk without such a line must not fail.
func TestErrorTextsOfBuiltins(t *testing.T) {
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatalf("no chunks: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := 1
		for chunk := range strings.SplitSeq(string(data), "\n---\n") {
			t.Run(filepath.Base(file)+":"+strconv.Itoa(line), func(t *testing.T) {
				t.Parallel()
				runChunk(t, chunk)
			})
			line += strings.Count(chunk, "\n") + 2
		}
	}
}

func runChunk(t *testing.T, chunk string) {
	wantLine, want := 0, ""
	for i, line := range strings.Split(chunk, "\n") {
		if _, pattern, ok := strings.Cut(line, "### "); ok {
			wantLine, want = i+1, pattern
		}
	}
	_, err := newStage(t).run(chunk)
	if want == "" {
		if err != nil {
			t.Fatalf("failed: %v\n%s", err, chunk)
		}
		return
	}
	e, ok := errors.AsType[*script.Error](err)
	if !ok {
		t.Fatalf("got %v, want %s\n%s", err, want, chunk)
	}
	got := e.Message
	if e.Hint != "" {
		got += " hint: " + e.Hint
	}
	if !regexp.MustCompile(`(?s)\A(?:` + want + `)\z`).MatchString(got) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !strings.HasPrefix(e.Where, "test.star:"+strconv.Itoa(wantLine)+":") {
		t.Errorf("at %s, want line %d", e.Where, wantLine)
	}
}
