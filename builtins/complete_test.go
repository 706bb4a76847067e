package builtins

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

func testScope(t *testing.T) (Scope, *stage) {
	s := newStage(t)
	values := starlark.StringDict{"svc": s.value(`status("shop")`), "d": Duration(time.Second), "list": starlark.NewList(nil)}
	return Scope{
		Variables: []string{"svc", "d", "deployed", "list"},
		Lookup:    func(name string) starlark.Value { return values[name] },
		Live:      Live{Apps: []string{"checkout", "shop"}, Releases: []string{"checkout@r1", "shop@r1", "shop@r2"}},
	}, s
}

// Each line is completed where its | is.
func TestCompletion(t *testing.T) {
	scope, s := testScope(t)
	before := len(s.edge.Swaps())
	for _, c := range []struct{ line, want string }{
		{`cana|`, "canary"}, {`dep|`, "deploy deployed"}, {`x = dep|`, "deploy deployed"}, {`|`, "many"}, {`zzz|`, ""}, {`# cana|`, ""},
		{`canary("shop@r|`, "shop@r1 shop@r2"}, {`canary(release = "ch|`, "checkout@r1"}, {`deploy("che|`, "checkout"}, {`status('s|`, "shop"},
		{`rollback("shop|`, "shop@r1 shop@r2"}, {`canary("shop@r2", "|`, ""}, {`deploy("shop", "x|`, ""}, {`print("sh|`, ""}, {`x = "sh|`, "shop shop@r1 shop@r2"}, {`f("sh|`, ""},
		{`canary(x, pe|`, ""}, {`canary(x, st|`, "steps =  stacks status stop str struct"}, {`canary(x, dead|`, "deadline = "}, {`canary(x, |`, "keywords"}, {`canary(|`, "keywords"},
		{`canary(x, steps = [1], st|`, "stacks status stop str struct"}, {`canary(x, steps = [(10, "1h"), st|`, "stacks status stop str struct"},
		{"canary(x,\n    dead|", "deadline = "}, {`print(canary(x, dead|`, "deadline = "}, {`canary(x, hold = d|`, "def deploy deployed dict dir duration"},
		{`canary(x, approve = "e|`, "each-step"}, {`canary(x, approve = |`, `"all" "each-step" "promotion"`}, {`canary(x, wait = |`, "False True"}, {`gate("p|`, "p95 p99 probe"},
		{`svc.base|`, "baseline"}, {`svc.baseline.na|`, "name"}, {`svc.held[0].sta|`, "state"}, {`d.sec|`, "seconds"}, {`list.app|`, "append"}, {`json.enc|`, "encode encode_indent"},
		{`status("shop").can|`, "candidate"}, {`status().can|`, ""}, {`status()[0].can|`, "candidate"}, {`rollouts("shop")[-1].sta|`, "started state"}, {`status("shop").rollout.step.ho|`, "hold"},
		{`deploy("shop", "x").wor|`, "workers"}, {`canary("shop@r2").|promoted`, ""}, {`now().yea|`, "year"}, {`1.|`, ""}, {`unknown.a|`, ""}, {`status(x == "a", svc.base|`, "baseline"},
		{`canary(x, hold = "1h") and st|`, "stacks status stop str struct"}, {`events("shop", kind = "x").|`, ""}, {`split("shop", {"sh|`, "shop@r1 shop@r2"},
	} {
		at := strings.IndexByte(c.line, '|')
		line := c.line[:at] + c.line[at+1:]
		head, candidates, tail := Complete(line, at, scope)
		got := strings.Join(candidates, " ")
		switch c.want {
		case "many":
			if len(candidates) < 50 || !slices.Contains(candidates, "deployed") {
				t.Errorf("%s: only %q", c.line, got)
			}
			continue
		case "keywords":
			if !slices.Contains(candidates, "steps = ") || !slices.Contains(candidates, "deadline = ") {
				t.Errorf("%s: %q", c.line, got)
			}
			continue
		}
		if strings.Contains(c.line, ".|promoted") {
			if !slices.Contains(candidates, "verdicts") || tail != "promoted" {
				t.Errorf("%s: %q, tail %q", c.line, got, tail)
			}
			continue
		}
		if strings.TrimSpace(got) != strings.TrimSpace(c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
		if !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) {
			t.Errorf("%s: head %q, tail %q", c.line, head, tail)
		}
	}
	if after := len(s.edge.Swaps()); after != before {
		t.Errorf("completion made the edge do %d things", after-before)
	}
}

func TestCompletionOfAThousandReleasesTakesNoTime(t *testing.T) {
	var live Live
	for n := range 1000 {
		live.Releases = append(live.Releases, "shop@r"+strings.Repeat("1", 1+n%9))
	}
	began := time.Now()
	_, _, _ = Complete(`canary("shop@r`, 14, Scope{Live: live})
	if took := time.Since(began); took > 50*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

func TestTabInACallShowsWhatHelpShows(t *testing.T) {
	help, err := Help("canary")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"canary(", "canary(x, ", "canary(x, steps = [1, ", `canary("shop`} {
		if got := SignatureAt(line, len(line)); got != help {
			t.Errorf("%s: %q", line, got)
		}
	}
	for _, line := range []string{"", "canary", "canary(x)", "f("} {
		if got := SignatureAt(line, len(line)); got != "" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func FuzzComplete(f *testing.F) {
	for _, seed := range []string{"", "canary(", `canary("`, "a.b[0](", "]", ")(", "x = = 1", "'''", `"\`, "status().", "é.ü", "f(a=b=c", "{[(", ".", "1.2.3("} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, line string, pos int) {
		head, candidates, tail := Complete(line, pos, Scope{Variables: []string{"x"}, Live: Live{Apps: []string{"shop"}}})
		if !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) || len(head)+len(tail) > len(line) {
			t.Errorf("%q at %d: head %q, tail %q", line, pos, head, tail)
		}
		_ = SignatureAt(line, pos)
		_ = candidates
	})
}
