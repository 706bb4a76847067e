package daemon

import (
	"strings"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/control"
)

// A recipe that takes more memory than it may is stopped on its line, and
// visitors notice nothing.
func TestRecipeThatIsStoppedHarmsNoVisitor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	v := s.come(4, "/", 5*time.Millisecond, 10*time.Second)
	seen := func() int { return v.Seen("200 hello from shop@r1\n") }
	visitortest.Within(5*time.Second, func() bool { return seen() > 0 })
	before := seen()

	o := s.runnerOptions()
	o.Limits.Memory = 64 << 20
	r := NewRunner(o)
	n, err := r.StartRun(asAna(t), control.Run{File: "r.star", Dir: writeRecipe(t,
		"def main():\n    l = []\n    for i in range(1000000000):\n        l.append(\"%d\" % i)\n")})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Attach(t.Context(), n, func(control.Message) {})
	if muru.KindOf(err) != muru.KindBudget || !strings.Contains(control.ErrorText(err), "r.star:") {
		t.Errorf("ended with %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !visitortest.Within(5*time.Second, func() bool { return seen() > before+20 }) {
		t.Errorf("%d visits before it was stopped, %d afterwards", before, seen())
	}
	v.WantOnlyGreetings(t)
	if c := s.edge.Counts(r1); c.ServerErrors != 0 {
		t.Errorf("counted against the release: %+v", c)
	}
}
