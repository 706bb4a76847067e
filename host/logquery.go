package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muru"
)

// logLine is a line of a release's log taken apart.
type logLine struct {
	at     time.Time
	worker int
	text   string
}

// parseLogLine takes a line apart that appendLogLine made; ok is false for
// anything else.
func parseLogLine(line string) (l logLine, ok bool) {
	stamp, rest, ok := strings.Cut(line, " ")
	if !ok || len(stamp) != len(logStamp) {
		return l, false
	}
	at, err := time.Parse(logStamp, stamp)
	if err != nil {
		return l, false
	}
	rest, ok = strings.CutPrefix(rest, "muru.worker[")
	if !ok {
		return l, false
	}
	number, text, ok := strings.Cut(rest, "]: ")
	worker, err := strconv.Atoi(number)
	if !ok || err != nil || worker < 0 || number != strconv.Itoa(worker) {
		return l, false
	}
	return logLine{at: at, worker: worker, text: text}, true
}

// logFilter decides which lines a query wants.
type logFilter struct {
	muru.LogQuery
	match *regexp.Regexp
}

func newLogFilter(q muru.LogQuery) (*logFilter, error) {
	f := &logFilter{LogQuery: q}
	if q.Match == "" {
		return f, nil
	}
	match, err := regexp.Compile(q.Match)
	if err != nil {
		return nil, muru.Errorf(muru.KindUsage, "%q is not a regular expression: %w", q.Match, err)
	}
	f.match = match
	return f, nil
}

// wants reports whether a line is asked for, and whether this and all before
// it are too old.
func (f *logFilter) wants(line string) (wanted, tooOld bool) {
	l, ok := parseLogLine(line)
	if !ok {
		return false, false
	}
	if !f.Since.IsZero() && l.at.Before(f.Since.Truncate(time.Millisecond)) {
		return false, true
	}
	wanted = (!f.OneWorker || l.worker == f.Worker) &&
		(f.Request == "" || strings.Contains(l.text, f.Request)) &&
		(f.match == nil || f.match.MatchString(l.text))
	return wanted, false
}

// readLog returns the lines of the log at path and of the files it was
// rotated to, oldest first. It reads backwards from the newest and no further
// than it must.
func readLog(ctx context.Context, path string, q muru.LogQuery) ([]string, error) {
	filter, err := newLogFilter(q)
	if err != nil {
		return nil, err
	}
	var lines []string // newest first
	var before os.FileInfo
	for n := 0; n <= logFilesKept; n++ {
		file, err := os.Open(rotated(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read the release's log: %w", err)
		}
		info, err := file.Stat()
		if err == nil && before != nil && os.SameFile(info, before) {
			_ = file.Close() // it was rotated while we read: we have it
			continue
		}
		before = info
		enough, err := readBackwards(ctx, file, func(line string) bool {
			wanted, tooOld := filter.wants(line)
			if wanted {
				lines = append(lines, line)
			}
			return tooOld || q.Lines > 0 && len(lines) >= q.Lines
		})
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("read the release's log: %w", err)
		}
		if enough {
			break
		}
	}
	slices.Reverse(lines)
	return lines, nil
}

// readBackwards calls take with each line of file, last first, until it
// returns true, and reports whether it did.
func readBackwards(ctx context.Context, file io.ReadSeeker, take func(string) bool) (bool, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	buf := make([]byte, readAtOnce)
	var tail []byte // what was read of a line whose start is further in front
	for end > 0 {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		chunk := buf[:min(int64(len(buf)), end)]
		end -= int64(len(chunk))
		if _, err := file.Seek(end, io.SeekStart); err != nil {
			return false, err
		}
		if _, err := io.ReadFull(file, chunk); err != nil {
			return false, err
		}
		for {
			cut := bytes.LastIndexByte(chunk, '\n')
			if cut < 0 {
				break
			}
			if line := string(chunk[cut+1:]) + string(tail); line != "" && take(line) {
				return true, nil
			}
			tail, chunk = nil, chunk[:cut]
		}
		tail = append(bytes.Clone(chunk), tail...)
	}
	return len(tail) > 0 && take(string(tail)), nil
}
