package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"
)

// writeSite writes a site's file; SHOP in it is the directory of a release.
func writeSite(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(visitortest.ShortDir(t), "site.star")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "SHOP", `"`+shopDir(t)+`"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSiteFileDeclaresWhatIsServedAtEveryStart(t *testing.T) {
	t.Parallel()
	one, two := freeAddress(t), freeAddress(t)
	site := writeSite(t, `
listen("`+one+`")
listen("`+two+`", trusted_proxies = ["127.0.0.1"])
app("shop", health = "/up", sticky = "10m")
deploy("shop", SHOP, workers = 1, env = {"A": "b"}, timeouts = {"hard": "1m"})
print(str(status("shop").baseline))
`)
	state := visitortest.ShortDir(t)
	for start := range 3 {
		s := startServe(t, state, nil, "--listen", "127.0.0.1:1", site) // which the site overrides
		if got := s.url(); got != "http://"+one {
			t.Errorf("it serves on %s", got)
		}
		want := "shop@r1\nmuru: serving on "
		if start == 0 {
			want = "muru: release shop@r1 is ready and serving: 100% of shop\n" + want
		}
		if !strings.HasPrefix(s.printed(), want) {
			t.Errorf("start %d says\n%s", start, s.printed())
		}
		for _, address := range []string{one, two} {
			if a := visitortest.Visit(t.Context(), visitortest.NewClient(), "http://"+address+"/"); a.Body != "hello from shop@r1\n" {
				t.Errorf("%s answers %+v", address, a)
			}
		}
		if out := s.must("releases"); strings.Count(out, "\n") != 2 {
			t.Errorf("start %d:\n%s", start, out)
		}
		if url := string(s.call(`status("shop").url`)); url != `"http://`+one+`/"` {
			t.Errorf("the app is at %s", url)
		}
		s.stop(syscall.SIGTERM)
	}
}

func TestSiteFileThatFailsEndsTheDaemon(t *testing.T) {
	t.Parallel()
	state := deployed(t)
	at := func(text string) string { return regexp.QuoteMeta(writeSite(t, text)) }
	for _, c := range []struct {
		name, text string
		status     int
		want       string // begins with the file's path
	}{
		{"fails", `fail("no luck")`, 1, `:1:1: no luck\n  at .*`},
		{"refused", "listen(\"127.0.0.1:1\")\nlisten(\"127.0.0.1:1\")", 1, `:2:1: listen: 127\.0\.0\.1:1 is declared already\n  at .*`},
		{"no syntax", "listen(", 2, `:1:8: .*`},
		{"no such builtin", "lissen()", 2, `:1:1: .*\nhint: did you mean listen\?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := at(c.text)
			refused(t, state, nil, c.status, `muru: `+site+c.want, strings.ReplaceAll(site, `\`, ""))
		})
	}
	refused(t, state, nil, 3, `muru: /nowhere/site\.star: no such file`, "/nowhere/site.star")
	serves(t, state)
}

func TestSystemdIsToldWhenItServesAndWhenItStops(t *testing.T) {
	t.Parallel()
	path := filepath.Join(visitortest.ShortDir(t), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	told := func() string {
		t.Helper()
		if err := systemd.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 4096)
		n, err := systemd.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
	state, address := visitortest.ShortDir(t), freeAddress(t)
	s := startServe(t, state, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+path) }, "--listen", address)
	if got := told(); got != "STATUS=starting what served before" {
		t.Errorf("first %q", got)
	}
	if got := told(); got != "READY=1\nSTATUS=serving on "+address {
		t.Errorf("then %q", got)
	}
	s.must("status") // READY means: ask
	s.signal(syscall.SIGTERM)
	if got := told(); got != "STOPPING=1" {
		t.Errorf("last %q", got)
	}
	if status := s.status(); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestSocketElsewhereIsFoundByItsNameAndByTheStateDirectory(t *testing.T) {
	t.Parallel()
	state, socket := visitortest.ShortDir(t), filepath.Join(visitortest.ShortDir(t), "c")
	elsewhere := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "MURU_CONTROL="+socket) }
	s := startServe(t, state, elsewhere, "--listen", "127.0.0.1:0")
	s.url()
	if !strings.HasSuffix(s.printed(), "control at "+socket+"\n") {
		t.Errorf("it says %s", s.printed())
	}
	s.must("status") // through the state directory
	cmd := exec.Command("muru", "status")
	elsewhere(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// Killed, it leaves both; the next one, with its socket in the state
	// directory, is not confused.
	s.signal(syscall.SIGKILL)
	s.status()
	s = startServe(t, state, nil, "--listen", "127.0.0.1:0")
	s.url()
	s.must("status")
	s.signal(syscall.SIGKILL)
	s.status()
	s = startServe(t, state, elsewhere, "--listen", "127.0.0.1:0")
	s.url()
	s.must("status")
	s.stop(syscall.SIGTERM)
	if _, err := os.Lstat(filepath.Join(state, "muru.sock")); err == nil {
		t.Error("what led to the socket is left")
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left")
	}
}
