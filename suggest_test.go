package muru_test

import (
	"testing"

	"muru"
)

func TestSuggestFindsTheNearestOfAllNames(t *testing.T) {
	names := []string{"app", "canary", "deploy", "gates", "hold", "min_requests", "on_conflict", "on_fail", "on_no_data", "steps", "wait"}
	for name, want := range map[string]string{
		"depoly":       "deploy",
		"stpes":        "steps",
		"step":         "steps",
		"STEPS":        "steps",
		"min-requests": "min_requests",
		"minrequest":   "min_requests",
		"on_conflic":   "on_conflict",
		"wiat":         "wait",
		"ap":           "app",
		"hodl":         "hold",
		"x":            "",
		"":             "",
		"rollback":     "",
		"zzzzzz":       "",
	} {
		if got := muru.Suggest(name, names); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := muru.Suggest("bat", []string{"hat", "cat"}); got != "cat" {
		t.Errorf("of equally near names the first in the alphabet: got %q", got)
	}
}
