package host

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"muru"
)

// A release's log is one file that is rotated: NAME.log, and NAME.log.1 (the
// newest) to NAME.log.4 behind it. It outlives its release.
const (
	logFileSize  = 16 << 20 // bytes after which it is rotated
	logFilesKept = 4
	maxLogLine   = 64 << 10 // longer lines are split
)

const logStamp = "2006-01-02T15:04:05.000Z"

// releaseLog writes the log of one release. It is safe for concurrent use.
type releaseLog struct {
	path  string
	size  int64 // to rotate at
	diary *slog.Logger

	mu      sync.Mutex // guards all below
	file    *os.File
	written int64
	broken  bool // a write failed and was reported
}

// logPath is where the log of a release lies.
func logPath(stateDir string, id muru.ReleaseID) string {
	return filepath.Join(stateDir, "logs", fmt.Sprintf("%s-%s.log", id.App, id.Name()))
}

func openReleaseLog(path string, size int64, diary *slog.Logger) (*releaseLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of logs: %w", err)
	}
	l := &releaseLog{path: path, size: size, diary: diary}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *releaseLog) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the release's log: %w", err)
	}
	l.file = file
	l.written, _ = file.Seek(0, 2)
	return nil
}

// say writes one line of the host's own about a worker.
func (l *releaseLog) say(worker int, format string, args ...any) {
	l.write(appendLogLine(nil, time.Now(), worker, fmt.Appendf(nil, "muru: "+format, args...)))
}

// write appends stamped lines. What cannot be written is lost, and said once
// to the daemon's own log: a full disk must not stop the release.
func (l *releaseLog) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	if l.written > 0 && l.written+int64(len(lines)) > l.size {
		l.rotate()
	}
	n, err := l.file.Write(lines)
	l.written += int64(n)
	if err != nil && !l.broken {
		l.diary.Error("write the release's log", "path", l.path, "error", err)
	}
	l.broken = err != nil
}

// rotate moves each file one number on. If that does not work the file grows.
func (l *releaseLog) rotate() {
	for n := logFilesKept - 1; n >= 0; n-- {
		_ = os.Rename(rotated(l.path, n), rotated(l.path, n+1)) // missing ones are fine
	}
	old := l.file
	if err := l.open(); err != nil {
		l.diary.Error("rotate the release's log", "path", l.path, "error", err)
		return
	}
	_ = old.Close()
}

// rotated names the log's nth file; 0 is the one written to.
func rotated(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// close ends writing; later lines are dropped.
func (l *releaseLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// appendLogLine stamps a line. Control characters but tabs and bytes that are
// no UTF-8 are written as \xNN: the log is text, whatever a worker prints,
// and reading it must not reprogram a terminal.
func appendLogLine(to []byte, at time.Time, worker int, line []byte) []byte {
	to = at.UTC().AppendFormat(to, logStamp)
	to = fmt.Appendf(to, " muru.worker[%d]: ", worker)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && size == 1) {
			for _, b := range line[:size] {
				to = fmt.Appendf(to, `\x%02x`, b)
			}
		} else {
			to = append(to, line[:size]...)
		}
		line = line[size:]
	}
	return append(to, '\n')
}

// Forget removes the log of a release that does not run, for good. It is
// refused for one that does.
func (h *Host) Forget(id muru.ReleaseID) error {
	if h.release(id) != nil {
		return muru.Errorf(muru.KindRefused, "%s still runs: its log is kept", id)
	}
	path := logPath(h.stateDir, id)
	for n := range logFilesKept + 1 {
		if err := os.Remove(rotated(path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the log of %s: %w", id, err)
		}
	}
	return nil
}

// Sweep removes the logs of releases that are not known, for good: those that
// a crash left between the removal of a release and of its log. It must not
// run beside Start. What it does not take for a log of ours stays.
func (h *Host) Sweep(known func(muru.ReleaseID) bool) error {
	files, err := os.ReadDir(filepath.Dir(logPath(h.stateDir, muru.ReleaseID{})))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for logs that nobody needs: %w", err)
	}
	var failed error
	for _, f := range files {
		if id, ok := whoseLog(f.Name()); ok && !known(id) && h.release(id) == nil {
			failed = errors.Join(failed, h.Forget(id))
		}
	}
	return failed
}

// whoseLog is the inverse of logPath, for each of a log's files.
func whoseLog(file string) (id muru.ReleaseID, ok bool) {
	name, rest, _ := strings.Cut(file, ".")
	at := strings.LastIndex(name, "-r")
	if at < 0 || rest != "log" && !strings.HasPrefix(rest, "log.") {
		return id, false
	}
	id, err := muru.ParseReleaseID(name[:at]+"@"+name[at+1:], "")
	return id, err == nil
}
