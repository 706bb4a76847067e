package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one running child that leads a process group of its own, so that
// what it started ends with it. Its supervisor alone signals and reaps it.
type process struct {
	cmd     *exec.Cmd
	pid     int
	started time.Time
	ticks   int64         // likewise, as the system counts; 0: not known
	exited  chan struct{} // closed when it has ended; on Linux it is then not yet reaped
	reaped  sync.Once
	ended   exit
}

// exit says how a process ended.
type exit struct {
	status int
	signal syscall.Signal // 0: it exited by itself
}

// String words it for worker.crashed: signal SIGKILL, exit status 1.
func (e exit) String() string {
	if e.signal == 0 {
		return fmt.Sprintf("exit status %d", e.status)
	}
	if name := unix.SignalName(e.signal); name != "" {
		return "signal " + name
	}
	return fmt.Sprintf("signal %d", int(e.signal))
}

// startProblem is what the system said, without the names of Go's layers.
func startProblem(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// startProcess starts argv in dir with out as its output and /dev/null as its
// input. env is the whole environment.
func startProcess(argv, env []string, dir string, out *os.File) (*process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], startProblem(err))
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, started: time.Now(), exited: make(chan struct{})}
	p.ticks, _ = strconv.ParseInt(startTime(p.pid), 10, 64)
	go func() {
		awaitExit(p)
		close(p.exited)
	}()
	return p, nil
}

// signal sends sig to the process and everything in its group. It must not be
// called after reap.
func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.pid, sig) // ESRCH: all of them are gone already
}

// reap ends what the process left in its group and says how it ended. It must
// be called after exited is closed, by one goroutine; calling it again is fine.
func (p *process) reap() exit {
	p.reaped.Do(func() {
		// The dead leader still holds its number, so the group cannot be
		// somebody else's.
		p.signal(syscall.SIGKILL)
		_ = p.cmd.Wait() // its error is the status read below
		state, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if state.Signaled() {
			p.ended = exit{signal: state.Signal()}
			return
		}
		p.ended = exit{status: state.ExitStatus()}
	})
	return p.ended
}
