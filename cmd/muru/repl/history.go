package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// historyRead bounds what is read of a history at first, in bytes from
	// its end.
	historyRead = 1 << 20

	// historyEntry bounds an entry: what is pasted by the megabyte is not
	// typed again.
	historyEntry = 64 << 10
)

// A history is the file that keeps what was typed, shared by all sessions of
// a person: each only adds to it, under a lock, and finds there what the
// others added. An entry is one line, with \n for a line end. It is used by
// one goroutine. Whatever is wrong with the file, the session goes on
// without.
type history struct {
	file *os.File // nil: none
	read int64    // offset up to which it was read
	cut  bool     // that is in the middle of a line, perhaps
	last string   // the newest entry
}

// historyPath is where the history of this person is: beside the state that
// a daemon of theirs would keep, for root too, whose daemon's state is
// everybody's. It is "" if there is no home.
func historyPath() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "muru", "history")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "state", "muru", "history")
}

// openHistory opens the history, and makes it. On an error the returned one
// keeps nothing.
func openHistory(path string) (*history, error) {
	h := new(history)
	if path == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h, fmt.Errorf("make the directory of the history: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return h, fmt.Errorf("open the history: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no file")}
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = file.Chmod(0o600)
	}
	if err != nil {
		file.Close()
		return h, fmt.Errorf("open the history: %w", err)
	}
	h.file = file
	h.read = max(0, info.Size()-historyRead)
	h.cut = h.read > 0
	return h, nil
}

// kept reports whether a block may be kept: not what names a secret, and not
// what begins with a space.
func kept(block string) bool {
	return block != "" && len(block) <= historyEntry && !strings.Contains(block, "secret(") && marginOf(block) == ""
}

// add keeps a block, unless it must not be or is the newest entry again.
func (h *history) add(block string) error {
	block = strings.TrimRight(block, "\n")
	if h.file == nil || !kept(block) || block == h.last {
		return nil
	}
	return h.locked(unix.LOCK_EX, func() error {
		_, err := h.file.WriteString(toHistory.Replace(block) + "\n")
		return err
	})
}

// news returns the entries that were added since the last call, by whomever.
func (h *history) news() (entries []string, err error) {
	if h.file == nil {
		return nil, nil
	}
	err = h.locked(unix.LOCK_SH, func() error {
		info, err := h.file.Stat()
		if err != nil {
			return err
		}
		if info.Size() <= h.read { // the same, or somebody emptied it
			h.read = info.Size()
			return nil
		}
		text, err := io.ReadAll(io.NewSectionReader(h.file, h.read, info.Size()-h.read))
		if err != nil {
			return err
		}
		if h.cut {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		h.read, h.cut = info.Size(), false
		for line := range strings.Lines(string(text)) {
			entry := fromHistory.Replace(strings.TrimSuffix(line, "\n"))
			if showable(entry) && entry != h.last {
				entries = append(entries, entry)
				h.last = entry
			}
		}
		return nil
	})
	return entries, err
}

// showable reports whether an entry is text that a terminal can be shown.
func showable(entry string) bool {
	return entry != "" && utf8.ValidString(entry) && !strings.ContainsFunc(entry, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// locked calls do while the file is locked against the other sessions. One
// that holds it for long was stopped: this one goes on without.
func (h *history) locked(how int, do func() error) error {
	var err error
	for range 20 {
		if err = unix.Flock(int(h.file.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if err == nil {
		err = errors.Join(do(), unix.Flock(int(h.file.Fd()), unix.LOCK_UN))
	}
	if err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	return nil
}

// Close closes the file.
func (h *history) Close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}
