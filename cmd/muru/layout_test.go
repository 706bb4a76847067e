package main

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// mayImport is the house: which of our packages each of them may import,
// besides the root package, which everybody may. A folder stands for the
// packages below it too, unless they have a line of their own; a package may
// always import those that belong to it.
var mayImport = map[string][]string{
	"muru":          {},
	"muru/edge":     {},
	"muru/host":     {},
	"muru/store":    {},
	"muru/rollout":  {"muru/store"},
	"muru/control":  {"muru/rollout"},
	"muru/stdlib":   {},
	"muru/starlark": {"muru/stdlib"},
	"muru/builtins": {"muru/rollout", "muru/starlark"},
	"muru/recipes":  {},
	"muru/bench":    {"muru/edge", "muru/host", "muru/rollout"},

	"muru/cmd/muru":             {"muru/cmd/muru/daemon", "muru/cmd/muru/person", "muru/cmd/muru/repl", "muru/edge", "muru/rollout", "muru/builtins", "muru/store", "muru/control"},
	"muru/cmd/muru/daemon":      {"muru/edge", "muru/host", "muru/rollout", "muru/starlark", "muru/builtins", "muru/stdlib", "muru/store", "muru/control"},
	"muru/cmd/muru/person":      {"muru/builtins", "muru/control"},
	"muru/cmd/muru/repl":        {"muru/cmd/muru/person", "muru/starlark", "muru/builtins", "muru/control"},
	"muru/cmd/muru/visitortest": {},
}

// mayUse is who may import libraries that only one part of the house knows.
var mayUse = map[string][]string{
	"go.starlark.net":                    {"muru/starlark", "muru/builtins", "muru/cmd/muru", "muru/cmd/muru/daemon", "muru/cmd/muru/repl"},
	"net/http":                           {"muru/edge", "muru/rollout", "muru/builtins", "muru/control", "muru/cmd/muru/daemon", "muru/cmd/muru/visitortest", "muru/bench"}, // rollout: the text of a status
	"github.com/peterh/liner":            {"muru/cmd/muru/repl"},
	"github.com/spf13/cobra":             {"muru/cmd/muru"},
	"github.com/gorilla/mux":             {"muru/control"},
	"testing":                            {"muru/rollout/rollouttest", "muru/store/storetest", "muru/control/controltest", "muru/cmd/muru/person/persontest", "muru/cmd/muru/visitortest"},
	"go.etcd.io/bbolt":                   {"muru/store"},
	"github.com/VictoriaMetrics/metrics": {"muru/edge"},
}

func TestImportsOnlyGoTheWaysTheHouseAllows(t *testing.T) {
	for pkg, imports := range listImports(t) {
		owner := ownerOf(pkg)
		allowed, known := mayImport[owner]
		if !known {
			t.Errorf("%s belongs to no folder of the house: name it in mayImport", pkg)
		}
		for _, imported := range imports {
			ours := imported == "muru" || strings.HasPrefix(imported, "muru/")
			if ours && imported != "muru" && !belongs(imported, owner) && !slices.ContainsFunc(allowed, func(a string) bool { return belongs(imported, a) }) {
				t.Errorf("%s imports %s: the house does not allow it", pkg, imported)
			}
			for library, users := range mayUse {
				if within(imported, library) && !slices.ContainsFunc(users, func(u string) bool { return belongs(pkg, u) }) {
					t.Errorf("%s imports %s, which only %s may", pkg, imported, strings.Join(users, ", "))
				}
			}
			if pkg == "muru" && strings.Contains(imported, ".") {
				t.Errorf("the root package imports %s: only the standard library is allowed", imported)
			}
		}
	}
}

// listImports returns the imports of every package of the module, those of
// its tests excepted.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "muru/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		all[fields[0]] = fields[1:]
	}
	if len(all) < 2 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// ownerOf returns the folder of the house that pkg lies in: the nearest with a
// line in mayImport.
func ownerOf(pkg string) string {
	for folder := pkg; folder != "muru" && folder != "."; folder = path.Dir(folder) {
		if _, ok := mayImport[folder]; ok {
			return folder
		}
	}
	return pkg
}

// belongs reports whether pkg is folder, or lies below it and has no line of
// its own.
func belongs(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/") && ownerOf(pkg) == ownerOf(folder)
}

// within reports whether a package of a library is library or lies below it.
func within(pkg, library string) bool { return pkg == library || strings.HasPrefix(pkg, library+"/") }
