package builtins

import (
	"regexp"
	"testing"
	"time"

	"muru"
)

func TestSubjectsOfEventsStandBelowEachOther(t *testing.T) {
	at := time.Date(2026, 11, 7, 18, 20, 7, 0, time.UTC)
	events := []muru.Event{
		{Seq: 45, Time: at, Level: muru.LevelWarning, Kind: "rollout.gate_failed", Subject: "shop@r6", Message: "step 1"},
		{Seq: 46, Time: at, Kind: "rollout.awaiting_approval", Subject: "shop@r6", Message: "rollout 1"},
		{Seq: 47, Time: at, Kind: "run.started", Subject: "run 1", Message: "a.star by ana"},
	}
	for n, want := range map[int]string{
		1: "45 18:20:07 warning rollout.gate_failed shop@r6 step 1\n",
		3: "45 18:20:07 warning rollout.gate_failed       shop@r6 step 1\n" +
			"46 18:20:07 notice  rollout.awaiting_approval shop@r6 rollout 1\n" +
			"47 18:20:07 notice  run.started               run 1 a.star by ana\n",
	} {
		got := ""
		for _, line := range EventLines(events[:n], at, time.UTC) {
			got += line + "\n"
		}
		if got != want {
			t.Errorf("%d events are\n%swant\n%s", n, got, want)
		}
	}
}

func TestAListOfEventsIsAligned(t *testing.T) {
	s := newStage(t)
	for _, kind := range []string{"rollout.awaiting_approval", "app.changed"} {
		s.engine.Report(muru.Event{Kind: kind, Subject: "shop", Message: "aligned"})
	}
	text := Format(s.value(`events("shop", limit = 2)`))
	if !regexp.MustCompile(`^\d+ .*rollout\.awaiting_approval shop aligned\n\d+ .*app\.changed               shop aligned$`).MatchString(text) {
		t.Errorf("they print as\n%s", text)
	}
}
