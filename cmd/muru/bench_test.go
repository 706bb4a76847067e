package main

import (
	"strings"
	"testing"

	"muru/control"
)

// TestBenchesRun runs the recipes of bench/ as briefly as they can be, so that
// they do when somebody wants their figures; it judges no figure.
func TestBenchesRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"two_apps.star":      {[]string{"--promotions", "1", "--rate", "100/s", "--before", "300ms", "--limit", "100000"}, "median ratio "},
		"never_answers.star": {[]string{"--limit", "1s", "--give-up", "500ms", "--rate", "100/s", "--share", "50"}, "\nrolled_back after "},
	} {
		t.Run(strings.TrimSuffix(name, ".star"), func(t *testing.T) {
			t.Parallel()
			out, err := runFile(t, "../../bench/"+name, c.args...)
			if err != nil || !strings.Contains(out, c.want) {
				t.Fatalf("%s\n%s", control.ErrorText(err), out)
			}
		})
	}
}
