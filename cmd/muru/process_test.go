package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

// A process is a muru that a test started.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex // guards what follows
	out   bytes.Buffer
	lines chan struct{} // closed at the end of the output
}

// startMuru starts muru run with a recipe, in a directory of its own.
func startMuru(t *testing.T, recipe string, flags ...string) *process {
	t.Helper()
	dir := visitortest.ShortDir(t)
	apps, err := filepath.Abs("testdata/apps")
	if err != nil {
		t.Fatal(err)
	}
	recipe = strings.NewReplacer("SHOP", strconv.Quote(apps+"/shop"), "BROKEN", strconv.Quote(apps+"/broken")).Replace(recipe)
	if err := os.WriteFile(filepath.Join(dir, "r.star"), []byte(recipe), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--listen", "127.0.0.1:0"}, flags...)
	p := &process{t: t, cmd: exec.Command("muru", append(args, "r.star")...), lines: make(chan struct{})}
	p.cmd.Dir = dir
	p.start()
	return p
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// waitFor waits until it has printed what matches, and returns the first
// group.
func (p *process) waitFor(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	if !visitortest.Within(20*time.Second, func() bool { found = re.FindStringSubmatch(p.printed()); return found != nil }) {
		p.t.Fatalf("it does not print %s:\n%s", pattern, p.printed())
	}
	return found[len(found)-1]
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// status waits for its end and returns its exit status, -1 for a signal's.
func (p *process) status() int {
	p.t.Helper()
	ended := make(chan error, 1)
	go func() { <-p.lines; ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			p.t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("it does not end:\n%s", p.printed())
	}
	return p.cmd.ProcessState.ExitCode()
}

// pids reads the numbers that follow "pids".
func (p *process) pids() []int {
	p.t.Helper()
	var pids []int
	for field := range strings.FieldsSeq(p.waitFor(`(?m)^pids (.*)$`)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			p.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// gone checks that processes have ended.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("worker %d is still there", pid)
		}
	}
}

const serveAndTry = `
def main():
    deploy("shop", SHOP)
    r = deploy("shop", SHOP, hold = True)
    print("pids " + " ".join([str(w.pid) for w in workers()]))
    print("url " + status("shop").url)
    traffic("shop", clients = 2, wait = False, duration = "1h")
    canary(r, hold = "1h")
`

func TestInterruptedRunCleansUpAndLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := startMuru(t, serveAndTry)
	pids := p.pids()
	p.waitFor(`rollout 1 of shop@r2 started`)
	asked := time.Now()
	p.signal(syscall.SIGINT)
	if status := p.status(); status != 130 {
		t.Errorf("status %d", status)
	}
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	gone(t, pids)
	if !strings.HasSuffix(p.printed(), "\nmuru: r.star:8:5: canceled: interrupted by SIGINT\n  at r.star:8:5 in main\n") {
		t.Errorf("it says:\n%s", p.printed())
	}
}

func TestRunToldToServeServesUntilItIsTold(t *testing.T) {
	t.Parallel()
	p := startMuru(t, `
deploy("shop", SHOP, workers = 1)
print("pids " + " ".join([str(w.pid) for w in workers()]))
`, "--serve")
	pids := p.pids()
	url := p.waitFor(`muru: serving on (http://127.0.0.1:\d+) until interrupted`)
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), url+"/"); a.Body != "hello from shop@r1\n" {
		t.Errorf("answered %+v", a)
	}
	late := make(chan visitortest.Answer)
	go func() { late <- visitortest.Visit(t.Context(), visitortest.NewClient(), url+"/slow?0.5") }()
	if !visitortest.Within(5*time.Second, func() bool {
		return strings.Contains(visitortest.Visit(t.Context(), visitortest.NewClient(), url+"/inside").Body, "1")
	}) {
		t.Error("the slow request is not in the worker")
	}
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d:\n%s", status, p.printed())
	}
	if a := <-late; a.Body != "hello from shop@r1\n" {
		t.Errorf("the request that was being answered got %+v", a)
	}
	gone(t, pids)
}

func TestWhateverARunWaitsForAnInterruptEndsIt(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"a release that hangs": `deploy("shop", BROKEN, entry = "hangs:application")`,
		"a command":            `sh("sleep 3600")`,
		"a sleep":              `sleep("1h")`,
		"traffic":              `traffic("shop", duration = "1h")`,
		"an answer":            `probe("shop@r1", "/never", within = "1h")`,
		"branches":             `parallel([lambda: sleep("1h"), lambda: sh("sleep 3600")])`,
		"a computation":        `sorted([x * y for x in range(100000) for y in range(100000)])`,
		"a poll":               `wait(lambda: False, every = "1h")`,
		"an observation":       `observe("shop@r1", hold = "1h")`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startMuru(t, `
def main():
    deploy("shop", SHOP, workers = 1)
    print("pids " + " ".join([str(w.pid) for w in workers()]))
    `+call+`
    print("not reached")
`)
			pids := p.pids()
			// Where it is now nobody can see from outside; wherever, it ends.
			<-time.After(200 * time.Millisecond)
			asked := time.Now()
			p.signal(syscall.SIGINT)
			if status := p.status(); status != 130 || !strings.Contains(p.printed(), "interrupted by SIGINT") || strings.Contains(p.printed(), "not reached") {
				t.Errorf("status %d:\n%s", status, p.printed())
			}
			if took := time.Since(asked); took > 15*time.Second { // a worker that does not end has 5 seconds
				t.Errorf("it took %v", took)
			}
			gone(t, pids)
		})
	}
}

// The workers of a killed muru print on into their files.
func TestWorkersOfAKilledRunPrintOn(t *testing.T) {
	t.Parallel()
	state := visitortest.ShortDir(t)
	p := startMuru(t, `
deploy("shop", SHOP, workers = 1, env = {"TICK": "yes"})
print("pids " + " ".join([str(w.pid) for w in workers()]))
`, "--serve", "--state", state)
	pid := p.pids()[0]
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	p.waitFor(`serving on`)
	p.signal(syscall.SIGKILL)
	if status := p.status(); status != -1 {
		t.Errorf("status %d", status)
	}
	out, err := filepath.Glob(filepath.Join(state, "run", "*", "*", "out"))
	if err != nil || len(out) != 1 {
		t.Fatalf("%q, %v", out, err)
	}
	size := func() int64 {
		info, err := os.Stat(out[0])
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if !visitortest.Within(5*time.Second, func() bool { return size() > before+20 }) {
		t.Error("it does not print on")
	}
	if syscall.Kill(pid, 0) != nil {
		t.Error("it is gone at once")
	}
	text, err := os.ReadFile(out[0])
	if err != nil || regexp.MustCompile(`Error|Traceback`).Match(text) {
		t.Errorf("%v: %s", err, text)
	}
}

// start starts the process, keeps what it prints, and ends it with the test.
func (p *process) start() {
	p.t.Helper()
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(pipe); scan.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.out, scan.Text())
			p.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
}

func TestTrafficThatIsInterruptedSaysWhatItCounted(t *testing.T) {
	t.Parallel()
	stage := serveStage(t)
	p := &process{t: t, cmd: exec.Command("muru", "traffic", "shop", "--duration", "1h"), lines: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "MURU_CONTROL="+stage.socket)
	p.start()
	if !visitortest.Within(10*time.Second, func() bool {
		served := stage.value(`any([w.served > 3 for w in workers("shop")])`)
		return served == "True"
	}) {
		t.Fatal("no request arrives")
	}
	p.signal(os.Interrupt)
	if status := p.status(); status != 130 {
		t.Errorf("status %d", status)
	}
	want := `^interrupted at traffic\("shop"\) after [\d.]+ m?s\nmuru: \d+ requests in [\d.]+ m?s: \{200: [1-9]\d*\}\n$`
	if !regexp.MustCompile(want).MatchString(p.printed()) {
		t.Errorf("it says\n%s", p.printed())
	}
}
