package builtins

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"muru"
)

func TestARecorderWritesWhatWasDoneAsARecipe(t *testing.T) {
	s := newStage(t)
	withSecrets(s, "hush")
	recorder := new(Recorder)
	s.set.env.Recorder = recorder
	session := s.runtime.NewSession()
	for _, input := range []string{
		"limit = 2",
		"def over(w):\n    return w.candidate.count() < limit\n",
		`r = deploy("shop", "shop/v6", hold = True, env = {"T": secret("TOKEN")})`,
		"gates = [gate('carts', check = lambda w: over(w) or 'fewer'), gate('p95', max = duration('250ms'))]",
		`canary(r, steps = [(10, "1h"), 50], gates = gates, wait = False)`,
		`status("shop")`,
		`abort(rollouts("shop")[-1].number, reason = "it is \"bad\"")`,
		`attempt(lambda: promote("shop@r77"))`,
		`for path in ["a", "b"]:` + "\n    write(path + '.txt', path)\n",
		`wait(lambda: sh("true").ok)`,
		`split("shop", {"r3": "10%"})`,
		`promote("shop@r3")`,
	} {
		if _, err := session.Eval(t.Context(), input); err != nil && !strings.Contains(input, "wait(lambda") {
			t.Fatalf("%s: %v", input, err)
		}
	}
	want := `limit = 2

def over(w):
    return w.candidate.count() < limit

def main():
    shop_r3 = deploy("shop", "shop/v6", hold = True, env = {"T": secret("TOKEN")})
    canary(shop_r3, steps = [(10, "1h"), 50], gates = [gate("carts", check = lambda w: over(w) or 'fewer'), gate("p95", max = "250ms")], wait = False)
    abort("shop", reason = "it is \"bad\"")
    write("a.txt", "a")
    write("b.txt", "b")
    split("shop", {shop_r3: "10%"})
    promote(shop_r3)
`
	if got := recorder.Source(); got != want || recorder.Calls() != 7 {
		t.Errorf("%d calls:\n%s\nwant\n%s", recorder.Calls(), got, want)
	}
	if _, err := s.runtime.Parse("saved.star", []byte(recorder.Source())); err != nil {
		t.Errorf("it does not check: %v", err)
	}
}

func TestNothingDoneIsNothingSaved(t *testing.T) {
	if got := new(Recorder).Source(); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestEachCallThatIsNotPureIsTold(t *testing.T) {
	s := newStage(t)
	var mu sync.Mutex
	var begun []string
	open := 0
	s.set.env.OnCall = func(name, about string) func() {
		mu.Lock()
		defer mu.Unlock()
		begun, open = append(begun, name+"("+about+")"), open+1
		return func() {
			mu.Lock()
			defer mu.Unlock()
			open--
		}
	}
	source := `def main():
    status(); gate("5xx"); releases(app = "shop"); probe(status("shop").held[0], "/", check = False)
    sh(["echo", "a b"]); attempt(lambda: sleep("never")); parallel([lambda: now()])
    events(limit = 1); stop(2)
`
	_, err := s.run(source)
	if err == nil {
		t.Error("stop(2) stops nothing")
	}
	want := []string{
		"status()", `releases("shop")`, `status("shop")`, `probe("shop@r2")`, `sh("echo a b")`, `sleep("never")`, "now()", "events()", "stop(2)",
	}
	if !slices.Equal(begun, want) || open != 0 {
		t.Errorf("%d open, told of %q, want %q", open, begun, want)
	}
}

// What cancels a run reaches callbacks, branches and modules alike.
func TestTheContextOfARunReachesCallbacksBranchesAndModules(t *testing.T) {
	for name, main := range map[string]string{
		"a callback": `attempt(lambda: sleep("1h"))`,
		"a branch":   `parallel([lambda: sleep("1h"), lambda: sleep("1h")])`,
		"a poll":     `wait(lambda: False, every = "1h")`,
		"a module":   `nap()`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.write("m.star", "def nap():\n    sleep(\"1h\")\n")
			asleep := make(chan struct{})
			var once sync.Once
			s.set.env.OnCall = func(string, string) func() {
				once.Do(func() { close(asleep) })
				return func() {}
			}
			file, err := s.runtime.Parse("main.star", []byte("load(\"m.star\", \"nap\")\ndef main():\n    "+main+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { _, err := file.Run(ctx, nil); done <- err }()
			<-asleep
			cancel(errTest)
			if err := <-done; muru.KindOf(err) != muru.KindCanceled || !errors.Is(err, errTest) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

var errTest = errors.New("the test ends it")
