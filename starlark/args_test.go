package starlark

import (
	"errors"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"muru"
)

// mainOf executes a file of one def main and returns it.
func mainOf(t testing.TB, signature string) (*File, *starlark.Function) {
	source := "def main(" + signature + "):\n    pass\n"
	file, err := New(Options{Dir: t.TempDir()}).Parse("f.star", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	globals, err := file.source.program.Init(new(starlark.Thread), file.rt.predeclared)
	if err != nil {
		t.Fatal(err)
	}
	return file, globals["main"].(*starlark.Function)
}

func TestArgsAreTypedByTheDefaults(t *testing.T) {
	const all = `app, source = None, *, share = 10, rate = 1.5, hold = "30s", quick = False, shield = True, steps = [10, 50], gates = [], env = {}, min_requests = 100`
	tests := []struct{ signature, args, want string }{
		{"app, source", "shop releases/v6", `app="shop" source="releases/v6"`},
		{"app, source", "--source dir shop", `app="shop" source="dir"`},
		{"app, hold = '30s'", "shop 1m", `app="shop" hold="1m"`},
		{all, "shop", `app="shop"`},
		{all, "shop --hold 1m --share=5", `app="shop" share=5 hold="1m"`},
		{all, "shop --share -5 --rate -.5", `app="shop" share=-5 rate=-0.5`},
		{all, "-5", `app="-5"`},
		{all, "- --rate 2", `app="-" rate=2.0`},
		{all, "shop --quick --no-shield", `app="shop" quick=True shield=False`},
		{all, "shop --no-quick --shield=true", `app="shop" quick=False shield=True`},
		{all, "--quick shop", `app="shop" quick=True`},
		{all, "shop --steps 5,25 --steps 50", `app="shop" steps=[5, 25, 50]`},
		{all, "shop --steps=", `app="shop" steps=[]`},
		{all, "shop --gates a,b", `app="shop" gates=["a", "b"]`},
		{all, "shop --env A=1 --env B=x=y", `app="shop" env={"A": "1", "B": "x=y"}`},
		{all, "shop --min-requests 5", `app="shop" min_requests=5`},
		{all, "shop --min_requests 5", `app="shop" min_requests=5`},
		{all, "shop --hold=--x", `app="shop" hold="--x"`},
		{all, "-- --odd", `app="--odd"`},
		{`steps = [10, "25% shadow"]`, "--steps 5,50% shadow", `steps=[5, "50% shadow"]`},
		{`steps = (1, 2)`, "--steps 5,6", `steps=(5, 6)`},
		{`steps = [(0, "1h"), 10]`, "--steps 5,1h", `steps=[5, "1h"]`},
		{`pairs = [(0, "1h")]`, "--pairs 5,1h", `pairs=["5", "1h"]`},
		{`flags = [True]`, "--flags true,false", `flags=[True, False]`},
		{`app, *paths`, "shop / /a", `"shop" "/" "/a"`},
		{`app, hold = "1s", *paths, quick = False`, "shop 2s / --quick", `"shop" "2s" "/" quick=True`},
		{`app, **more`, "shop --color red", `app="shop" color="red"`},
		{`big = 1`, "--big 123456789012345678901234567890", `big=123456789012345678901234567890`},
		{"", "", ""},
		{"app, source", "shop", "f.star: SOURCE is missing\nusage: muru run f.star APP SOURCE"},
		{"app, *, to", "shop", "f.star: --to is missing\nusage: muru run f.star APP --to TO"},
		{"app", "shop x", `f.star: unexpected argument "x"` + "\nusage: muru run f.star APP"},
		{"app", "shop --app x", `f.star: unexpected argument "shop"` + "\nusage: muru run f.star APP"},
		{all, "shop --hodl 1m", "f.star: unknown flag --hodl\ndid you mean --hold?"},
		{all, "shop --no-sheild", "f.star: unknown flag --no-sheild\ndid you mean --no-shield?"},
		{"app", "shop --nonsense=1", "f.star: unknown flag --nonsense\nusage: muru run f.star APP"},
		{"app", "shop -x", "f.star: unknown flag -x\nusage: muru run f.star APP"},
		{"app, **more", "shop --", `app="shop"`},
		{"app, **more", "shop --=x", "f.star: unknown flag --\nusage: muru run f.star APP [--NAME VALUE…]"},
		{all, "shop --hold", "f.star: --hold needs a value"},
		{all, "shop --hold --quick", "f.star: --hold needs a value"},
		{all, "shop --hold 1 --hold 2", "f.star: --hold is given twice"},
		{all, "shop --share 10%", `f.star: --share: "10%" is not a whole number`},
		{all, "shop --rate fast", `f.star: --rate: "fast" is not a number`},
		{all, "shop --rate NaN", `f.star: --rate: "NaN" is not a number`},
		{all, "shop --quick=yes", `f.star: --quick: "yes" is not true or false`},
		{all, "shop --no-quick=true", `f.star: --no-quick takes no value`},
		{all, "shop --steps 5,x", `f.star: --steps: "x" is not a whole number`},
		{all, "shop --env A", `f.star: --env: "A" is not KEY=VALUE`},
		{"fn = len", "--fn x", `f.star: --fn: a builtin_function_or_method cannot be given on the command line`},
	}
	for _, tt := range tests {
		file, fn := mainOf(t, tt.signature)
		words := strings.Fields(strings.ReplaceAll(tt.args, "% shadow", "%_shadow"))
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "%_shadow", "% shadow")
		}
		args, kwargs, err := Args("f.star", fn, words)
		var got []string
		for _, arg := range args {
			got = append(got, arg.String())
		}
		for _, kv := range kwargs {
			name, _ := starlark.AsString(kv[0])
			got = append(got, name+"="+kv[1].String())
		}
		out := strings.Join(got, " ")
		if err != nil {
			e, _ := errors.AsType[*muru.Error](err)
			out = strings.TrimSuffix(e.Message+"\n"+e.Hint, "\n")
			if e.Kind != muru.KindUsage {
				t.Errorf("main(%s) %s: kind %v", tt.signature, tt.args, e.Kind)
			}
		}
		if out != tt.want {
			t.Errorf("main(%s) %s:\n got %s\nwant %s", tt.signature, tt.args, out, tt.want)
		}
		if err == nil {
			if _, callErr := starlark.Call(new(starlark.Thread), fn, args, kwargs); callErr != nil {
				t.Errorf("main(%s) %s: the call fails: %v", tt.signature, tt.args, callErr)
			}
		}
		if static := file.CheckArgs(words); (static == nil) != (err == nil) && !strings.Contains(tt.signature, "len") {
			t.Errorf("main(%s) %s: checked before execution: %v", tt.signature, tt.args, static)
		}
	}
}

func TestBadArgumentsAreFoundBeforeAnythingIsDone(t *testing.T) {
	s := newStage(t, map[string]string{
		"main.star":     "deploy('early')\ndef main(app, hold = '30s'):\n    deploy(app)\n",
		"computed.star": "LIMIT = '30' + 's'\ndef main(app, hold = LIMIT):\n    deploy(app + hold)\n",
		"nomain.star":   "deploy('shop')\n",
	})
	_, err := s.run("--hodl", "1m", "shop")
	if got, want := text(t, err), "main.star: unknown flag --hodl\nhint: did you mean --hold?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e, ok := errors.AsType[*muru.Error](err); !ok || e.Kind != muru.KindUsage {
		t.Errorf("not of kind usage: %v", err)
	}
	_, err = s.runFile(t.Context(), "nomain.star", "shop")
	if got, want := text(t, err), "nomain.star: takes no arguments: it defines no main"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(s.acted) > 0 {
		t.Errorf("acted: %v", s.acted)
	}
	if _, err := s.runFile(t.Context(), "computed.star", "shop", "--hold", "1m"); err != nil {
		t.Error(text(t, err))
	}
	if got := strings.Join(s.acted, ","); got != `deploy("shop1m",) at computed.star:3:5` && got != `deploy("shop1m") at computed.star:3:5` && !strings.Contains(got, "shop1m") {
		t.Errorf("acted: %v", got)
	}
}

func TestUsageIsMadeOfDocstringAndParameters(t *testing.T) {
	source := `"""Of the file."""
LIMIT = 3
def main(app, source, *, hold = "30s", steps = [10, 50], quick = False, shield = True, note = None, n = LIMIT, env = {}):
    """Deploys source as a new release of app.

    Traffic decides:
      - in steps
    """
    deploy(app)
`
	s := newStage(t, map[string]string{"canary.star": source})
	file, err := New(s.options).Open("canary.star")
	if err != nil {
		t.Fatal(text(t, err))
	}
	want := `usage: muru run canary.star APP SOURCE [--hold HOLD] [--steps STEPS] [--quick] [--no-shield] [--note NOTE] [--n N] [--env KEY=VALUE]

Deploys source as a new release of app.

Traffic decides:
  - in steps

  --hold HOLD      default: 30s
  --steps STEPS    by comma, default: 10,50
  --quick          default: --no-quick
  --no-shield      default: --shield
  --note NOTE      not set
  --n N
  --env KEY=VALUE  repeatable`
	if got := file.Usage(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for args, want := range map[string]bool{"--help": true, "shop -h": true, "shop": false, "-- --help": false} {
		if got := file.WantsHelp(strings.Fields(args)); got != want {
			t.Errorf("WantsHelp(%s) = %v", args, got)
		}
	}
	_, fn := mainOf(t, "app, n = 3")
	if got, want := Usage("f.star", fn), "usage: muru run f.star APP [--n N]\n\n  --n N  default: 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzArgs(f *testing.F) {
	for _, seed := range []string{"shop dir", "--hold\x001m\x00shop", "--no-quick", "--steps=1,2,,", "--env\x00a=b\x00--env\x00a=c", "--\x00--x", "-", "--=", "--no-", "-5\x00-x", "--share=999999999999999999999"} {
		f.Add(seed)
	}
	_, fn := mainOf(f, `app, source = None, *rest, share = 10, rate = 1.5, quick = False, steps = [10], mixed = [1, "a"], pair = (1, 2), env = {}, **more`)
	f.Fuzz(func(t *testing.T, line string) {
		args, kwargs, err := Args("f.star", fn, strings.Split(line, "\x00"))
		if err != nil {
			if muru.KindOf(err) != muru.KindUsage || err.Error() == "" {
				t.Errorf("%q: %+v", line, err)
			}
			return
		}
		if _, err := starlark.Call(new(starlark.Thread), fn, args, kwargs); err != nil {
			t.Errorf("%q: the call fails: %v", line, err)
		}
	})
}
