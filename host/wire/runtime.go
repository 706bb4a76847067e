package wire

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"muru"
)

//go:embed python/muru_worker/*.py
var embedded embed.FS

const packageName = "muru_worker"

// DumpSignal makes a worker print its stacks; see [Dump].
const DumpSignal = syscall.SIGUSR2

// A Runtime is the embedded Python package on disk. The zero value is not
// usable; [Install] makes one. It is immutable.
type Runtime struct{ dir string }

// Install writes the package below dir, in a directory named by its digest,
// so that workers of another muru keep theirs. It is atomic, and does nothing
// when the package is there.
func Install(dir string) (Runtime, error) {
	files, err := fs.Sub(embedded, "python")
	if err != nil {
		return Runtime{}, fmt.Errorf("install the worker runtime: %w", err)
	}
	digest, err := digestOf(files)
	if err != nil {
		return Runtime{}, fmt.Errorf("install the worker runtime: %w", err)
	}
	// Workers change their working directory before they look for more.
	if dir, err = filepath.Abs(dir); err != nil {
		return Runtime{}, fmt.Errorf("install the worker runtime: %w", err)
	}
	target := filepath.Join(dir, digest)
	if installed(files, target) {
		return Runtime{dir: target}, nil
	}
	if err := replace(files, dir, target); err != nil && !installed(files, target) {
		return Runtime{}, fmt.Errorf("install the worker runtime: %w", err)
	}
	return Runtime{dir: target}, nil
}

// replace writes the package beside target and moves it there.
func replace(files fs.FS, dir, target string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // what is left when it was not moved
	if err := os.CopyFS(fresh, files); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil { // damaged, or it would be in order
		return err
	}
	return os.Rename(fresh, target)
}

func digestOf(files fs.FS) (string, error) {
	sum := sha256.New()
	err := eachFile(files, func(name string, data []byte) error {
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

func installed(files fs.FS, target string) bool {
	return eachFile(files, func(name string, data []byte) error {
		there, err := os.ReadFile(filepath.Join(target, name))
		if err == nil && !bytes.Equal(there, data) {
			err = errors.New("changed")
		}
		return err
	}) == nil
}

func eachFile(files fs.FS, do func(name string, data []byte) error) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return do(name, data)
	})
}

// A Spec is what a worker is started with. All fields are required, but for
// Orphan.
type Spec struct {
	Release    muru.ReleaseID
	Worker     int
	Workers    int           // how many the release has; more than one is wsgi.multiprocess
	Threads    int           // requests at once
	Source     string        // absolute directory of the release
	Entry      string        // MODULE:ATTR
	Socket     string        // absolute path of the daemon's
	Token      string        // what its hello will carry
	StacksFile string        // absolute path for [Dump]; the worker makes it
	Orphan     time.Duration // it ends itself when no daemon was there for so long; 0: 60 s
	Python     string        // interpreter, from [FindPython]
}

// Command returns how to start a worker: its argument list, and what is to be
// added to its environment. It must be started with both its outputs in a
// file (a pipe would break its prints when the daemon ends), in a process
// group of its own. It understands:
//
//   - SIGTERM: finish the running requests, then exit with status 0
//   - [DumpSignal]: print its stacks to the stacks file
//
// SIGINT is ignored. It exits with status 1 when the application cannot be
// imported or Python is older than 3.9, after saying so on stderr.
func (r Runtime) Command(s Spec) (argv, env []string) {
	orphan := s.Orphan
	if orphan <= 0 {
		orphan = time.Minute
	}
	argv = []string{
		s.Python, filepath.Join(r.dir, packageName),
		"--release", s.Release.String(),
		"--worker", strconv.Itoa(s.Worker),
		"--workers", strconv.Itoa(s.Workers),
		"--threads", strconv.Itoa(s.Threads),
		"--source", s.Source,
		"--entry", s.Entry,
		"--socket", s.Socket,
		"--stacks", s.StacksFile,
		"--orphan", strconv.FormatFloat(orphan.Seconds(), 'f', -1, 64),
	}
	env = []string{
		"MURU_RELEASE=" + s.Release.String(),
		"MURU_WORKER=" + strconv.Itoa(s.Worker),
		"MURU_WORKER_TOKEN=" + s.Token, // not in argv, which every user can read
		"PYTHONDONTWRITEBYTECODE=1",    // a release is immutable
	}
	if venv := filepath.Join(s.Source, ".venv"); filepath.Dir(filepath.Dir(s.Python)) == venv {
		env = append(env, "VIRTUAL_ENV="+venv)
	}
	return argv, env
}

// FindPython returns the interpreter for a release: that of the .venv in its
// directory, if there is one, else python3 on PATH. The error is a
// [*muru.Error]. Whether it is new enough the worker says itself.
func FindPython(source string) (string, error) {
	venv := filepath.Join(source, ".venv", "bin", "python")
	if info, err := os.Stat(venv); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return venv, nil
	}
	if _, err := os.Lstat(filepath.Join(source, ".venv")); err == nil {
		return "", muru.Errorf(muru.KindNotFound, "%s is not a program", venv).
			WithHint("make the environment again: python3 -m venv %s", filepath.Join(source, ".venv"))
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", muru.Errorf(muru.KindNotFound, "there is no python3 on PATH").
			WithHint("install Python 3.9 or newer, or make a virtual environment: python3 -m venv %s", filepath.Join(source, ".venv"))
	}
	return filepath.Abs(path)
}
