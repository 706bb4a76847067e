package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"muru/cmd/muru/visitortest"
	"muru/control"
)

// TestEveryRecipeDoesWhatItSays runs, for each recipe but the quickstart
// (which has a test of its own), the wrapper in recipes/testdata that gives it
// an app to change and visitors, and fails if it ended otherwise than it says.
func TestEveryRecipeDoesWhatItSays(t *testing.T) {
	t.Parallel()
	recipes, err := filepath.Glob("../../recipes/*.star")
	if err != nil || len(recipes) < 7 {
		t.Fatalf("found %d recipes: %v", len(recipes), err)
	}
	for _, recipe := range recipes {
		name := filepath.Base(recipe)
		if name == "quickstart.star" {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".star"), func(t *testing.T) {
			t.Parallel()
			out, err := runFile(t, "../../recipes/testdata/"+name)
			if err != nil {
				t.Fatalf("%s\n%s", control.ErrorText(err), out)
			}
		})
	}
}

// runFile runs a recipe with everything it needs in this process, on a port
// of its own, and returns what it printed.
func runFile(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runRecipe(t.Context(), runFlags{listen: "127.0.0.1:0", state: visitortest.ShortDir(t)}, path, args, &out, &out)
	return out.String(), err
}
