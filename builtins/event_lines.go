package builtins

import (
	"strings"
	"time"
	"unicode/utf8"

	"muru"
)

// EventLines returns the lines of events that are shown together: each as
// [muru.Event.Line] prints it, with the kinds padded to the longest of them,
// so that subjects stand below each other.
func EventLines(events []muru.Event, now time.Time, loc *time.Location) []string {
	lines, kinds := make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		lines[i], kinds[i] = e.Line(now, loc), e.Kind
	}
	alignKinds(lines, kinds)
	return lines
}

// kindWidth is what a line alone pads its kind to.
const kindWidth = 19

// alignKinds pads the kinds in lines of events to the longest.
func alignKinds(lines, kinds []string) {
	width := kindWidth
	for _, kind := range kinds {
		width = max(width, utf8.RuneCountInString(kind))
	}
	for i, kind := range kinds {
		before, after, ok := strings.Cut(lines[i], " "+kind+" ")
		if missing := width - max(kindWidth, utf8.RuneCountInString(kind)); ok && missing > 0 {
			lines[i] = before + " " + kind + strings.Repeat(" ", missing+1) + after
		}
	}
}
