package person

import (
	"bytes"
	"io"
	"slices"
	"strings"
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
	if got := rowsOf("a\x1b[K\nb", 20); !slices.Equal(got, []string{"a [K b"}) {
		t.Errorf("control characters: %q", got)
	}
}

func TestProgressIsBrokenBehindCommasAndTakenOffAgain(t *testing.T) {
	const line = "rollout 1 running step 1 of 2: 10%, 5 s of 30s, 82 requests 18 5xx (baseline 760 0), " +
		"5xx no_data, crashes pass, p99 no_data, p95 no_data, needs 18 more requests"
	for width, want := range map[int][]string{
		200: {line},
		79: {
			"rollout 1 running step 1 of 2: 10%, 5 s of 30s,",
			"  82 requests 18 5xx (baseline 760 0), 5xx no_data, crashes pass, p99 no_data,",
			"  p95 no_data, needs 18 more requests",
		},
		40: {
			"rollout 1 running step 1 of 2: 10%,",
			"  5 s of 30s,",
			"  82 requests 18 5xx (baseline 760 0),",
			"  5xx no_data, crashes pass, p99…",
		},
		20: {"rollout 1 running…"},
	} {
		got := rowsOf(line, width)
		if !slices.Equal(got, want) {
			t.Errorf("at %d:\n%q\nwant\n%q", width, got, want)
		}
	}

	var out bytes.Buffer
	width := 80
	p := NewTerminal(io.Discard, &out)
	p.redraw, p.width = true, func() int { return width }
	p.Progress(1, line)
	drawn := out.Len()
	width = 40 // of the three rows, the second is now two and the first, too
	p.Progress(1, "")
	if got := out.String()[drawn:]; got != "\r\x1b[K"+strings.Repeat("\x1b[A\x1b[K", 4) {
		t.Errorf("taken off by %q", got)
	}
	p.Close()
	if got := out.String()[drawn:]; strings.Count(got, "\r") != 1 {
		t.Errorf("taken off twice: %q", got)
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
