package host

import (
	"strings"
	"testing"

	"muru"
)

func TestPythonReleaseAnswers(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) {
		r.Workers = 2
		r.Env = map[string]string{"COLOUR": "blue"}
	}))
	a := do(t.Context(), b, "/orders/1")
	wantOK(t, a)
	if a.text() != "hello from /orders/1" {
		t.Errorf("body %q", a.text())
	}
	env := do(t.Context(), b, "/env").text()
	for _, want := range []string{"COLOUR=blue\n", "MURU_RELEASE=shop@r6\n", "MURU_WORKER=", "PATH="} {
		if !strings.Contains(env+"\n", want) {
			t.Errorf("no %s in the environment:\n%s", want, env)
		}
	}
	if got := len(events.of(muru.WorkerReadyEvent)); got != 2 {
		t.Errorf("%d worker.ready events, want 2", got)
	}
	if !h.Ready(shop) {
		t.Error("not ready")
	}
}
