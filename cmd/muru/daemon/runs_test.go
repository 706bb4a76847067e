package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/control"
	"muru/rollout"
	"muru/rollout/rollouttest"
	"muru/store"
)

func writeRecipe(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "r.star"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, r *Runner, text string, args ...string) int {
	t.Helper()
	n, err := r.StartRun(asAna(t), control.Run{File: "r.star", Args: args, Dir: writeRecipe(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARunIsAttachedFromItsBeginning(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, "def main(what):\n    print(what)\n    fail('no')\n", "hello")
	for range 2 {
		h := new(heard)
		err := r.Attach(t.Context(), n, h.out)
		if got := control.ErrorText(err); !strings.Contains(got, "r.star:3:5: no") {
			t.Errorf("ended with %q", got)
		}
		wantLines(t, h.lines(), "print hello")
	}
	info := must(r.Runs(t.Context()))[0]
	if info.State != control.RunFailed || info.By != "ana" || info.Ended == nil || info.Error != "r.star:3:5: no" {
		t.Errorf("info %+v", info)
	}
	events := r.o.Engine.Events(rollout.EventQuery{Run: n})
	if len(events) != 2 || events[0].Message != "r.star hello by ana" || events[1].Kind != muru.RunFailed {
		t.Errorf("events %v", events)
	}
	if err := r.Attach(t.Context(), 99, func(control.Message) {}); muru.KindOf(err) != muru.KindNotFound {
		t.Errorf("no such run: %v", err)
	}
}

func TestARunThatDoesNotCheckStartsNothing(t *testing.T) {
	r := newTestRunner(t)
	for _, q := range []control.Run{
		{File: "none.star", Dir: "/tmp"},
		{File: "r.star", Dir: writeRecipe(t, "def main(:\n")},
		{File: "r.star", Dir: writeRecipe(t, "def main():\n    pass\n"), Args: []string{"--what"}},
		{File: "r.star", Dir: writeRecipe(t, "def main():\n    pass\n"), Args: []string{"--help"}},
	} {
		if _, err := r.StartRun(asAna(t), q); err == nil {
			t.Errorf("%+v was started", q)
		}
	}
	if runs := must(r.Runs(t.Context())); len(runs) > 0 {
		t.Errorf("runs %v", runs)
	}
}

func TestCancellingARunAbortsItsRollout(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h")`)
	visitortest.Eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if err := r.CancelRun(control.WithCaller(t.Context(), "bob"), n); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); ro.State != muru.Aborted {
		t.Errorf("the rollout is %s", ro.State)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); !strings.Contains(err.Error(), "cancelled by bob") {
		t.Errorf("ended with %v", err)
	}
	if e := r.o.Engine.Events(rollout.EventQuery{Kind: muru.RunCancelled}); len(e) != 1 || e[0].By != "bob" || e[0].Message != "by bob; aborted rollout 1" {
		t.Errorf("the event is %v", e)
	}
	if info := must(r.Runs(t.Context()))[0]; info.State != control.RunCancelled {
		t.Errorf("info %+v", info)
	}
	if err := r.CancelRun(t.Context(), n); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestARunEndsAfterTheRolloutsItStarted(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h", wait = False)`)
	visitortest.Eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if info := must(r.Runs(t.Context()))[0]; info.State != control.RunRunning {
		t.Errorf("info %+v", info)
	}
	if _, _, err := r.o.Engine.Abort(t.Context(), rollout.RolloutRequest{Rollout: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWhatEndsWithTheDaemonLeavesItsRollouts(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, `def main(): canary("shop@r2", hold = "1h")`)
	visitortest.Eventually(t, "the rollout is live", func() bool {
		ro, err := r.o.Engine.Rollout(1)
		return err == nil && ro.Live()
	})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ro := must(r.o.Engine.Rollout(1)); !ro.Live() {
		t.Errorf("the rollout is %s", ro.State)
	}
	if err := r.Attach(t.Context(), n, func(control.Message) {}); !errors.Is(err, control.ErrStopping) {
		t.Errorf("ended with %v", err)
	}
	if _, err := r.StartRun(asAna(t), control.Run{File: "r.star", Dir: writeRecipe(t, "print(1)")}); !errors.Is(err, control.ErrStopping) {
		t.Errorf("started after the end: %v", err)
	}
}

func TestOutputOfARunIsBounded(t *testing.T) {
	r := newTestRunner(t)
	n := start(t, r, "def main():\n    for i in range(5000):\n        print(i)\n")
	visitortest.Eventually(t, "it ended", func() bool { return must(r.Runs(t.Context()))[0].Ended != nil })
	h := new(heard)
	if err := r.Attach(t.Context(), n, h.out); err != nil {
		t.Fatal(err)
	}
	lines := h.lines()
	if len(lines) != messagesKept+1 || !strings.Contains(lines[0], "is not kept") || lines[len(lines)-1] != "print 4999" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

// A recipe that builds a huge list is stopped with its line, while another
// goes on. (Users of Starlark tools ask for this: memory cannot be limited.)
func TestAHugeListIsStoppedWhileAnotherRunGoesOn(t *testing.T) {
	r := newTestRunner(t)
	r.o.Limits.Memory = 32 << 20
	other := start(t, r, "def main():\n    sleep(\"300ms\")\n    print(status(\"shop\").name)\n")
	n := start(t, r, "def main():\n    l = []\n    for i in range(1000000000):\n        l.append(\"%d\" % i)\n")
	err := r.Attach(t.Context(), n, func(control.Message) {})
	if muru.KindOf(err) != muru.KindBudget || !strings.Contains(control.ErrorText(err), "r.star:") {
		t.Errorf("ended with %v", err)
	}
	h := new(heard)
	if err := r.Attach(t.Context(), other, h.out); err != nil || !slices.Contains(h.lines(), "print shop") {
		t.Errorf("the other run: %v, %q", err, h.lines())
	}
	runtime.GC() // the next test's watchdog must not see this one's heap
}

func TestTheCallerOfARunIsKnownInBranchesAndModules(t *testing.T) {
	r := newTestRunner(t)
	dir := writeRecipe(t, "load(\"m.star\", \"act\")\ndef main():\n    parallel([lambda: attempt(lambda: act())])\n")
	if err := os.WriteFile(filepath.Join(dir, "m.star"), []byte("def act():\n    promote(\"shop@r2\")\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := must(r.StartRun(asAna(t), control.Run{File: "r.star", Dir: dir}))
	if err := r.Attach(t.Context(), n, func(control.Message) {}); err != nil {
		t.Fatal(err)
	}
	events := r.o.Engine.Events(rollout.EventQuery{Kind: muru.ReleasePromoted})
	if e := events[len(events)-1]; e.By != "run 1" {
		t.Errorf("by %q", e.By)
	}
}

func TestMoreRunsThanAreGoodForAnybodyAreRefused(t *testing.T) {
	r := newTestRunner(t)
	dir := writeRecipe(t, "sleep(\"1h\")\n")
	begin := func() (int, error) { return r.StartRun(asAna(t), control.Run{File: "r.star", Dir: dir}) }
	last := 0
	for range runsAtOnce {
		n, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	_, err := begin()
	if want := "256 runs go on already\nhint: muru runs lists them, muru cancel N ends one"; err == nil || control.ErrorText(err) != want || muru.KindOf(err) != muru.KindRefused {
		t.Errorf("one more: %v", err)
	}
	if err := r.CancelRun(asAna(t), last); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(); err != nil {
		t.Errorf("when one has ended: %v", err)
	}
}

// hangingStore is a disk that hangs while hung has something to wait for.
type hangingStore struct {
	store.Store
	hung  atomic.Pointer[chan struct{}]
	waits atomic.Int32 // writes that were asked of it then
}

func (s *hangingStore) Txn(ctx context.Context, cmps []store.Cmp, then, els []store.Op) (store.TxnResult, error) {
	if hung := s.hung.Load(); hung != nil {
		s.waits.Add(1)
		<-*hung
	}
	return s.Store.Txn(ctx, cmps, then, els)
}

func TestARunThatWaitsForTheDiskHoldsUpNoCall(t *testing.T) {
	bolt, err := store.Open(filepath.Join(t.TempDir(), "muru.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	disk := &hangingStore{Store: bolt}
	log, err := rollout.OpenLog(t.Context(), disk, rollout.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	engine := rollout.New(rollout.Options{Edge: &rollouttest.Edge{Now: time.Now}, Host: new(rollouttest.Host), Log: log})
	r := NewRunner(RunnerOptions{Engine: engine, Events: log})
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(r.Close(ctx), engine.Close(ctx), log.Close(ctx)); err != nil {
			t.Error(err)
		}
	}()
	mended := make(chan struct{})
	disk.hung.Store(&mended)
	begun := make(chan error, 1)
	go func() {
		_, err := r.StartRun(asAna(t), control.Run{File: "r.star", Dir: writeRecipe(t, "print(1)\n")})
		begun <- err
	}()
	visitortest.Eventually(t, "the run begins", func() bool { return len(r.beginning) == 1 && disk.waits.Load() > 0 })

	h := new(heard)
	if err := r.Call(asAna(t), control.Call{Source: "1 + 1", Dir: t.TempDir()}, h.out); err != nil {
		t.Error(err)
	}
	wantLines(t, h.lines(control.KindValue), "value 2")
	disk.hung.Store(nil)
	close(mended)
	if err := <-begun; err != nil {
		t.Error(err)
	}
}
