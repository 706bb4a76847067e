package builtins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

// maxOutput bounds what a command may print to each of its two outputs.
const maxOutput = 16 << 20

// killGrace is how long a command that is stopped has to end by itself. A
// cancelled call must return within 200 ms.
const killGrace = 120 * time.Millisecond

var shSpec = (&Spec{
	Name:    "sh",
	Group:   GroupWorld,
	Summary: "runs a command and returns what it printed",
	Doc: `A text runs in /bin/sh, a list directly. The command and all it started are ended when the call is
cancelled or runs out of time. More than 16 MiB of output is an error.`,
	Params: []Param{
		{Name: "command", Type: commandType, Pass: Positional, Doc: "text (shell) or list"},
		{Name: "dir", Type: textType, Default: starlark.None, Doc: "where it runs; None: the caller's directory"},
		{Name: "env", Type: dictType[string](textOrSecret), Default: emptyDict(), Doc: "environment beside the one of muru"},
		{Name: "input", Type: textType, Default: starlark.None, Doc: "what it reads; None: nothing"},
		{Name: "timeout", Type: positive(durationType), Default: starlark.String("10m"), Doc: "how long it may run"},
		{Name: "check", Type: boolType, Default: starlark.True, Doc: "raise on an exit status that is not 0"},
	},
	Returns: "Outcome",
	Errors:  []string{"command_failed: the exit status is not 0; the error shows the end of what it printed", "timeout: it ran too long", "not_found: there is no such program or directory"},
	Example: `print(sh(["git", "rev-parse", "HEAD"], check = False).stdout.strip())`,
	Effect:  Shell,
	Fn:      runCommand,
}).check()

func runCommand(c *Call) (starlark.Value, error) {
	argv := arg[[]string](c, "command")
	dir := c.set.env.Dir
	if c.isSet("dir") {
		var err error
		if dir, err = c.directory("dir", arg[string](c, "dir")); err != nil {
			return nil, err
		}
	}
	timeout := arg[time.Duration](c, "timeout")
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, timeout, errCommandTimeout)
	defer stop()
	stdout := &limitedBuffer{full: func() { cancel(errTooMuchOutput) }}
	stderr := &limitedBuffer{full: stdout.full}
	cmd := command(ctx, argv, dir, arg[map[string]string](c, "env"))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if c.isSet("input") {
		cmd.Stdin = strings.NewReader(arg[string](c, "input"))
	}
	began := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left of its group
	}
	o := outcome{stdout: stdout.text(), stderr: stderr.text(), took: time.Since(began)}
	name := shortCommand(argv)
	switch cause := context.Cause(ctx); {
	case c.ctx.Err() != nil:
		return nil, context.Cause(c.ctx)
	case errors.Is(cause, errTooMuchOutput):
		return nil, muru.Errorf(muru.KindCommandFailed, "%s printed more than %d MiB", name, maxOutput>>20)
	case errors.Is(cause, errCommandTimeout):
		return nil, withOutput(muru.Errorf(muru.KindTimeout, "%s ran longer than %s", name, muru.FormatDuration(timeout)), o)
	}
	if cmd.ProcessState == nil {
		return nil, startProblem(argv[0], err)
	}
	o.code = exitCode(cmd.ProcessState)
	if arg[bool](c, "check") && o.code != 0 {
		return nil, withOutput(muru.Errorf(muru.KindCommandFailed, "%s ended with exit status %d", name, o.code), o)
	}
	return o.record(), nil
}

var (
	errCommandTimeout = errors.New("out of time")
	errTooMuchOutput  = errors.New("too much output")
)

// command makes a command that leads a process group of its own. When ctx
// ends the group is asked to end and the command, after a moment, killed.
func command(ctx context.Context, argv []string, dir string, env map[string]string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	// Then it is killed. A grandchild that keeps the output open after the
	// command ended is not waited for either.
	cmd.WaitDelay = killGrace
	return cmd
}

// exitCode is the exit status, or 128 and the number of the signal.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func startProblem(program string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &muru.Error{Kind: muru.KindNotFound, Message: "there is no program " + program, Err: err}
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return &muru.Error{Kind: muru.KindCommandFailed, Message: fmt.Sprintf("%s cannot be started: %v", program, err), Err: err}
}

// withOutput shows the end of what a command printed, its errors first.
func withOutput(err *muru.Error, o outcome) *muru.Error {
	text := o.stderr
	if strings.TrimSpace(text) == "" {
		text = o.stdout
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-10):] {
		if line != "" || len(lines) > 1 {
			err.Detail = append(err.Detail, start(line, 500))
		}
	}
	return err
}

// shortCommand names a command in an error.
func shortCommand(argv []string) string {
	if len(argv) == 3 && argv[0] == "/bin/sh" && argv[1] == "-c" {
		return start(strings.ReplaceAll(strings.TrimSpace(argv[2]), "\n", "; "), 60)
	}
	return start(strings.Join(argv, " "), 60)
}

// A limitedBuffer keeps what is written, up to maxOutput, and says once that
// it is full. It is used by one goroutine at a time.
type limitedBuffer struct {
	buf  bytes.Buffer
	full func()
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := maxOutput - b.buf.Len(); len(p) > room {
		b.buf.Write(p[:max(0, room)])
		b.full()
		return len(p), nil
	}
	return b.buf.Write(p)
}

func (b *limitedBuffer) text() string { return strings.ToValidUTF8(b.buf.String(), "\uFFFD") }
