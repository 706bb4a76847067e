package daemon

import "testing"

// One piece of a recipe for each way to misname or misplace something; what
// each builtin makes of every argument is tested in its own package.
func TestWhatDoesNotExistIsNamedAndWhatIsNearItSuggested(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct{ source, want string }{
		{`status("shoop")`, `status: no app is called "shoop"\nhint: did you mean "shop"\?`},
		{`split("shoop", {"r1": 10})`, `split: no app is called "shoop"\nhint: did you mean "shop"\?`},
		{`traffic("shoop", duration = "1s")`, `traffic: no app is called "shoop"\nhint: did you mean "shop"\?`},
		{`rollback("blog")`, `rollback: no app is called "blog"`},
		{`promote("shop@r7")`, `promote: shop has no release r7\nhint: did you mean "shop@r1"\?`},
		{`canary("shop@r7")`, `canary: shop has no release r7\nhint: did you mean "shop@r1"\?`},
		{`canary("shoop@r1")`, `canary: no app is called "shoop"\nhint: did you mean "shop"\?`},
		{`promote("shop")`, `promote: release: "shop" is not a release\nhint: write it as "shop@r6"`},
		{`logs("shop@r7")`, `logs: shop has no release r7\nhint: did you mean "shop@r1"\?`},
		{`gate("p59", max = "1s")`, `gate: "p59" is not a gate that muru measures, and there is no check\nhint: did you mean "p95"\?`},
		{`gate("orders")`, `gate: "orders" is not a gate that muru measures, and there is no check\nhint: give check = a function of the window, or one of 5xx, crashes, p95, p99, queue_wait, probe`},
		{`canary("shop@r1", step = [10])`, `canary: there is no parameter step\nhint: did you mean steps\?`},
		{`deploy("shop", SHOP, thread = 2)`, `deploy: there is no parameter thread\nhint: did you mean threads\?`},
		{`deploy("shop", SHOP, timeouts = {"hrad": "3s"})`, `deploy: timeouts: "hrad" is no key of it\nhint: did you mean "hard"\?`},
		{`canray("shop@r1")`, `undefined: canray\nhint: did you mean canary\?`},
		{`wait(7)`, `wait: there is no rollout 7`},
		{`abort("shop")`, `abort: shop has had no rollout`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}

func TestQuantitiesThatDoNotParseAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, c := range []struct{ source, want string }{
		{`split("shop", {"r1": "ten"})`, `split: shares\["r1"\]: "ten" is not a percentage\nhint: write it like "1%" or "0.5%"`},
		{`split("shop", {"r1": 0.1})`, `split: shares\["r1"\]: 0.1 may mean 0.1% or 10%: write "0.1%" or "10%"`},
		{`split("shop", {"r1": 140})`, `split: shares\["r1"\]: 140% is over 100%`},
		{`split("shop", {"r1": "0.001%"})`, `split: shares\["r1"\]: 0.001% has more than two decimals`},
		{`gate("5xx", max = "much")`, `gate: max: "much" is not a percentage\nhint: write it like "1%" or "0.5%"`},
		{`gate("5xx", ratio = 0.5)`, `gate: ratio: 0.5 is not a ratio: 1 is as bad as the baseline, 2 twice as bad\nhint: a candidate that must be better than the baseline needs a gate with a check`},
		{`gate("p95", max = 250)`, `gate: max: 250 has no unit\nhint: write "250ms" or "250s"`},
		{`gate("p95", max = "250 milliseconds")`, `gate: max: "250 milliseconds" is not a duration\nhint: write it like "250ms", "30s" or "1m30s"`},
		{`canary("shop@r1", hold = "soon")`, `canary: hold: "soon" is not a duration\nhint: write it like "250ms", "30s" or "1m30s"`},
		{`deploy("shop", SHOP, timeouts = {"hard": "-3s"})`, `deploy: timeouts\["hard"\]: "-3s" is not a duration\nhint: write it like "250ms", "30s" or "1m30s"`},
		{`app("shop", max_body = "10 apples")`, `app: max_body: "10 apples" is not a size\nhint: write it like "512MiB" or "10KB"`},
		{`app("shop", max_body = "-1MiB")`, `app: max_body: "-1MiB" is not a size\nhint: write it like "512MiB" or "10KB"`},
		{`app("shop", sticky = "10 min")`, `app: sticky: "10 min" is not a duration\nhint: write it like "250ms", "30s" or "1m30s"`},
		{`traffic("shop", rate = "fast")`, `traffic: rate: "fast" is not a rate\nhint: write it like "20/s", "30/m" or "5/h"`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}

func TestCanaryThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True)`)
	if _, err := s.run(`deploy("shop", BROKEN, entry = "raises:application", hold = True)`); err == nil {
		t.Fatal("r3 has started")
	}
	s.must(`app("fresh", hosts = ["fresh.example.test"])`)
	s.must(`app("held", hosts = ["held.example.test"])`)
	if _, err := s.run(`deploy("fresh", BROKEN, entry = "raises:application")`); err == nil {
		t.Fatal("fresh@r1 has started")
	}
	s.must(`deploy("held", SHOP, hold = True)`)
	s.must(`stop(deploy("shop", SHOP, hold = True))`)
	// shop: r1 serves, r2 is held, r3 failed, r4 stopped.
	for _, c := range []struct{ source, want string }{
		{`canary("shop@r2", steps = [50, 10])`, `canary: steps\[1\]: 10% is not above 50%`},
		{`canary("shop@r2", steps = [10, 10])`, `canary: steps\[1\]: 10% is not above 10%`},
		{`canary("shop@r2", steps = [10, 140])`, `canary: steps\[1\]: 140% is over 100%\nhint: 40 means 40%`},
		{`canary("shop@r2", steps = [])`, `canary: steps: there is none\nhint: promote gives all traffic without a step`},
		{`canary("shop@r1")`, `canary: shop@r1 serves 100% of shop already: there is nothing to try`},
		{`canary("shop@r3")`, `canary: shop@r3 failed to start: worker \d \(pid \d+\) cannot load raises:application: KeyError: 'mug'`},
		{`canary("shop@r4")`, `canary: shop@r4 is stopped: a candidate is held or warm`},
		{`canary("fresh@r1")`, `canary: fresh@r1 failed to start: worker \d \(pid \d+\) cannot load raises:application: KeyError: 'mug'`},
		{`canary("held@r1")`, `canary: nothing serves held: there is no baseline to compare held@r1 with\nhint: muru promote held@r1`},
		{`split("shop", {"r2": 60, "r1": 60})`, `split: shop@r1 serves the rest and takes no share of its own`},
		{`split("shop", {"r3": 10})`, `split: shop@r3 is failed: it is not ready to serve\nhint: deploy its source again: muru deploy shop DIRECTORY --hold`},
		{`promote("shop@r3")`, `promote: shop@r3 is failed: it is not ready to serve\nhint: deploy its source again: muru deploy shop DIRECTORY --hold`},
		{`stop("shop@r1")`, `stop: shop@r1 is serving\nhint: promote or roll back to another release first, or stop the app: muru stop shop`},
		{`rollback("shop")`, `rollback: shop has no earlier release to go back to\nhint: name one with to=`},
		{`resume("shop")`, `resume: shop has had no rollout`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
	s.serves("shop@r1")
}
