package rollout

import (
	"context"
	"strings"
	"testing"

	"muru"
	"muru/rollout/rollouttest"
)

func TestIllegalMoveIsToldAndRefused(t *testing.T) {
	var told []string
	edge := &rollouttest.Edge{}
	e := New(Options{Edge: edge, Host: &rollouttest.Host{}, Bug: func(message string) { told = append(told, message) }})
	defer e.Close(context.Background())
	if _, _, err := e.Deploy(t.Context(), DeployRequest{Caller: ana, App: "shop"}); err != nil {
		t.Fatal(err)
	}
	a, _ := e.actorOf("shop")
	swaps := len(edge.Swaps())
	for _, c := range []change{
		{moves: []move{{release: a.releases[0], to: muru.Starting}}},
		{state: &rolloutMove{muru.Paused, ""}},
		{ended: &ending{muru.Promoted, "", muru.Buckets}},
	} {
		for _, run := range []func(context.Context, func() error) error{a.do, a.ask} {
			if err := run(t.Context(), func() error { return a.commit(c) }); err == nil || !strings.HasPrefix(err.Error(), "BUG: ") {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	want := "BUG: release shop@r1 cannot move from serving to starting"
	if len(told) != 6 || told[0] != want {
		t.Errorf("told %q", told)
	}
	if app, _ := e.AppNamed("shop"); app.Split.String() != "r1 100%" || a.releases[0].State != muru.Serving {
		t.Errorf("%+v", app)
	}
	if n := len(edge.Swaps()) - swaps; n > 3 { // ask puts the table back, whatever was done
		t.Errorf("%d swaps", n)
	}
}
