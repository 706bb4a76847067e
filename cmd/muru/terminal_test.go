package main

import "testing"

func TestProgressThatIsTooLongIsCutBetweenWords(t *testing.T) {
	const line = "rollout 1 running, 77 requests (baseline 731 0), p99 pass"
	for _, c := range []struct {
		width int
		want  string
	}{
		{57, line},
		{56, "rollout 1 running, 77 requests (baseline 731 0), p99…"},
		{44, "rollout 1 running, 77 requests (baseline…"},
		{40, "rollout 1 running, 77 requests…"},
		{8, "rollout…"},
		{5, "roll…"},
		{1, "…"},
	} {
		got := cutToWidth(line, c.width)
		if got != c.want || len([]rune(got)) > c.width {
			t.Errorf("to %d: %q, want %q", c.width, got, c.want)
		}
	}
	if got := cutToWidth("a\x1b[K\nb", 20); got != "a [K b" {
		t.Errorf("control characters: %q", got)
	}
}
