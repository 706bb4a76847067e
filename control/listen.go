package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muru"
)

// ErrSocketTaken is in the chain of what [Listen] returns when somebody
// answers at the path already.
var ErrSocketTaken = errors.New("the socket is in use")

// maxPath is the longest path a socket can have on this system, in bytes.
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// dirLockTimeout bounds the wait for another muru that is starting at the
// same path; then we go on, as anybody can lock a directory for ever.
const dirLockTimeout = 2 * time.Second

// A Listener is the socket that a [Server] serves on. Closing it also removes
// its file, unless another has taken its place.
type Listener struct {
	*net.UnixListener
	path  string
	group int // whose members may use it; -1: none
	info  fs.FileInfo
	once  sync.Once
	err   error
}

// Listen opens a socket at path: 0600, or 0660 and of group, a name or a
// number, if that is not empty. A socket file that nobody answers at is
// replaced; anything else there is left alone and an error: of
// [ErrSocketTaken] if somebody answers. The caller, or the [Server] it is
// given to, closes it.
func Listen(path, group string) (*Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	gid := -1
	if group != "" {
		var err error
		if gid, err = lookupGroup(group); err != nil {
			return nil, err
		}
	}
	unlock := lockDir(filepath.Dir(path))
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode that the socket has before it is bound is the mode of its
	// file on Linux: there is no moment in which others could connect.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
	}}
	plain, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, listenError(path, err)
	}
	l := &Listener{UnixListener: plain.(*net.UnixListener), path: path, group: gid}
	l.SetUnlinkOnClose(false)
	if l.info, err = os.Lstat(path); err == nil {
		err = l.setMode()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the control socket: %w", err), l.Close())
	}
	return l, nil
}

// setMode says who may connect.
func (l *Listener) setMode() error {
	if l.group < 0 {
		return os.Chmod(l.path, 0o600)
	}
	err := os.Chown(l.path, -1, l.group)
	if errors.Is(err, fs.ErrPermission) {
		return muru.Errorf(muru.KindDenied, "%s may not give the control socket to group %d", userName(os.Geteuid()), l.group).
			WithHint("only members of a group can give files to it")
	}
	if err != nil {
		return err
	}
	return os.Chmod(l.path, 0o660)
}

// Path returns where the socket is.
func (l *Listener) Path() string { return l.path }

// Close stops listening and removes the file. Closing twice does nothing.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.UnixListener.Close())
	})
	return l.err
}

// checkPath refuses what the system could not name, which it would say only
// as an invalid argument.
func checkPath(path string) error {
	if len(path) > maxPath {
		return muru.Errorf(muru.KindUsage, "the path of the control socket is too long: %d bytes, at most %d: %s", len(path), maxPath, path).
			WithHint("a shorter one: MURU_CONTROL=/run/muru.sock, or another --state directory")
	}
	if path == "" {
		return muru.Errorf(muru.KindUsage, "the control socket has no path").WithHint("MURU_CONTROL=/run/muru.sock")
	}
	return nil
}

// removeStale removes a socket file that nobody answers at.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return listenError(path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return muru.Errorf(muru.KindRefused, "%s is there and is not a socket", path).
			WithHint("move it away, or set MURU_CONTROL to another path")
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		taken := muru.Errorf(muru.KindRefused, "another muru serves at %s", path).
			WithHint("stop it, or set MURU_CONTROL to another path")
		taken.Err = ErrSocketTaken
		return taken
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace a control socket that nobody answers at: %w", err)
	}
	return nil
}

func listenError(path string, err error) error {
	var e *muru.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e = muru.Errorf(muru.KindUsage, "the control socket's directory %s does not exist", filepath.Dir(path)).
			WithHint("make it, or set MURU_CONTROL to another path")
	case errors.Is(err, fs.ErrPermission):
		e = muru.Errorf(muru.KindDenied, "%s may not make the control socket %s", userName(os.Geteuid()), path).
			WithHint("run as the owner of the directory, or set MURU_CONTROL to another path")
	case errors.Is(err, syscall.EADDRINUSE):
		e = muru.Errorf(muru.KindRefused, "another muru serves at %s", path)
		err = errors.Join(ErrSocketTaken, err)
	default:
		return fmt.Errorf("open the control socket: %w", err)
	}
	e.Err = err
	return e
}

// lockDir keeps two that start at once from taking each other's socket for
// stale.
func lockDir(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {} // what is wrong with it shows when the socket is made
	}
	for until := time.Now().Add(dirLockTimeout); time.Now().Before(until); {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() { f.Close() }
}

// lookupGroup returns the number of a group by name or number.
func lookupGroup(name string) (int, error) {
	text := name
	if g, err := user.LookupGroup(name); err == nil {
		text = g.Gid
	}
	gid, err := strconv.Atoi(text)
	if err != nil || gid < 0 {
		return 0, muru.Errorf(muru.KindUsage, "there is no group %q", name).
			WithHint("make it (groupadd %s), or name another: --socket-group GROUP", name)
	}
	return gid, nil
}

// userName names a user as events show it.
func userName(uid int) string {
	name, _ := lookupUser(uid)
	return name
}

// lookupUser returns the user's name, or a text that will do.
func lookupUser(uid int) (name string, known bool) {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return u.Username, true
	}
	return "uid " + strconv.Itoa(uid), false
}

func groupName(gid int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil && g.Name != "" {
		return g.Name
	}
	return strconv.Itoa(gid)
}
