package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"muru"
)

var quiet = slog.New(slog.DiscardHandler)

func newLog(t *testing.T, size int64) *releaseLog {
	t.Helper()
	l, err := openReleaseLog(filepath.Join(t.TempDir(), "logs", "shop-r6.log"), size, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// texts are the lines of a log without stamp and worker.
func texts(t *testing.T, path string, q muru.LogQuery) []string {
	t.Helper()
	lines, err := readLog(t.Context(), path, q)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, line := range lines {
		l, ok := parseLogLine(line)
		if !ok {
			t.Fatalf("not a line of the log: %q", line)
		}
		all = append(all, l.text)
	}
	return all
}

func TestLogIsRotatedAndReadAcrossItsFiles(t *testing.T) {
	l := newLog(t, 600)
	for i := range 60 {
		l.write(appendLogLine(nil, time.Now(), i%2, fmt.Appendf(nil, "line %d", i)))
	}
	if _, err := os.Stat(rotated(l.path, logFilesKept)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(rotated(l.path, logFilesKept+1)); err == nil {
		t.Error("too many files are kept")
	}
	all := texts(t, l.path, muru.LogQuery{})
	for i, text := range all {
		if want := fmt.Sprintf("line %d", i); len(all) != 60 || text != want {
			t.Fatalf("line %d of %d is %q", i, len(all), text)
		}
	}
	if got := texts(t, l.path, muru.LogQuery{Lines: 3}); strings.Join(got, ",") != "line 57,line 58,line 59" {
		t.Errorf("the last three: %q", got)
	}
	if got := texts(t, l.path, muru.LogQuery{Lines: 2, OneWorker: true, Worker: 1}); strings.Join(got, ",") != "line 57,line 59" {
		t.Errorf("worker 1: %q", got)
	}
	if got := texts(t, l.path, muru.LogQuery{Match: "5$"}); len(got) != 6 || got[0] != "line 5" {
		t.Errorf("matching: %q", got)
	}
}

func TestLogQueryKnowsTimeAndRequest(t *testing.T) {
	l := newLog(t, 1<<20)
	noon := time.Date(2026, 11, 7, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		l.write(appendLogLine(nil, noon.Add(time.Duration(i)*time.Minute), 0, fmt.Appendf(nil, "at minute %d of request 01REQ%d", i, i%3)))
	}
	if got := texts(t, l.path, muru.LogQuery{Since: noon.Add(7 * time.Minute)}); len(got) != 3 {
		t.Errorf("since: %q", got)
	}
	if got := texts(t, l.path, muru.LogQuery{Request: "01REQ1"}); len(got) != 3 || got[0] != "at minute 1 of request 01REQ1" {
		t.Errorf("request: %q", got)
	}
	if _, err := readLog(t.Context(), l.path, muru.LogQuery{Match: "("}); muru.KindOf(err) != muru.KindUsage {
		t.Error(err)
	}
	if got, err := readLog(t.Context(), l.path+"x", muru.LogQuery{}); err != nil || len(got) != 0 {
		t.Errorf("no log: %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readLog(ctx, l.path, muru.LogQuery{}); err == nil {
		t.Error("it read on after its context's end")
	}
}

func TestFollowerStampsWholeLinesAndFreesTheFile(t *testing.T) {
	l := newLog(t, 1<<30)
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f, err := follow(path, 3, l)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		if _, err := out.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say("one\ntwo\r\nthr")
	f.poll()
	say("ee\n\n" + strings.Repeat("x", maxLogLine+10) + "\n\x00\xff\x1b[31mé\ttab\nlast")
	f.poll()
	f.finish()
	f.finish()
	got := texts(t, l.path, muru.LogQuery{OneWorker: true, Worker: 3})
	want := []string{"one", "two", "three", "", strings.Repeat("x", maxLogLine), strings.Repeat("x", 10), `\x00\xff\x1b[31m` + "é\ttab", "last"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("lines:\n%.300q", got)
	}
}

func TestFollowedFileDoesNotGrowForEver(t *testing.T) {
	l := newLog(t, 1<<30)
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f, err := follow(path, 0, l)
	if err != nil {
		t.Fatal(err)
	}
	defer f.finish()
	const parts, perPart = 8, 10000
	for range parts {
		if _, err := out.WriteString(strings.Repeat(strings.Repeat("y", 99)+"\n", perPart)); err != nil {
			t.Fatal(err)
		}
		f.poll()
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if held := info.Sys().(*syscall.Stat_t).Blocks * 512; held > 3*freeEvery {
		t.Errorf("the file holds %d bytes of %d on disk", held, info.Size())
	}
	if got := texts(t, l.path, muru.LogQuery{}); len(got) != parts*perPart {
		t.Errorf("%d lines, want %d", len(got), parts*perPart)
	}
}

func TestWhatAWorkerPrintsIsInTheLog(t *testing.T) {
	h, _ := newHost(t, Options{LogSize: 20000})
	b := start(t, h, python(t, nil))
	wantOK(t, do(t.Context(), b, "/garbage/out"))
	wantOK(t, do(t.Context(), b, "/loud?n=300"))
	lines, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "^line "})
	if err != nil || len(lines) != 300 || !strings.Contains(lines[299], " muru.worker[0]: line 299 xx") {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	wantOK(t, do(t.Context(), b, "/say"))
	lines, err = h.Logs(t.Context(), shop, muru.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\x1b\n") {
			t.Errorf("line %q", line)
		}
	}
	if got, _ := filepath.Glob(filepath.Join(h.stateDir, "logs", "shop-r6.log*")); len(got) < 2 {
		t.Errorf("not rotated: %v", got)
	}
	if _, err := h.Stop(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	after, err := h.Logs(t.Context(), shop, muru.LogQuery{Match: "^line "})
	if err != nil || len(after) != 300 {
		t.Errorf("after its end: %d lines, %v", len(after), err)
	}
}

func FuzzParseLogLine(f *testing.F) {
	for _, seed := range []string{
		"2026-11-07T07:20:07.756Z muru.worker[0]: KeyError: 'mug'",
		"2026-11-07T07:20:07.756Z muru.worker[12]: ",
		"2026-11-07T07:20:07.756Z muru.worker[-1]: x",
		"2026-11-07T07:20:07.756Z muru.worker[]: x",
		"2026-13-07T07:20:07.756Z muru.worker[0]: x",
		"2026-11-07 07:20:07 muru.worker[0]: x", "", "\x00", "Z muru.worker[0]: ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		l, ok := parseLogLine(line)
		if !ok {
			return
		}
		again := strings.TrimSuffix(string(appendLogLine(nil, l.at, l.worker, []byte(l.text))), "\n")
		if back, ok := parseLogLine(again); !ok || !back.at.Equal(l.at) || back.worker != l.worker {
			t.Errorf("%q became %q", line, again)
		}
	})
}

func FuzzAppendLogLine(f *testing.F) {
	for _, seed := range []string{"text", "\x00\xff", "a\nb", "é\u0085", "\t", `\x00`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := string(appendLogLine(nil, time.Now(), 7, text))
		body, ended := strings.CutSuffix(line, "\n")
		if l, ok := parseLogLine(body); !ended || !ok || l.worker != 7 || !utf8.ValidString(line) || strings.Contains(body, "\n") {
			t.Errorf("%q became %q", text, line)
		}
	})
}

func TestSweepRemovesTheLogsOfReleasesThatNobodyKnows(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one)) // shop@r6
	wantOK(t, do(t.Context(), b, "/"))
	logs := filepath.Join(h.stateDir, "logs")
	keep := []string{"shop-r5.log", "shop-r5.log.1", "notes.txt", "shop-r07.log", "Shop-r7.log", "shop-r7.log.gz.old", "-r7.log"}
	gone := []string{"shop-r7.log", "shop-r7.log.4", "my-r2-app-r3.log"}
	for _, name := range append(keep, gone...) {
		if err := os.WriteFile(filepath.Join(logs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := muru.ReleaseID{App: "shop", Number: 5}
	if err := h.Sweep(func(id muru.ReleaseID) bool { return id == known }); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(keep, "shop-r6.log") {
		if _, err := os.Stat(filepath.Join(logs, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range gone {
		if _, err := os.Stat(filepath.Join(logs, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
