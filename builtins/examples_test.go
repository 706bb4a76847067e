package builtins

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muru"
	"muru/rollout"
)

// answering is an http.RoundTripper that answers everything the same.
type answering struct {
	status int
	body   string
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"X-Request-Id": {"01M8"}, "Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(a.body)), Request: r,
	}, nil
}

// before is what an example needs beyond a shop that serves r5 and holds r6.
var before = map[string]string{
	"pause":   `canary("shop@r6", hold = "1h", wait = False)`,
	"abort":   `canary("shop@r6", hold = "1h", wait = False)`,
	"resume":  "canary(\"shop@r6\", hold = \"1s\", approve = \"each-step\", wait = False)\nwait(lambda: rollouts(\"shop\")[-1].state == \"awaiting_approval\", every = \"1s\")",
	"stop":    `wait(lambda: [r for r in releases("shop") if r.name == "r4" and r.state in ["warm", "stopped"]], every = "1s")`,
	"retry":   `abort(canary("shop@r6", hold = "1s", wait = False))`,
	"why":     `canary("shop@r6", hold = "1h", wait = False)`,
	"observe": `split("shop", {"r6": "10%"})`,
}

// newExampleStage makes a stage on which the example of a builtin runs.
func newExampleStage(t *testing.T, name string) *stage {
	t.Helper()
	s := newEmptyStage(t, newFastClock())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	t.Cleanup(server.Close)
	s.edge.URLFunc = func(muru.Route) string { return server.URL + "/" }
	s.set.env.Secret = func(name string) (string, error) { return "hush\n", nil }
	s.set.env.Listen = func(context.Context, Listener) error { return nil }
	s.set.env.Client = &http.Client{Transport: answering{200, `{"name": "shop"}`}}
	for n := range 6 {
		plan := muru.ReleasePlan{
			Kind: muru.Python, Source: s.path("shop/v5"), Entry: "app:application", Workers: 2, Threads: 4,
			Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
		}
		req := rollout.DeployRequest{Caller: rollout.Caller{By: "ana"}, App: "shop", Plan: plan, Hold: n == 5}
		if _, _, err := s.engine.Deploy(t.Context(), req); err != nil {
			t.Fatalf("deploy: %v", err)
		}
	}
	s.visitors(200)
	if source := before[name]; source != "" {
		if _, err := s.run("def main():\n    " + strings.ReplaceAll(source, "\n", "\n    ") + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
