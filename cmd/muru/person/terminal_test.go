package person

import (
	"io"
	"testing"

	"muru/cmd/muru/person/persontest"
)

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

func TestProgressIsRedrawnOnlyWhereTheTerminalCan(t *testing.T) {
	master, slave := persontest.OpenTerminal(t)
	defer master.Close()
	defer slave.Close()
	for _, c := range []struct {
		term, noColor string
		want          bool
	}{
		{"xterm", "", true},
		{"xterm", "1", false}, // its owner does not want it
		{"dumb", "", false},
		{"", "", false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		if got := NewTerminal(io.Discard, slave).redraw; got != c.want {
			t.Errorf("TERM=%q NO_COLOR=%q: %v", c.term, c.noColor, got)
		}
	}
	if NewTerminal(io.Discard, io.Discard).redraw {
		t.Error("on what is no terminal")
	}
}
