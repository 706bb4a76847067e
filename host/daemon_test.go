package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru"
)

// What the daemon helper is told.
const (
	daemonState = "MURU_HOST_TEST_STATE"
	daemonKind  = "MURU_HOST_TEST_KIND"
)

// runDaemon starts a release, prints its worker's pid and waits to be killed.
func runDaemon() {
	h := New(Options{StateDir: os.Getenv(daemonState), Reporter: &recorder{}, Orphan: 1500 * time.Millisecond})
	if err := h.Open(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r := muru.Release{ID: shop, ReleasePlan: muru.ReleasePlan{
		Kind: muru.Python, Source: "testdata/app", Entry: "app:application", Workers: 1, Threads: 2,
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
	}}
	if os.Getenv(daemonKind) == "command" {
		r.Kind, r.Command, r.Env = muru.Command, httpServer, map[string]string{helperKey: "http"}
	}
	b, err := h.Start(context.Background(), r)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if r.Kind == muru.Python {
		go do(context.Background(), b, "/tick")
	}
	fmt.Println("pid", h.Workers(shop)[0].PID)
	select {}
}

// startDaemon starts the helper and returns it and its worker's pid.
func startDaemon(t *testing.T, state, kind string) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), helperKey+"=daemon", daemonState+"="+state, daemonKind+"="+kind)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	if err != nil || !ok {
		t.Fatalf("the daemon said %q, %v", line, err)
	}
	n := atoi(t, pid)
	t.Cleanup(func() { _ = syscall.Kill(-n, syscall.SIGKILL) })
	return cmd, n
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestWorkerOutlivesItsDaemonPrintsOnAndEndsByItself(t *testing.T) {
	state := shortDir(t)
	cmd, pid := startDaemon(t, state, "python")
	out := filepath.Join(state, "run", "shop-r6", "0", "out")
	ticks := func() int {
		text, _ := os.ReadFile(out)
		return strings.Count(string(text), "tick")
	}
	eventually(t, "its prints", func() bool { return ticks() > 0 })
	kill(t, cmd)
	at := ticks()
	eventually(t, "it prints on", func() bool { return ticks() > at+5 })
	if !alive(pid) {
		t.Fatal("it died with its daemon")
	}
	eventually(t, "its end", func() bool { return !alive(pid) })
	text, err := os.ReadFile(out)
	if err != nil || strings.Contains(string(text), "Error") || !strings.Contains(string(text), "no daemon came") {
		t.Errorf("it printed %.300q, %v", text, err)
	}
}

func TestNextDaemonEndsTheWorkersOfAKilledOne(t *testing.T) {
	for _, kind := range []string{"python", "command"} {
		t.Run(kind, func(t *testing.T) {
			state := shortDir(t)
			cmd, pid := startDaemon(t, state, kind)
			kill(t, cmd)
			if !alive(pid) {
				t.Fatal("it died with its daemon")
			}
			newHost(t, Options{StateDir: state})
			eventually(t, "its end", func() bool { return !alive(pid) })
		})
	}
}
