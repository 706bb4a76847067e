package builtins

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

func TestEveryValueHasJSON(t *testing.T) {
	s := newStage(t)
	for expr, want := range map[string]string{
		`None`: `null`, `True`: `true`, `1 << 70`: `1180591620717411303424`, `2.5`: `2.5`, `float("nan")`: `null`, `float("inf")`: `null`,
		`"a\"<ü"`: `"a\"\u003cü"`, `b"ab"`: `"ab"`, `[1, "a"]`: `[1,"a"]`, `(1, (2,))`: `[1,[2]]`, `[]`: `[]`, `{}`: `{}`,
		`{"b": 1, "a": [None], 3: 4}`: `{"b":1,"a":[null],"3":4}`, `set([1])`: `[1]`, `range(3)`: `[0,1,2]`, `struct(b = 1, a = "x")`: `{"a":"x","b":1}`,
		`duration("1m30s")`: `90`, `duration("250ms")`: `0.25`, `len`: `"\u003cbuilt-in function len\u003e"`,
		`gate("5xx", max = "1%")`:      `{"name":"5xx","max":1,"ratio":1,"kind":"builtin"}`,
		`status("shop").split`:         `{"shop@r1":100}`,
		`[r.name for r in releases()]`: `["r1","r2"]`,
	} {
		got, err := JSON(s.value(expr))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", expr, got, err, want)
		}
	}
	at := Time(time.Date(2026, 11, 7, 8, 20, 0, 0, time.FixedZone("", 3600)))
	if got, _ := JSON(at); string(got) != `"2026-11-07T07:20:00Z"` {
		t.Errorf("a time is %s", got)
	}
	if got, _ := JSON(Secret{"TOKEN", "hush"}); string(got) != `"secret(TOKEN)"` {
		t.Errorf("a secret is %s", got)
	}
}

func TestNamedValuesInsideAreTheirNames(t *testing.T) {
	s := newStage(t)
	list, err := JSON(s.value("status()"))
	if err != nil {
		t.Fatal(err)
	}
	var apps []map[string]any
	if err := json.Unmarshal(list, &apps); err != nil || len(apps) != 1 {
		t.Fatalf("%s: %v", list, err)
	}
	if apps[0]["baseline"] != "shop@r1" || apps[0]["candidate"] != nil || apps[0]["name"] != "shop" {
		t.Errorf("got %s", list)
	}
	ro, err := JSON(s.value(`canary("shop@r2", hold = "1h", wait = False)`))
	if err != nil || !strings.Contains(string(ro), `"candidate":"shop@r2"`) || !strings.Contains(string(ro), `"hold":3600`) {
		t.Errorf("%s, %v", ro, err)
	}
}

func TestAValueThatContainsItselfHasNoJSON(t *testing.T) {
	l := starlark.NewList(nil)
	if err := l.Append(l); err != nil {
		t.Fatal(err)
	}
	if got, err := JSON(l); err == nil {
		t.Errorf("it is %.50s", got)
	}
	if got, _ := JSON(starlark.Float(math.MaxFloat64)); !json.Valid(got) {
		t.Errorf("not JSON: %s", got)
	}
}
