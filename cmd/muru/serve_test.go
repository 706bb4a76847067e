package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muru/cmd/muru/visitortest"
	"muru/control"
)

// A served is a `muru serve` that a test started on a state directory.
type served struct {
	*process
	state string
}

// startServe starts muru serve with some flags; on is nil, or changes how the
// process is started.
func startServe(t *testing.T, state string, on func(*exec.Cmd), args ...string) *served {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("muru", append([]string{"serve", "--state", state}, args...)...), lines: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "MURU_CONTROL=")
	if on != nil {
		on(p.cmd)
	}
	p.start()
	return &served{p, state}
}

// url waits until it serves and returns where.
func (s *served) url() string {
	s.t.Helper()
	return s.waitFor(`muru: serving on (http://\S+), control at `)
}

func (s *served) client() *control.Client {
	return control.NewClient(filepath.Join(s.state, control.SocketName), version)
}

// must types a verb, which has to succeed, and returns what it prints.
func (s *served) must(args ...string) string {
	s.t.Helper()
	out, errs, status := typed(s.t, s.client(), args...)
	if status != 0 {
		s.t.Fatalf("muru %s: status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// call evaluates an expression and returns its value for programs.
func (s *served) call(source string) json.RawMessage {
	s.t.Helper()
	var value json.RawMessage
	err := s.client().Call(s.t.Context(), control.Call{Source: source}, func(m control.Message) {
		if m.Kind == control.KindValue {
			value = m.Value
		}
	})
	if err != nil {
		s.t.Fatal(control.ErrorText(err))
	}
	return value
}

// stop ends it with a signal, which is no failure.
func (s *served) stop(sig os.Signal) {
	s.t.Helper()
	s.signal(sig)
	if status := s.status(); status != 0 {
		s.t.Errorf("status %d after %v:\n%s", status, sig, s.printed())
	}
	s.nothingLeft()
}

// nothingLeft checks that no process is left that knows the state directory.
func (s *served) nothingLeft() {
	s.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), s.state) {
			s.t.Errorf("%s is left: %q", path, text)
		}
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// lasting is what of a state has to be the same after a restart.
func lasting(t *testing.T, c control.Muru) string {
	t.Helper()
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]any{"apps": state.Apps, "releases": state.Releases, "rollouts": state.Rollouts}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func shopDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/apps/shop")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDaemonStoppedUnderLoadComesBackAsItWas(t *testing.T) {
	t.Parallel()
	state, address := visitortest.ShortDir(t), freeAddress(t)
	s := startServe(t, state, nil, "--listen", address)
	url := s.url()
	shop := shopDir(t)
	for range 2 {
		s.must("deploy", "shop", shop, "--workers", "1") // r1 is warm then
	}
	s.must("deploy", "shop", shop, "--workers", "1", "--hold")
	s.must("deploy", "shop", shop, "--workers", "1", "--hold")
	s.must("rollout", "canary", "shop@r4", "--steps", "50", "--hold", "1h")
	pids := pidsOf(t, s)
	if len(pids) != 4 {
		t.Errorf("the workers are %v", pids)
	}
	before := lasting(t, s.client())

	v := visitortest.Come(t, url+"/slow?0.02", 8, 0, 20*time.Second)
	seenBoth := func() bool { return v.Seen("200 hello from shop@r2\n") > 20 && v.Seen("200 hello from shop@r4\n") > 20 }
	if !visitortest.Within(10*time.Second, seenBoth) {
		t.Fatal("the visitors do not see both releases")
	}
	s.stop(syscall.SIGTERM)
	gone(t, pids)
	v.WantOnlyAnswersOf(t, "shop@r2", "shop@r4")

	s = startServe(t, state, nil, "--listen", address)
	s.url()
	r := func() string { return lasting(t, s.client()) }
	if !visitortest.Within(10*time.Second, func() bool { return r() == before }) {
		t.Errorf("after the restart (-before +after):\n%s", cmp.Diff(before, r()))
	}
	v = visitortest.Come(t, url+"/", 8, 0, 20*time.Second)
	if !visitortest.Within(10*time.Second, seenBoth) {
		t.Error("the live rollout does not go on")
	}
	v.WantOnlyAnswersOf(t, "shop@r2", "shop@r4")
	for _, held := range []string{"r3", "r1"} { // held and warm ones answer previews
		var a visitortest.Answer
		if !visitortest.Within(10*time.Second, func() bool { // they start behind what serves
			a = visitortest.Visit(t.Context(), visitortest.NewClient(), url+"/", "Muru-Preview: "+held)
			return a.Body == "hello from shop@"+held+"\n"
		}) {
			t.Errorf("a preview of %s gets %+v", held, a)
		}
	}
	restored := s.must("events", "shop", "--kind", "rollout.*")
	if !regexp.MustCompile(`rollout\.restored    shop@r4 rollout 1 goes on after a restart: step 1 of 1: 50% for 1h, .* of 1h served\n$`).MatchString(restored) {
		t.Errorf("the events are\n%s", restored)
	}
	again := pidsOf(t, s)
	s.must("rollout", "abort", "shop")
	s.stop(syscall.SIGINT)
	gone(t, again)
}

// pidsOf returns the processes of all workers.
func pidsOf(t *testing.T, s *served) []int {
	t.Helper()
	var workers []struct{ PID int }
	if err := json.Unmarshal([]byte(s.must("workers", "--json")), &workers); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, w := range workers {
		pids = append(pids, w.PID)
	}
	return pids
}
