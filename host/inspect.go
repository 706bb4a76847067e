package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"muru"
)

// Inspect checks what can be known of a plan before anything is started and
// returns it with an absolute Source. not_found: the source directory does not
// exist; usage: it is not a directory, the entry is not MODULE:ATTR, the
// upstream is not HOST:PORT.
//
// Whether the entry exists is for the worker to find out: a module may come
// from the source directory or from its .venv.
func Inspect(plan muru.ReleasePlan) (muru.ReleasePlan, error) {
	if plan.Kind != muru.External && (plan.Workers < 1 || plan.Threads < 1) {
		return plan, muru.Errorf(muru.KindUsage, "%d workers of %d threads cannot answer anything", plan.Workers, plan.Threads)
	}
	switch plan.Kind {
	case muru.External:
		return plan, checkUpstream(plan.Upstream)
	case muru.Command:
		if len(plan.Command) == 0 || plan.Command[0] == "" {
			return plan, muru.Errorf(muru.KindUsage, "the command is empty")
		}
		if _, err := signalNamed(plan.Stacks); err != nil {
			return plan, err
		}
	case muru.Python:
		if err := checkEntry(plan.Entry); err != nil {
			return plan, err
		}
	}
	source, err := filepath.Abs(plan.Source)
	if err != nil {
		return plan, fmt.Errorf("find %s: %w", plan.Source, err)
	}
	plan.Source = source
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return plan, muru.Errorf(muru.KindNotFound, "there is no directory %s", source)
	case err != nil:
		return plan, muru.Errorf(muru.KindFailed, "look at %s: %w", source, err)
	case !info.IsDir():
		return plan, muru.Errorf(muru.KindUsage, "%s is not a directory", source)
	}
	return plan, nil
}

// signalNamed returns the signal of a name such as SIGQUIT; 0 for none.
func signalNamed(name string) (syscall.Signal, error) {
	if name == "" {
		return 0, nil
	}
	signal := unix.SignalNum(name)
	if signal == 0 || signal == syscall.SIGKILL || signal == syscall.SIGSTOP {
		return 0, muru.Errorf(muru.KindUsage, "%q is not a signal that prints stacks", name).WithHint(`write its name, such as "SIGQUIT"`)
	}
	return signal, nil
}

func checkEntry(entry string) error {
	module, attr, ok := strings.Cut(entry, ":")
	for _, part := range append(strings.Split(module, "."), strings.Split(attr, ".")...) {
		ok = ok && part != "" && !strings.ContainsAny(part, " \t\r\n:/\\\x00") && (part[0] < '0' || part[0] > '9')
	}
	if !ok {
		return muru.Errorf(muru.KindUsage, "%q is not an entry", entry).WithHint(`write MODULE:ATTR, such as "app:application"`)
	}
	return nil
}

func checkUpstream(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.Atoi(port)
	if err != nil || portErr != nil || host == "" || n < 1 || n > 65535 || strings.ContainsAny(host, "/@ ") {
		return muru.Errorf(muru.KindUsage, "%q is not an upstream", address).WithHint(`write HOST:PORT, such as "10.0.0.5:9000"`)
	}
	return nil
}
