package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// resolveTimeout bounds what [Interpreter] asks: far more than the 50 to 100 ms
// that it takes, far less than the time a release has to be ready.
const resolveTimeout = 5 * time.Second

// whoAreYou has an interpreter print its path, and on the next line its
// environment.
const whoAreYou = `import sys; print(sys.executable); import json, os; print(json.dumps(dict(os.environ)))`

// Interpreter returns the program that a python from [FindPython] stands for.
// Version managers such as pyenv put scripts on PATH that find out, at every
// start of a worker and for 50 ms of CPU, which interpreter is meant in a
// directory. Asked once, the workers of a release need not.
//
// The script is asked in dir, the release's directory, with the environment
// that the workers get. What is no script, or the release's own (of .venv), is
// returned as it is, and so is a script that sets variables for its
// interpreter beyond those of the known version managers, since the interpreter
// would miss them. An error says why a script could not be asked, or gave no
// answer of use; the script is returned beside it, and can be started.
func Interpreter(ctx context.Context, python, dir string, env []string) (string, error) {
	if filepath.Dir(filepath.Dir(python)) == filepath.Join(dir, ".venv") || !isScript(python) {
		return python, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, fmt.Errorf("no answer in %v", resolveTimeout))
	defer cancel()
	said, err := ask(ctx, python, dir, env)
	if err == nil {
		var found string
		if found, err = understood(said, env); err == nil {
			return found, nil
		}
	}
	return python, fmt.Errorf("ask %s for its interpreter: %w", python, err)
}

// isScript reports whether a file begins as scripts do.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var start [2]byte
	_, err = io.ReadFull(f, start[:])
	return err == nil && string(start[:]) == "#!"
}

// ask runs the script, which is killed with all it started when ctx ends.
func ask(ctx context.Context, python, dir string, env []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, python, "-I", "-c", whoAreYou)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	said, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%w: %.200q", err, failed.Stderr)
	}
	return said, err
}

// understood returns the path in what an interpreter said.
func understood(said []byte, env []string) (string, error) {
	first, rest, _ := bytes.Cut(said, []byte("\n"))
	path := string(first)
	info, err := os.Stat(path)
	switch {
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("it says %.100q", path)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || isScript(path):
		return "", fmt.Errorf("%s is no interpreter", path)
	}
	if rest = bytes.TrimSpace(rest); len(rest) == 0 {
		return path, nil
	}
	var has map[string]string
	if err := json.Unmarshal(rest, &has); err != nil {
		return "", fmt.Errorf("read its environment: %w", err)
	}
	given := make(map[string]string, len(env))
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		given[name] = value
	}
	for name, value := range has {
		if before, there := given[name]; (!there || before != value) && !needless(name) {
			return "", fmt.Errorf("it sets %s, which %s would miss", name, path)
		}
	}
	return path, nil
}

// needless reports whether an interpreter can do without a variable: a version
// manager's own, or a shell's or Python's. PATH is among them: what managers put
// in front of it leads to the interpreter that was found.
func needless(name string) bool {
	switch name {
	case "PATH", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE":
		return true
	}
	for _, prefix := range []string{"PYENV_", "ASDF_", "MISE_"} {
		if strings.HasPrefix(strings.TrimLeft(name, "_"), prefix) {
			return true
		}
	}
	return false
}
