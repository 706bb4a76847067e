package repl

import (
	"context"
	"testing"
	"time"

	"muru/control"
)

// A slowSession completes when it is given up.
type slowSession struct{ control.Session }

func (slowSession) Complete(ctx context.Context, line string, _ int) (string, []string, string, error) {
	<-ctx.Done()
	return line, []string{"late"}, "", nil
}

func TestCompletionThatIsLateIsNone(t *testing.T) {
	t.Parallel()
	r := &repl{session: slowSession{}}
	begun := time.Now()
	if _, candidates, _ := r.complete("", "statu", 5); len(candidates) > 0 {
		t.Errorf("it completes to %q", candidates)
	}
	if took := time.Since(begun); took > 2*completeFor {
		t.Errorf("it took %v", took)
	}
}
