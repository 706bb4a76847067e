package builtins

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muru"
)

func TestAKindThatNoEventHasIsRefused(t *testing.T) {
	for _, kind := range []string{"rollout.gate_failed", "rollout.*", "worker.c*", "*", "run.started", "r*"} {
		if err := CheckEventKind(kind); err != nil {
			t.Errorf("%q: %v", kind, err)
		}
	}
	for kind, hint := range map[string]string{
		"rollout.gate_faild": `did you mean "rollout.gate_failed"?`,
		"rollout.gatefailed": `did you mean "rollout.gate_failed"?`,
		"gate_failed":        `did you mean "rollout.gate_failed"?`,
		"crashed":            `did you mean "worker.crashed"?`,
		"rollout":            `did you mean "rollout.*"?`,
		"rollout.":           `did you mean "rollout.*"?`,
		"rolout.*":           `did you mean "rollout.*"?`,
		"nonsense":           `kinds are about app, split, hold, release, worker, rollout, run, daemon and edge: write "rollout.*" for all about one`,
	} {
		err := CheckEventKind(kind)
		e, ok := err.(*muru.Error)
		if !ok || e.Kind != muru.KindUsage || e.Message != `no event is of kind `+strconv.Quote(kind) || e.Hint != hint {
			t.Errorf("%q: %v, hint %q, want hint %q", kind, err, e.Hint, hint)
		}
	}
}

// Every kind that stands in the source of what reports events is known, or
// nobody could ask for it.
func TestEveryKindThatIsReportedIsKnown(t *testing.T) {
	kindLike := regexp.MustCompile(`^(app|split|hold|release|worker|rollout|run|daemon|edge)\.[a-z_]+$`)
	files := token.NewFileSet()
	seen := 0
	for _, dir := range []string{"..", "../rollout", "../host", "../edge", "../cmd/muru/daemon"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil || !kindLike.MatchString(text) || filepath.Ext(text) == ".json" || filepath.Ext(text) == ".py" {
					return true
				}
				seen++
				if !slices.Contains(eventKinds, text) {
					t.Errorf("%s: %q is not in eventKinds", files.Position(lit.Pos()), text)
				}
				return true
			})
		}
	}
	if seen < 30 {
		t.Errorf("only %d kinds are found in the source", seen)
	}
}
