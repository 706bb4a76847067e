package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A daemon that is killed leaves its workers running. Python workers notice,
// and end by themselves after a while. A command worker has nothing of muru's
// in it and would serve for ever, so each worker's directory has a file pid
// that names the process, and the next daemon on the same state directory
// ends what it finds there. (Taking such workers over is a later version's.)

// note writes the file. A worker without one is merely not found later.
func (w *worker) note() {
	text := fmt.Sprintf("%d %s\n", w.proc.pid, startTime(w.proc.pid))
	if err := os.WriteFile(w.files.pid, []byte(text), 0o600); err != nil {
		w.r.host.diary.Error("note a worker's pid", "release", w.r.id, "worker", w.number, "error", err)
	}
}

// endLeftovers kills the workers of an earlier daemon and removes their
// directories. A number that now belongs to another process is left alone.
func endLeftovers(runDir string) error {
	files, err := filepath.Glob(filepath.Join(runDir, "*", "*", "pid"))
	if err != nil {
		return fmt.Errorf("look for workers of an earlier daemon: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		number, started, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		pid, err := strconv.Atoi(number)
		if err == nil && pid > 1 && started != "" && startTime(pid) == started {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
	if err := os.RemoveAll(runDir); err != nil {
		return fmt.Errorf("remove the directories of an earlier daemon: %w", err)
	}
	return nil
}
