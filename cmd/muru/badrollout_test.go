package main

import "testing"

// One piece of a recipe for each way to misname or misplace something; what
// each builtin makes of every argument is tested in its own package.
func TestWhatDoesNotExistIsNamedAndWhatIsNearItSuggested(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ source, want string }{
		{`status("shoop")`, `X`},
		{`split("shoop", {"r1": 10})`, `X`},
		{`traffic("shoop", duration = "1s")`, `X`},
		{`rollback("blog")`, `X`},
		{`promote("shop@r7")`, `X`},
		{`canary("shop@r7")`, `X`},
		{`canary("shoop@r1")`, `X`},
		{`promote("shop")`, `X`},
		{`logs("shop@r7")`, `X`},
		{`gate("p59", max = "1s")`, `X`},
		{`gate("orders")`, `X`},
		{`canary("shop@r1", step = [10])`, `X`},
		{`deploy("shop", SHOP, thread = 2)`, `X`},
		{`deploy("shop", SHOP, timeouts = {"hrad": "3s"})`, `X`},
		{`canray("shop@r1")`, `X`},
		{`wait(7)`, `X`},
		{`abort("shop")`, `X`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}

func TestQuantitiesThatDoNotParseAreRefused(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ source, want string }{
		{`split("shop", {"r1": "ten"})`, `X`},
		{`split("shop", {"r1": 0.1})`, `X`},
		{`split("shop", {"r1": 140})`, `X`},
		{`split("shop", {"r1": "0.001%"})`, `X`},
		{`gate("5xx", max = "much")`, `X`},
		{`gate("p95", max = 250)`, `X`},
		{`gate("p95", max = "250 milliseconds")`, `X`},
		{`canary("shop@r1", hold = "soon")`, `X`},
		{`deploy("shop", SHOP, timeouts = {"hard": "-3s"})`, `X`},
		{`app("shop", max_body = "10 apples")`, `X`},
		{`app("shop", max_body = "-1MiB")`, `X`},
		{`app("shop", sticky = "10 min")`, `X`},
		{`traffic("shop", rate = "fast")`, `X`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
}

func TestCanaryThatCannotBeIsRefused(t *testing.T) {
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
	for _, c := range []struct{ source, want string }{
		{`canary("shop@r2", steps = [50, 10])`, `X`},
		{`canary("shop@r2", steps = [10, 10])`, `X`},
		{`canary("shop@r2", steps = [10, 140])`, `X`},
		{`canary("shop@r2", steps = [])`, `X`},
		{`canary("shop@r1")`, `X`},
		{`canary("shop@r3")`, `X`},
		{`canary("shop@r4")`, `X`},
		{`canary("fresh@r1")`, `X`},
		{`canary("held@r1")`, `X`},
		{`split("shop", {"r2": 60, "r1": 60})`, `X`},
		{`split("shop", {"r3": 10})`, `X`},
		{`promote("shop@r3")`, `X`},
		{`stop("shop@r1")`, `X`},
		{`rollback("shop")`, `X`},
		{`resume("shop")`, `X`},
	} {
		t.Run(c.source, func(t *testing.T) { s.on(t).fails(c.source, c.want) })
	}
	s.serves("shop@r1")
}
