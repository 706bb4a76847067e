package rollout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestKindsOfEventsStandInOnePlace: who filters by kind finds all of them
// beside the type of events.
func TestKindsOfEventsStandInOnePlace(t *testing.T) {
	kind := regexp.MustCompile(`^(app|split|release|worker|rollout|run|daemon)\.[a-z_]+$`)
	literals := func(pattern string) (all map[string]string) {
		all = map[string]string{}
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && kind.MatchString(text) {
						all[text] = file
					}
				}
				return true
			})
		}
		return all
	}
	for text, file := range literals("*.go") {
		t.Errorf("%s names the kind %q: it belongs to event.go of the root package", file, text)
	}
	if n := len(literals("../event.go")); n < 30 {
		t.Errorf("event.go names %d kinds", n)
	}
}
