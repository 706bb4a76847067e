package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muru/control/controltest"
)

var update = flag.Bool("update", false, "rewrite docs/CLI.md")

func TestReferenceIsWhatTheCommandsSay(t *testing.T) {
	const path = "../../docs/CLI.md"
	want := reference(newRoot(&cli{}))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the commands say; rewrite it with %s\n%s", path, referenceCommand, diff)
	}
}

func TestEveryVerbHasHelpThatIsFoundByItsName(t *testing.T) {
	for _, c := range below(newRoot(&cli{})) {
		args := append([]string{"help"}, strings.Fields(c.CommandPath())[1:]...)
		out, errs, status := typed(t, &controltest.Muru{}, args...)
		if status != 0 || out == "" || errs != "" {
			t.Errorf("%q: status %d %s%s", args, status, out, errs)
		}
	}
}
