package builtins

import (
	"context"
	"testing"
	"time"

	"muru"
	"muru/rollout"
	"muru/rollout/rollouttest"
	script "muru/starlark"
)

// BenchmarkGateFunction is one check of a gate that is a function: a window
// made into values, the function on a thread of its own, its answer read.
func BenchmarkGateFunction(b *testing.B) {
	engine := rollout.New(rollout.Options{Edge: &rollouttest.Edge{}, Host: new(rollouttest.Host)})
	set := New(Env{Engine: engine, Terminal: new(terminal), Dir: b.TempDir(), By: "ana"})
	defer func() { _, _ = set.Close(context.Background()), engine.Close(context.Background()) }()
	for range 2 {
		if _, _, err := engine.Deploy(b.Context(), rollout.DeployRequest{App: "shop", Plan: muru.ReleasePlan{Workers: 1}}); err != nil {
			b.Fatal(err)
		}
	}
	runtime := script.New(script.Options{Predeclared: set.Predeclared(), Dir: b.TempDir()})
	for name, check := range map[string]string{
		"rates":     `lambda w: w.candidate.rate("2xx") >= 0.9 * w.baseline.rate("2xx") or "fewer orders"`,
		"quantiles": `lambda w: w.candidate.quantile("p95") <= 1.5 * w.baseline.quantile("p95")`,
	} {
		b.Run(name, func(b *testing.B) {
			file, err := runtime.Parse("bench.star", []byte("def main():\n    return gate(\"orders\", check = "+check+")\n"))
			if err != nil {
				b.Fatal(err)
			}
			v, err := file.Run(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			g, _ := native[muru.Gate](v)
			w := benchWindow()
			b.ReportAllocs()
			for b.Loop() {
				if ok, message, err := g.Check(b.Context(), w); !ok || err != nil {
					b.Fatal(message, err)
				}
			}
		})
	}
}

func benchWindow() muru.Window {
	arm := func(n, requests int) muru.Arm {
		a := muru.Arm{Release: muru.ReleaseID{App: "shop", Number: n}, Requests: requests, Class: [6]int{2: requests}}
		for i := range requests {
			a.Durations.Observe(time.Duration(i) * time.Millisecond)
		}
		return a
	}
	baseline := arm(1, 900)
	return muru.Window{Candidate: arm(2, 100), Baseline: &baseline, Elapsed: time.Minute}
}
