package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
	"muru/control"
)

// nobody is a user that has nothing; tests that run as root become it.
const nobody = 65534

// asNobody makes a process run as another user, and from a copy of muru that
// this user can read.
func asNobody(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	path, err := exec.LookPath("muru")
	if err != nil {
		t.Fatal(err)
	}
	dir := visitortest.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(dir, "muru")
	// Written by another process: a child that a test beside this one starts
	// meanwhile would hold the file open, and the system runs none that is
	// written to.
	if out, err := exec.Command("cp", path, public).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(public, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0], cmd.Err = public, public, nil
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// refused starts a daemon that has to end by itself, with a status and a
// text; patterns may name the state directory as STATE.
func refused(t *testing.T, state string, on func(*exec.Cmd), status int, want string, args ...string) {
	t.Helper()
	p := startServe(t, state, on, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	got := p.status()
	pattern := `^` + strings.ReplaceAll(want, "STATE", regexp.QuoteMeta(state)) + `\n$`
	if got != status || !regexp.MustCompile(pattern).MatchString(p.printed()) {
		t.Errorf("status %d:\n%s\nwant %d: %s", got, p.printed(), status, pattern)
	}
	p.nothingLeft()
}

// deployed is a state directory in which shop@r1 serves once a daemon does.
func deployed(t *testing.T) (state string) {
	t.Helper()
	state = visitortest.ShortDir(t)
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	s.url()
	s.must("deploy", "shop", shopDir(t), "--workers", "1")
	s.stop(syscall.SIGTERM)
	return state
}

// serves starts a daemon on a state directory and checks that shop@r1 does.
func serves(t *testing.T, state string) {
	t.Helper()
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), s.url()+"/"); a.Body != "hello from shop@r1\n" {
		t.Errorf("it answers %+v:\n%s", a, s.printed())
	}
	s.stop(syscall.SIGTERM)
}

func TestSecondDaemonIsRefusedAndTheFirstServesOn(t *testing.T) {
	t.Parallel()
	state := visitortest.ShortDir(t)
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	url := s.url()
	s.must("deploy", "shop", shopDir(t), "--workers", "1")
	socket := filepath.Join(state, control.SocketName)

	p := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	if status := p.status(); status != 4 || p.printed() != "muru: "+state+" is in use by another muru\nhint: name another directory with --state\n" {
		t.Errorf("on the same state directory: status %d: %s", status, p.printed())
	}
	other := visitortest.ShortDir(t)
	refused(t, other, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "MURU_CONTROL="+socket) }, 4,
		`muru: another muru serves at `+regexp.QuoteMeta(socket)+`\nhint: stop it, or set MURU_CONTROL to another path`)
	p = startServe(t, other, nil, "--listen", strings.TrimPrefix(url, "http://"))
	if status := p.status(); status != 4 || !strings.HasSuffix(p.printed(), " is taken: another program listens there\nhint: stop it, or choose another address with --listen\n") {
		t.Errorf("on the same port: status %d: %s", status, p.printed())
	}
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), url+"/"); a.Body != "hello from shop@r1\n" {
		t.Errorf("then the first answers %+v", a)
	}
	s.stop(syscall.SIGTERM)
}

func TestDamagedStateFileIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	state := deployed(t)
	path := filepath.Join(state, "muru.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]struct {
		file []byte
		why  string
	}{
		"truncated":    {whole[:20_000], `it is cut off: \d+ pages of \d+ are there`},
		"a page lost":  {append(append(bytes.Clone(whole[:8192]), make([]byte, 8192)...), whole[16384:]...), `.+`},
		"another file": {[]byte(strings.Repeat("no state\n", 5000)), `it does not begin as a state file`},
	} {
		if err := os.WriteFile(path, damage.file, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, state, nil, 1, `muru: the state file STATE/muru\.db is damaged: `+damage.why+`\nhint: restore it from a backup or a snapshot, or move it away to start with an empty one; it was left as it is`)
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, damage.file) {
			t.Errorf("%s: it was changed (%v)", name, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	serves(t, state)
}

func TestPathThatIsTooLongForASocketIsSaidBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	state := deployed(t)
	long := "/tmp/" + strings.Repeat("long", 30)
	refused(t, state, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "MURU_CONTROL="+long) }, 2,
		fmt.Sprintf(`muru: the path of the control socket is too long: %d bytes, at most 107: %s\nhint: a shorter one: .*`, len(long), long))
	deep := filepath.Join(visitortest.ShortDir(t), strings.Repeat("deep", 30))
	refused(t, deep, nil, 2, `muru: the path of the state directory is too long: .* has \d+ bytes, and a socket's path at most \d+\nhint: choose a shorter --state`)
	out, errs, status := typed(t, control.NewClient(long, version), "status")
	if status != 2 || !strings.HasPrefix(errs, "muru: the path of the control socket is too long: ") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	serves(t, state)
}

func TestStateDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := visitortest.ShortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file, nil, 1, `muru: the state directory STATE cannot be used: not a directory\nhint: name one of your own with --state`)
	if os.Geteuid() != 0 {
		return // only root has another user to be
	}
	state := deployed(t)
	// The temporary directory itself must let others in.
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	refused(t, state, asNobody(t), 3, `muru: the state directory STATE cannot be used: permission denied\nhint: name one of your own with --state`)
	serves(t, state)
}

func TestWhoMayNotIsToldSo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root has another user to be
	}
	state := visitortest.ShortDir(t)
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	s.url()
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(state, control.SocketName)
	nobodys := asNobody(t)
	ask := func(args ...string) (string, int) {
		cmd := exec.Command("muru", args...)
		cmd.Env = append(os.Environ(), "MURU_CONTROL="+socket)
		nobodys(cmd)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	want := "muru: this user may not use the muru at " + socket + "\nhint: ask its owner, or have it served with --socket-group GROUP\n"
	for _, verb := range []string{"status", "gc", "runs"} {
		if out, status := ask(verb); status != 3 || out != want {
			t.Errorf("muru %s: status %d: %s", verb, status, out)
		}
	}
	s.stop(syscall.SIGTERM)

	s = startServe(t, state, nil, "--listen", "127.0.0.1:0", "--socket-group", fmt.Sprint(nobody))
	s.url()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if out, status := ask("app", "shop", "--hosts", "shop.example"); status != 0 {
		t.Errorf("of the group: status %d: %s", status, out)
	}
	events := s.must("events", "shop", "--json")
	if !regexp.MustCompile(`"by":"(nobody|uid 65534)"`).MatchString(events) {
		t.Errorf("the events do not say who: %s", events)
	}
	s.stop(syscall.SIGTERM)
	refused(t, state, nil, 2, `muru: there is no group "nosuchgroup"\nhint: .*`, "--socket-group", "nosuchgroup")
}

// A signal is no failure, whenever it comes, and what served serves next time.
func TestSignalDuringTheStartLosesNothing(t *testing.T) {
	t.Parallel()
	state := deployed(t)
	for _, wait := range []time.Duration{0, 30, 60, 90, 120, 200} {
		s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
		if !visitortest.Within(5*time.Second, func() bool { return isStarting(state) }) {
			t.Fatal("it does not start")
		}
		<-time.After(wait * time.Millisecond) // where it is then nobody can see from outside
		s.stop(syscall.SIGTERM)
	}
	serves(t, state)
}

// isStarting reports whether a daemon has opened its state directory.
func isStarting(state string) bool {
	_, err := os.Lstat(filepath.Join(state, "host.sock"))
	return err == nil
}
