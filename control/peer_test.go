package control_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func ownName(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func saysWho() *controltest.Muru {
	return &controltest.Muru{OnState: func(ctx context.Context) (control.State, error) {
		return control.State{}, nil
	}}
}

// becoming returns a dialer whose connections are another user's: the thread
// that dials takes their ids, alone and for good. Only root may.
func becoming(path string, uid, gid uintptr, groups ...uint32) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			var list unsafe.Pointer
			if len(groups) > 0 {
				list = unsafe.Pointer(&groups[0])
			}
			for _, call := range [][4]uintptr{
				{syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0},
				{syscall.SYS_SETRESGID, gid, gid, gid},
				{syscall.SYS_SETRESUID, uid, uid, uid},
			} {
				if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
					err = errno
					return
				}
			}
			conn, err = net.Dial("unix", path)
		}()
		<-done
		return conn, err
	}
}

func stateAs(t *testing.T, w *world, uid, gid uintptr, groups ...uint32) (int, string, error) {
	t.Helper()
	tr := &http.Transport{DialContext: becoming(w.path, uid, gid, groups...), DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://muru/v1/state")
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, body(t, resp), nil
}

func TestSocketIsTheOwnersAlone(t *testing.T) {
	w := serve(t, saysWho())
	info, err := os.Stat(w.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	if os.Geteuid() != 0 {
		return // only root can ask as somebody else
	}
	if _, _, err := stateAs(t, w, 65534, 65534); !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user's connection: got %v", err)
	}
	// Whatever became of the file's mode, the server looks itself.
	if err := os.Chmod(w.path, 0o666); err != nil {
		t.Fatal(err)
	}
	code, text, err := stateAs(t, w, 65534, 65534)
	if code != http.StatusForbidden || !strings.Contains(text, `"kind":"denied"`) || !strings.Contains(text, "nobody may not use this muru: it is root's") {
		t.Errorf("another user: got %d %s %v", code, text, err)
	}
}

func TestMembersOfTheSocketsGroupAreLetInUnderTheirOwnName(t *testing.T) {
	if os.Geteuid() != 0 {
		// Our own group is the only one we can give the file to.
		own, err := user.LookupGroupId(userGroup(t))
		if err != nil {
			t.Fatal(err)
		}
		w := serveAt(t, socketPath(t), own.Name, saysWho())
		if _, err := w.State(deadline(t)); err != nil {
			t.Error(err)
		}
		return
	}
	w := serveAt(t, socketPath(t), "daemon", saysWho())
	info, err := os.Stat(w.path)
	if err != nil || info.Mode().Perm() != 0o660 || info.Sys().(*syscall.Stat_t).Gid != 1 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		what     string
		uid, gid uintptr
		groups   []uint32
		code     int
		says     string
	}{
		{"root", 0, 0, nil, 200, `"you":"root"`},
		{"its group is the first", 65534, 1, nil, 200, `"you":"nobody"`},
		{"its group is one of many", 65534, 65534, []uint32{7, 8, 1}, 200, `"you":"nobody"`},
		{"a user without a name", 54321, 54321, []uint32{1}, 200, `"you":"uid 54321"`},
	} {
		code, text, err := stateAs(t, w, c.uid, c.gid, c.groups...)
		if code != c.code || !strings.Contains(text, c.says) || err != nil {
			t.Errorf("%s: got %d %s %v", c.what, code, text, err)
		}
	}
	if err := os.Chmod(w.path, 0o666); err != nil {
		t.Fatal(err)
	}
	code, text, err := stateAs(t, w, 65534, 65534, 7)
	if code != http.StatusForbidden || !strings.Contains(text, "usermod -aG daemon nobody") {
		t.Errorf("no member: got %d %s %v", code, text, err)
	}
}

func userGroup(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Gid
}

func TestUnknownGroupIsASentence(t *testing.T) {
	_, err := control.Listen(socketPath(t), "no-such-group")
	if muru.KindOf(err) != muru.KindUsage || !strings.Contains(err.Error(), `there is no group "no-such-group"`) {
		t.Errorf("got %v", err)
	}
}

func TestASlowDirectoryOfUsersHoldsUpNobodyElse(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	w := serve(t, saysWho(), func(o *control.Options) {
		o.Users(func(int) (string, bool) {
			if first.CompareAndSwap(false, true) {
				close(asked)
				<-answer
			}
			return "ana", true
		})
	})
	slow := make(chan error, 1)
	go func() { _, err := w.State(deadline(t)); slow <- err }()
	receive(t, asked, "the question who that is")
	if _, err := w.State(deadline(t)); err != nil {
		t.Errorf("another client: %v", err)
	}
	close(answer)
	if err := receive(t, slow, "the answer"); err != nil {
		t.Error(err)
	}
}
