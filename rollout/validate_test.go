package rollout

import (
	"context"
	"testing"
	"time"

	"muru"
)

func TestCanaryRefusesPlansThatCannotBe(t *testing.T) {
	steps := func(shares ...muru.Share) func(*CanaryRequest) {
		return func(q *CanaryRequest) {
			q.Steps = nil
			for _, s := range shares {
				q.Steps = append(q.Steps, muru.Step{Share: s, Hold: 30 * time.Second})
			}
		}
	}
	gates := func(gates ...muru.Gate) func(*CanaryRequest) {
		return func(q *CanaryRequest) { q.Gates = gates }
	}
	release := func(id muru.ReleaseID) func(*CanaryRequest) {
		return func(q *CanaryRequest) { q.Release = id }
	}
	tests := []struct {
		change func(*CanaryRequest)
		kind   muru.ErrorKind
		text   string
		hint   string
	}{
		{steps(), muru.KindUsage, "steps is empty: a rollout needs at least one step", "steps = [10, 50]"},
		{steps(5000, 1000), muru.KindUsage, "steps[1]: 10% is not above 50%", ""},
		{steps(1000, 1000), muru.KindUsage, "steps[1]: 10% is not above 10%", ""},
		{steps(1000, 14000), muru.KindUsage, "steps[1]: 140% is over 100%", ""},
		{steps(-100), muru.KindUsage, "steps[0]: -1% is below 0%", ""},
		{func(q *CanaryRequest) { q.Deadline = 10 * time.Second }, muru.KindUsage, "steps[0]: the deadline of 10s is before the end of the hold of 30s", ""},
		{func(q *CanaryRequest) { q.MinRequests = -1 }, muru.KindUsage, "min_requests: -1 is below 0", ""},
		{func(q *CanaryRequest) { q.Judge = "treshold" }, muru.KindUsage, `judge: "treshold" is not a judge`, `did you mean "threshold"?`},
		{gates(muru.Gate{Name: "p96"}), muru.KindUsage, `gates[0]: muru measures no "p96"`, `did you mean "p95"?`},
		{gates(muru.Gate{Name: "5xx"}, muru.Gate{Name: "5xx"}), muru.KindUsage, "gates[1]: 5xx is named twice", ""},
		{gates(muru.Gate{Name: "probe"}), muru.KindUsage, "gates[0]: probe has no paths", `gate("probe", paths = ["/healthz"])`},
		{gates(muru.Gate{Name: "p95", Max: muru.PercentOf(1)}), muru.KindUsage, "gates[0]: p95: a max of 1.00% is in the wrong unit", ""},
		{release(muru.ReleaseID{App: "shpo", Number: 2}), muru.KindNotFound, `no app is called "shpo"`, `did you mean "shop"?`},
		{release(muru.ReleaseID{App: "shot", Number: 2}), muru.KindNotFound, `no app is called "shot"`, `did you mean "shop"?`},
		{release(rel(9)), muru.KindNotFound, "shop has no release r9", `did you mean "shop@r4"?`},
		{release(rel(1)), muru.KindRefused, "shop@r1 serves 100% of shop already: there is nothing to try", ""},
		{release(rel(3)), muru.KindRefused, "shop@r3 failed to start: boom", ""},
		{release(rel(4)), muru.KindRefused, "shop@r4 is stopped: a candidate is held or warm", ""},
	}
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.host.StartFunc = func(context.Context, muru.Release) (muru.Backend, error) {
			return nil, muru.Errorf(muru.KindNotReady, "boom")
		}
		w.e.Deploy(w.ctx, DeployRequest{App: "shop", Hold: true})
		w.host.StartFunc = nil
		w.deploy(true)
		must[muru.Release](t)(w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(4)}))
		for _, tt := range tests {
			_, _, err := w.e.Canary(w.ctx, plan(tt.change))
			expectError(t, err, tt.kind, tt.text)
			if e, ok := err.(*muru.Error); ok && e.Hint != tt.hint {
				t.Errorf("%s: hint %q, want %q", tt.text, e.Hint, tt.hint)
			}
		}
		if rollouts, _ := w.e.Rollouts("shop"); len(rollouts) != 0 {
			t.Errorf("%d rollouts were made", len(rollouts))
		}
	})
}

func TestCanaryNeedsABaseline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(true)
		_, _, err := w.e.Canary(w.ctx, plan(func(q *CanaryRequest) { q.Release = rel(1) }))
		expectError(t, err, muru.KindRefused, "nothing serves shop: there is no baseline to compare shop@r1 with")
	})
}

func TestCanaryIsRefusedWhileSharesAreSetByHand(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.deploy(true)
		must[muru.App](t)(w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(3), Share: 500}}}))
		_, _, err := w.e.Canary(w.ctx, plan())
		expectError(t, err, muru.KindRefused, "shop is split by hand (r1 95%, r3 5%)")
	})
}

func TestGateThatIsNamedReplacesItsDefault(t *testing.T) {
	gates, err := planGates([]muru.Gate{
		{Name: "p95", Max: muru.TimeOf(time.Second)}, {Name: "5xx", Max: muru.PercentOf(5), Ratio: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"5xx max 5.00%", "crashes max 0", "p99 max 30 s", "p95 max 1 s"}
	for i, g := range gates {
		if g.String() != want[i] {
			t.Errorf("gate %d is %s, want %s", i, g, want[i])
		}
	}
	if gates[0].Ratio != 2 || gates[3].Ratio != 1 {
		t.Errorf("ratios %v and %v", gates[0].Ratio, gates[3].Ratio)
	}
}
