package builtins

import (
	"testing"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

func TestWindowThatIsKeptShowsReleasesAsTheyWere(t *testing.T) {
	s := newStage(t)
	id := muru.ReleaseID{App: "shop", Number: 2}
	w := s.set.window(muru.Window{Candidate: muru.Arm{Release: id}})
	if _, _, err := s.engine.StopRelease(t.Context(), rollout.ReleaseRequest{Release: id}); err != nil {
		t.Fatal(err)
	}
	if got := s.attr(w, "candidate", "release", "state"); got != starlark.String("held") {
		t.Errorf("a window from before the stop has a release that is %s", got)
	}
}

func TestWindowOfAGateShowsAReleaseOnce(t *testing.T) {
	s := newStage(t)
	id := muru.ReleaseID{App: "shop", Number: 2}
	w := s.set.gateWindow(muru.Window{Candidate: muru.Arm{Release: id, Requests: 842}})
	if got := s.attr(w, "candidate").String(); got != "shop@r2 842 requests" {
		t.Errorf("the arm is %q", got)
	}
	if got := s.attr(w, "candidate", "release", "state"); got != starlark.String("held") {
		t.Errorf("the release is %s", got)
	}
	if _, _, err := s.engine.StopRelease(t.Context(), rollout.ReleaseRequest{Release: id}); err != nil {
		t.Fatal(err)
	}
	if got := s.attr(w, "candidate", "release", "state"); got != starlark.String("held") {
		t.Errorf("it changed to %s while the function was looking", got)
	}
}

// attr follows attributes from a record.
func (s *stage) attr(r *Record, names ...string) (v starlark.Value) {
	s.t.Helper()
	v = r
	for _, name := range names {
		var err error
		if v, err = v.(*Record).Attr(name); err != nil || v == nil {
			s.t.Fatalf("%s: %v, %v", name, v, err)
		}
	}
	return v
}
