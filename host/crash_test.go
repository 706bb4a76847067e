package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muru"
)

func TestKilledWorkerTakesItsRequestsAndNoOthers(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Threads = 8 }))
	pid := h.Workers(shop)[0].PID
	calls, release := waiting(t, b, 8)
	eventually(t, "the application has all of them", func() bool {
		stacks, err := h.Stacks(t.Context(), shop, 0)
		has := 0
		for _, s := range stacks {
			if slices.ContainsFunc(s.Frames, func(f muru.Frame) bool { return f.Function == "wait_for" }) {
				has++
			}
		}
		return err == nil && has == 8
	})
	queued := begin(t.Context(), b, "/orders/1")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrWorkerDied) {
			t.Errorf("%+v, want ErrWorkerDied", a.Outcome)
		}
	}
	wantOK(t, queued.end(t))
	release()
	message := events.wait(t, muru.WorkerCrashed, "")
	next := h.Workers(shop)[0]
	if want := fmt.Sprintf("worker 0 (pid %d) died: signal SIGKILL; replaced by pid %d; last requests: /wait, /wait, /wait, /wait",
		pid, next.PID); message != want {
		t.Errorf("event %q, want %q", message, want)
	}
	if events.harmed(muru.HarmCrash) != 1 || next.Restarts != 1 {
		t.Errorf("%d crashes, %d restarts, want 1 and 1", events.harmed(muru.HarmCrash), next.Restarts)
	}
}

func TestLoadSurvivesKillsOfWorkers(t *testing.T) {
	h, events := newHost(t, Options{Backoff: 10 * time.Millisecond})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers, r.Threads = 2, 4 }))
	stop := make(chan struct{})
	type count struct{ ok, died, other int }
	counts := make(chan count)
	for range 8 {
		go func() {
			var c count
			for {
				select {
				case <-stop:
					counts <- c
					return
				default:
				}
				switch a := do(t.Context(), b, "/sleep?s=0.002"); {
				case a.Err == nil && a.text() == "slept":
					c.ok++
				case errors.Is(a.Err, muru.ErrWorkerDied):
					c.died++
				default:
					t.Errorf("%+v", a.Outcome)
					c.other++
				}
			}
		}()
	}
	for n := 1; n <= 3; n++ {
		<-time.After(100 * time.Millisecond)
		workers := h.Workers(shop)
		_ = syscall.Kill(workers[n%len(workers)].PID, syscall.SIGKILL)
		eventually(t, "the crash", func() bool { return len(events.of(muru.WorkerCrashed)) == n })
	}
	<-time.After(100 * time.Millisecond)
	close(stop)
	var all count
	for range 8 {
		c := <-counts
		all.ok, all.died = all.ok+c.ok, all.died+c.died
	}
	if all.died > 3*4 || all.ok < 100 {
		t.Errorf("%d requests died with 3 workers of 4 threads, %d were answered", all.died, all.ok)
	}
}

func TestExitIsACrashWithItsStatus(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	if a := do(t.Context(), b, "/die"); !errors.Is(a.Err, muru.ErrWorkerDied) || a.Worker != 0 {
		t.Errorf("%+v", a.Outcome)
	}
	events.wait(t, muru.WorkerCrashed, "died: exit status 3; replaced by pid")
	wantOK(t, do(t.Context(), b, "/"))
}

func TestWorkerThatTheKernelKilledForMemoryIsNamedForIt(t *testing.T) {
	h, events := newHost(t, Options{})
	var kills atomic.Int64
	kills.Store(7)
	h.oomKills = kills.Load
	b := start(t, h, python(t, one))
	for i, want := range []string{"out of memory", "signal SIGKILL", "signal SIGKILL", "out of memory"} {
		if want == "out of memory" {
			kills.Add(1)
		}
		pid := h.Workers(shop)[0].PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		events.wait(t, muru.WorkerCrashed, fmt.Sprintf("(pid %d) died: %s", pid, want))
		eventually(t, fmt.Sprintf("worker after %d deaths", i+1), func() bool { return h.Ready(shop) })
	}
	wantOK(t, do(t.Context(), b, "/"))
}

func TestKillsForMemoryAreCountedByTheControlGroup(t *testing.T) {
	files := oomFiles("4:memory:/user/7\n1:cpu:/\n0::/system.slice/muru.service\n")
	want := []string{
		"/sys/fs/cgroup/memory/user/7/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control",
		"/sys/fs/cgroup/system.slice/muru.service/memory.events", "/sys/fs/cgroup/memory.events",
	}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	for text, want := range map[string]int64{
		"low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\noom_group_kill 1\n": 3,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n":               12,
		"oom_kill x\n": 0,
		"":             0,
	} {
		if got := countOOM(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestCrashLoopBacksOff(t *testing.T) {
	h, events := newHost(t, Options{Backoff: 40 * time.Millisecond})
	b := start(t, h, python(t, func(r *muru.Release) { r.Threads = 1 }))
	for range 4 {
		do(t.Context(), b, "/die")
	}
	wantOK(t, do(t.Context(), b, "/"))
	var order []string
	events.mu.Lock()
	for _, e := range events.events {
		if e.Kind == muru.WorkerCrashed || e.Kind == muru.WorkerBackoff {
			order = append(order, strings.TrimPrefix(e.Kind, "worker."))
		}
	}
	events.mu.Unlock()
	if got := strings.Join(order, " "); got != "crashed crashed backoff crashed backoff crashed backoff" {
		t.Errorf("events %s: a death is told before its consequences", got)
	}
	messages := events.of(muru.WorkerBackoff)
	if len(messages) != 3 {
		t.Fatalf("%d worker.backoff events, want 3: %q", len(messages), messages)
	}
	for i, want := range []string{"next start in 40ms", "next start in 80ms", "next start in 160ms"} {
		if !strings.HasPrefix(messages[i], fmt.Sprintf("worker 0 died %d times in ", i+2)) || !strings.HasSuffix(messages[i], want) {
			t.Errorf("event %d: %q, want …%s", i, messages[i], want)
		}
	}
}

func TestBackoffDoublesToItsLimit(t *testing.T) {
	for _, c := range []struct {
		deaths int
		want   time.Duration
	}{
		{1, 0}, {2, 100 * time.Millisecond}, {3, 200 * time.Millisecond}, {8, 6400 * time.Millisecond},
		{9, 10 * time.Second}, {1000000, 10 * time.Second},
	} {
		if got := backoff(c.deaths, 100*time.Millisecond); got != c.want {
			t.Errorf("after %d deaths %v, want %v", c.deaths, got, c.want)
		}
	}
}

func TestWorkerThatBreaksTheProtocolIsReplaced(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/garbage/wire", "died: broke the protocol: "},
		{"/garbage/close", "died: broke the protocol: closed its connection in a request; replaced by pid"},
	} {
		t.Run(c.path, func(t *testing.T) {
			h, events := newHost(t, Options{})
			b := start(t, h, python(t, nil))
			if a := do(t.Context(), b, c.path); !errors.Is(a.Err, muru.ErrWorkerDied) {
				t.Errorf("%+v, want ErrWorkerDied", a.Outcome)
			}
			events.wait(t, muru.WorkerCrashed, c.want)
			wantOK(t, do(t.Context(), b, "/"))
			if events.harmed(muru.HarmCrash) != 1 {
				t.Error("the crash was not counted once")
			}
		})
	}
}

func TestSecondAnswerThatComesLateCostsNobodyAnything(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, one))
	wantOK(t, do(t.Context(), b, "/twice/first"))
	a := do(t.Context(), b, "/twice/next")
	wantOK(t, a)
	if a.text() != "own" {
		t.Errorf("body %q", a.text())
	}
	events.wait(t, muru.WorkerCrashed, "died: broke the protocol: answered a request twice")
	wantOK(t, do(t.Context(), b, "/"))
}

func TestExceptionIsTheApplicationsErrorAndInTheLog(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	a := do(t.Context(), b, "/fail")
	if !errors.Is(a.Err, muru.ErrApp) {
		t.Errorf("%+v, want ErrApp", a.Outcome)
	}
	eventually(t, "the traceback", func() bool {
		lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "ValueError: no mug"})
		return err == nil && len(lines) == 1
	})
	lines, _ := h.Logs(t.Context(), shop, muru.LogQuery{Request: a.x.ID})
	if len(lines) == 0 {
		t.Error("the request's id is not in the log")
	}
	if len(events.of(muru.WorkerCrashed)) != 0 {
		t.Error("an exception is no crash")
	}
}

// A machine that is short of memory takes long for a fork; the other workers
// answer meanwhile.
func TestRequestsAreAnsweredWhileAWorkerIsBeingStarted(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers = 2 }))
	held, starting := make(chan struct{}), make(chan struct{})
	h.startProcess = func(argv, env []string, dir string, out *os.File) (*process, error) {
		close(starting)
		<-held
		return startProcess(argv, env, dir, out)
	}
	do(t.Context(), b, "/die")
	<-starting
	wantOK(t, do(t.Context(), b, "/"))
	if n := len(h.Workers(shop)); n != 1 {
		t.Errorf("%d workers are described, want the one that runs", n)
	}
	close(held)
	events.wait(t, muru.WorkerCrashed, "replaced by pid")
	eventually(t, "the new one", func() bool { return len(h.Workers(shop)) == 2 })
}

func TestStopWaitsForAWorkerThatIsBeingStarted(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	held, starting := make(chan struct{}), make(chan struct{})
	started := make(chan *process, 1)
	h.startProcess = func(argv, env []string, dir string, out *os.File) (*process, error) {
		close(starting)
		<-held
		p, err := startProcess(argv, env, dir, out)
		started <- p
		return p, err
	}
	do(t.Context(), b, "/die")
	<-starting
	stopped := make(chan error, 1)
	go func() {
		_, err := h.Stop(t.Context(), shop)
		stopped <- err
	}()
	eventually(t, "the stop", func() bool {
		r := h.release(shop)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.ending
	})
	close(held)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if p := <-started; alive(p.pid) {
		t.Error("it runs on")
	}
}

// A worker that is stopped has the request in its socket, and has not read
// it when it dies: another one gets it.
func TestRequestThatAWorkerNeverReadIsGivenToAnother(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, one))
	pid := h.Workers(shop)[0].PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all its threads to stop", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			if text, _ := os.ReadFile(task); !strings.Contains(string(text), ") T ") {
				return false
			}
		}
		return len(tasks) > 0
	})
	c := begin(t.Context(), b, "/orders/1")
	inside(t, h, 1)
	<-time.After(50 * time.Millisecond)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantOK(t, c.end(t))
	events.wait(t, muru.WorkerCrashed, "died: signal SIGKILL")
}

func TestCloseCutsWhatIsInsideAndLeavesNothing(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, one))
	pid := h.Workers(shop)[0].PID
	calls := []*call{begin(t.Context(), b, "/order")}
	inside(t, h, 1)
	calls = append(calls, begin(t.Context(), b, "/"))
	queued(t, h, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		if a := c.end(t); !errors.Is(a.Err, muru.ErrDrainCut) {
			t.Errorf("%+v", a.Outcome)
		}
	}
	if alive(pid) || len(events.harms) != 0 {
		t.Errorf("alive %v, harms %v", alive(pid), events.harms)
	}
	if a := do(t.Context(), b, "/"); !errors.Is(a.Err, muru.ErrDraining) {
		t.Errorf("%+v", a.Outcome)
	}
	if _, err := h.Start(t.Context(), python(t, nil)); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("start: %v", err)
	}
}
