package builtins

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.starlark.net/starlark"
)

var update = flag.Bool("update", false, "rewrite docs/BUILTINS.md")

func TestReferenceIsUpToDate(t *testing.T) {
	const path = "../docs/BUILTINS.md"
	want := Reference()
	if *update {
		if err := os.MkdirAll("../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/BUILTINS.md does not say what the specs say (%v): run %s", err, ReferenceCommand)
	}
}

func TestEverySpecIsComplete(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range withMethods() {
		if s.Summary == "" || s.Doc == "" || s.Example == "" || s.Returns == "" {
			t.Errorf("%s lacks a summary, a doc, an example or what it returns", s.Name)
		}
		if strings.HasSuffix(s.Summary, ".") || s.Summary != "" && strings.ToLower(s.Summary[:1]) != s.Summary[:1] {
			t.Errorf("%s: the summary is one sentence, lower case, without full stop: %q", s.Name, s.Summary)
		}
		for _, p := range s.Params {
			if p.Doc == "" || p.Type == nil || p.Type.String() == "" {
				t.Errorf("%s: %s lacks a type or a doc", s.Name, p.Name)
			}
		}
	}
	for _, s := range Specs() {
		if s.Group == "" || !containsWord(groups, s.Group) {
			t.Errorf("%s is in no group", s.Name)
		}
		if seen[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		seen[s.Name] = true
	}
}

// withMethods returns the specs of builtins and of methods of values.
func withMethods() []*Spec {
	specs := append(Specs(), timeFormat, timeInLocation)
	for _, k := range kinds {
		specs = append(specs, k.methods...)
	}
	return specs
}

// One or two nouns by position, the rest by name: as soon as there is more
// than one optional argument that is no noun, none can be given by position.
func TestEverythingAfterTheNounsIsKeywordOnly(t *testing.T) {
	for _, s := range withMethods() {
		nouns, optional, byPosition := 0, 0, false
		for _, p := range s.Params {
			switch p.Pass {
			case Positional:
				nouns++
				byPosition = byPosition || optional > 0
			case ByName:
				optional++
			case Variadic:
			}
		}
		if nouns > 2 {
			t.Errorf("%s takes %d arguments by position", s.Name, nouns)
		}
		if byPosition {
			t.Errorf("%s takes a noun after a keyword", s.Name)
		}
	}
}

func TestDefaultsConvertByTheirOwnType(t *testing.T) {
	set := newEmptyStage(t, newFastClock()).set
	for _, s := range Specs() {
		for _, p := range s.Params {
			if p.Required() || p.Pass == Variadic || p.Default == starlark.None {
				continue
			}
			c := newCall(set, s, new(starlark.Thread), nil)
			if _, err := p.Type.Convert(c, p.Default); err != nil {
				t.Errorf("%s: %s = %s: %v", s.Name, p.Name, p.Default, err)
			}
		}
	}
}

func TestSignatureShowsNounsThenKeywords(t *testing.T) {
	want := `resume(rollout, *, step = None, reason = "") -> Rollout`
	if got := SpecNamed("resume").Signature(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every example runs as it stands, after one that makes its release.
func TestExamplesRun(t *testing.T) {
	for _, s := range withMethods() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			st := newExampleStage(t, s.Name)
			if _, err := st.run("def main():\n    " + strings.ReplaceAll(s.Example, "\n", "\n    ") + "\n"); err != nil {
				t.Errorf("%v\n%s", err, s.Example)
			}
		})
	}
}
