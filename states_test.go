package muru_test

import (
	"strings"
	"testing"

	"muru"
)

// legalReleaseMoves repeats the table in the words of the documentation, so
// that a change of the code alone is noticed.
const legalReleaseMoves = `
starting: held serving failed
held: serving stopped
serving: draining held
draining: warm serving
warm: serving stopped
stopped: starting
failed: stopped`

const legalRolloutMoves = `
queued: running aborted
running: paused awaiting_approval promoted rolled_back aborted superseded
paused: running promoted rolled_back aborted superseded
awaiting_approval: running promoted rolled_back aborted superseded
promoted:
rolled_back:
aborted:
superseded:`

func TestEveryPairOfReleaseStates(t *testing.T) {
	checkMoves(t, legalReleaseMoves, muru.FailedToStart)
}

func TestEveryPairOfRolloutStates(t *testing.T) {
	checkMoves(t, legalRolloutMoves, muru.Superseded)
	for s := muru.Queued; s <= muru.Superseded; s++ {
		if s.Live() != s.CanBecome(muru.Aborted) {
			t.Errorf("abort must be legal in exactly the live states, not so in %s", s)
		}
	}
}

func checkMoves[S interface {
	~uint8
	String() string
	CanBecome(S) bool
}](t *testing.T, table string, last S) {
	t.Helper()
	legal := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, next := range strings.Fields(to) {
			legal[from+" "+next] = true
		}
	}
	for from := S(0); from <= last; from++ {
		for to := S(0); to <= last; to++ {
			pair := from.String() + " " + to.String()
			if got := from.CanBecome(to); got != legal[pair] {
				t.Errorf("%s: CanBecome = %v, documented %v", pair, got, legal[pair])
			}
			delete(legal, pair)
		}
	}
	if beyond := last + 1; beyond.CanBecome(0) {
		t.Errorf("the unknown state %s may move", beyond)
	}
	for pair := range legal {
		t.Errorf("documented move %q is of no known state", pair)
	}
}
