package wire

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shellScript writes a program for /bin/sh.
func shellScript(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAScriptOnPATHIsAskedForItsInterpreter(t *testing.T) {
	dir := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "COLOUR=blue"}
	binary, err := Interpreter(t.Context(), interpreters(t)[0], dir, env)
	if err != nil || isScript(binary) {
		t.Fatalf("%s, %v", binary, err)
	}
	release, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, text string
		refused    string // why it stays what it is; empty: it is resolved
	}{
		{"hands over", `exec ` + binary + ` "$@"`, ""},
		{"looks at its directory", `[ "$(pwd -P)" = ` + release + ` ] || exit 9; exec ` + binary + ` "$@"`, ""},
		{"looks at its environment", `[ "$COLOUR" = blue ] || exit 9; exec ` + binary + ` "$@"`, ""},
		{"is a version manager's", `export PYENV_VERSION=3 PYENV_DIR=/ PATH=/x:$PATH; exec ` + binary + ` "$@"`, ""},
		{"knows the answer", `echo ` + binary, ""},
		{"sets what the interpreter needs", `export LD_LIBRARY_PATH=/opt/lib; exec ` + binary + ` "$@"`, "it sets LD_LIBRARY_PATH"},
		{"changes what the release set", `export COLOUR=red; exec ` + binary + ` "$@"`, "it sets COLOUR"},
		{"fails", `echo "pyenv: python3: command not found" >&2; exit 127`, "command not found"},
		{"says nothing", `exit 0`, `it says ""`},
		{"says something else", `echo Hello`, `it says "Hello"`},
		{"names itself", `echo "$0"`, "is no interpreter"},
		{"names nothing", `echo /nowhere/python3`, "no such file"},
	} {
		t.Run(c.what, func(t *testing.T) {
			shim := shellScript(t, filepath.Join(t.TempDir(), "python3"), c.text)
			got, err := Interpreter(t.Context(), shim, dir, env)
			if c.refused == "" && (got != binary || err != nil) {
				t.Errorf("%s, %v; want %s", got, err, binary)
			}
			if c.refused != "" && (got != shim || err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%s, %v; want %q", got, err, c.refused)
			}
		})
	}
}

func TestWhatIsNoScriptIsNotAsked(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	for _, python := range []string{
		shellScript(t, filepath.Join(dir, ".venv", "bin", "python"), "echo > "+asked),
		"/nowhere/python3",
		os.Args[0],
	} {
		if got, err := Interpreter(t.Context(), python, dir, nil); got != python || err != nil {
			t.Errorf("%s: %s, %v", python, got, err)
		}
	}
	if _, err := os.Stat(asked); err == nil {
		t.Error("the venv's own was asked")
	}
}

func TestAScriptThatDoesNotAnswerIsKilledWithWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Both hold the pipe open; its end is the end of both.
	shim := shellScript(t, filepath.Join(dir, "python3"), "exec 9>"+fifo+"; sleep 600 & sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan *os.File, 1)
	go func() {
		defer close(opened)
		defer cancel() // when it runs
		pipe, err := os.Open(fifo)
		if err != nil {
			t.Error(err)
			return
		}
		opened <- pipe
	}()
	if got, err := Interpreter(ctx, shim, dir, os.Environ()); got != shim || err == nil {
		t.Errorf("%s, %v", got, err)
	}
	pipe := <-opened
	if pipe == nil {
		return
	}
	defer pipe.Close()
	_ = pipe.SetReadDeadline(time.Now().Add(patience))
	if _, err := pipe.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("something it started runs: %v", err)
	}
}
