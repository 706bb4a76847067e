package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"muru/cmd/muru/visitortest"
)

// A tightDisk is a place for a state directory that can be filled up.
type tightDisk struct {
	state string
	on    func(*exec.Cmd) // how a daemon on it is started
	fill  func()          // leaves no room
	clear func()          // makes some
}

// newTightDisk returns a small file system, or, for who may not mount one, a
// limit on the size of the daemon's files, which changes then have to reach.
func newTightDisk(t *testing.T) tightDisk {
	t.Helper()
	dir := visitortest.ShortDir(t)
	err := unix.Mount("none", dir, "tmpfs", 0, "size=3m")
	if errors.Is(err, unix.EPERM) {
		limited := func(cmd *exec.Cmd) {
			cmd.Args = append([]string{"sh", "-c", `ulimit -S -f 2400; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
			cmd.Path = "/bin/sh"
		}
		return tightDisk{state: dir, on: limited, fill: func() {}, clear: func() {}}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	return tightDisk{
		state: filepath.Join(dir, "s"),
		fill: func() {
			f, err := os.Create(ballast)
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			f.Close()
		},
		clear: func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestFullDiskRefusesChangesAndTrafficGoesOn(t *testing.T) {
	t.Parallel()
	disk, address := newTightDisk(t), freeAddress(t)
	s := startServe(t, disk.state, disk.on, "--listen", address)
	url := s.url()
	s.must("deploy", "shop", shopDir(t), "--workers", "1")
	s.must("deploy", "shop", shopDir(t), "--workers", "1", "--hold")
	disk.fill()

	v := visitortest.Come(t, url+"/", 4, 0, 20*time.Second)
	before, said, status, share := "", "", 0, 10
	if !visitortest.Within(60*time.Second, func() bool { // what fits into the file as it is still fits
		before = lasting(t, s.client())
		share = 21 - share
		_, said, status = typed(t, s.client(), "split", "shop", fmt.Sprintf("r2=%d", share))
		return status != 0
	}) {
		t.Fatal("every change fits")
	}
	want := `^muru: split: nothing was changed: the state file ` + regexp.QuoteMeta(disk.state) + `/muru\.db cannot be written: .*\nhint: make room on its file system; nothing was lost, and changes work again as soon as there is room\n$`
	if status != 1 || !regexp.MustCompile(want).MatchString(said) {
		t.Errorf("status %d: %s", status, said)
	}
	if after := lasting(t, s.client()); after != before {
		t.Errorf("a change that was refused changed\n%s\nto\n%s", before, after)
	}
	full := s.must("events", "--kind", "daemon.disk_full")
	if !strings.HasSuffix(full, "muru "+disk.state+"/muru.db: changes are refused, traffic goes on\n") {
		t.Errorf("the events are\n%s", full)
	}
	seen := v.Seen("200 hello from shop@r1\n") + v.Seen("200 hello from shop@r2\n")
	if !visitortest.Within(5*time.Second, func() bool {
		return v.Seen("200 hello from shop@r1\n")+v.Seen("200 hello from shop@r2\n") > seen+100
	}) {
		t.Error("nothing is served any more")
	}
	v.WantOnlyAnswersOf(t, "shop@r1", "shop@r2")

	// It ends on a full disk as well, starts on one, and takes changes when
	// there is room.
	s.signal(syscall.SIGTERM)
	s.status()
	s.nothingLeft()
	s = startServe(t, disk.state, nil, "--listen", address)
	s.url()
	if !visitortest.Within(10*time.Second, func() bool { return lasting(t, s.client()) == before }) {
		t.Errorf("after a restart (-before +after):\n%s", cmp.Diff(before, lasting(t, s.client())))
	}
	disk.clear()
	promoted := func() bool { // it may still be starting, behind what serves
		_, said, status = typed(t, s.client(), "promote", "shop@r2")
		return status == 0
	}
	if !visitortest.Within(10*time.Second, promoted) {
		t.Errorf("with room again: status %d: %s", status, said)
	}
	s.stop(syscall.SIGTERM)
}

func TestFirstStartOnAFullDiskSaysSo(t *testing.T) {
	t.Parallel()
	disk := newTightDisk(t)
	if disk.on != nil {
		return // a limit on files is not full for small ones
	}
	disk.fill()
	refused(t, disk.state, nil, 1, `muru: .*no space left on device(\nhint: .*)?`)
	disk.clear()
	s := startServe(t, disk.state, nil, "--listen", "127.0.0.1:0")
	s.url()
	s.stop(syscall.SIGTERM)
}

func TestBackupIsAStateFileAndWholeOrNotThere(t *testing.T) {
	t.Parallel()
	state := visitortest.ShortDir(t)
	s := startServe(t, state, nil, "--listen", "127.0.0.1:0")
	s.url()
	s.must("deploy", "shop", shopDir(t), "--workers", "1")
	dir := visitortest.ShortDir(t)
	file := filepath.Join(dir, "b.db")
	if said := s.must("backup", file); !regexp.MustCompile(`^muru: the state is in ` + file + `: \d+ bytes\n$`).MatchString(said) {
		t.Errorf("it says %q", said)
	}
	if info, err := os.Stat(file); err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != 0o600 { // what releases were given as env is in it
		t.Errorf("the copy is %v", info.Mode())
	}
	was := lasting(t, s.client())
	s.must("stop", "shop") // after the backup
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere/b.db"): `^muru: write .*/nowhere/b\.db: no such file or directory\n$`,
		dir:                                `^muru: .* is there and is not a file\n$`,
	} {
		if out, errs, status := typed(t, s.client(), "backup", path); status == 0 || !regexp.MustCompile(want).MatchString(errs) {
			t.Errorf("backup %s: status %d: %s%s", path, status, out, errs)
		}
	}
	s.stop(syscall.SIGTERM)
	if _, errs, status := typed(t, s.client(), "backup", file+"2"); status != 4 {
		t.Errorf("without a daemon: status %d: %s", status, errs)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("there is %q", left)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".b*")); err != nil || len(left) != 0 {
		t.Errorf("there is %q", left)
	}
	if err := os.Rename(file, filepath.Join(state, "muru.db")); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, state, nil, "--listen", "127.0.0.1:0")
	if a := visitortest.Visit(t.Context(), visitortest.NewClient(), s.url()+"/"); a.Body != "hello from shop@r1\n" {
		t.Errorf("with the backup it answers %+v; it was %s", a, was)
	}
	s.stop(syscall.SIGTERM)
}
