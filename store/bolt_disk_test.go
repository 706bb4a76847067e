package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"muru/store"
)

// childEnv names what this test binary does instead of testing, and where.
const childEnv = "MURU_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if task, path, ok := strings.Cut(os.Getenv(childEnv), ":"); ok {
		var err error
		switch task {
		case "fill the disk":
			err = fillDisk(path)
		case "write for ever":
			err = writeForEver(path)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(t *testing.T, task, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+task+":"+path)
	return cmd
}

// The limit of a process's file sizes is a disk that is full for it: bbolt
// cannot grow the file, or not write the pages beyond the limit. It needs no
// rights, but a process of its own.
func TestAFullDiskRefusesChangesLosesNothingAndEnds(t *testing.T) {
	out, err := child(t, "fill the disk", filepath.Join(t.TempDir(), "muru.db")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func limitFileSize(size uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = min(size, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

func fillDisk(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	written := make(map[string]int) // sizes
	refused := 0
	for i := range 60 {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		// Cut into the file here and there, also before its end.
		size := uint64(info.Size())
		if err := limitFileSize([]uint64{size, size / 2, size / 4, 4 * 4096, 2 * 4096}[i%5]); err != nil {
			return err
		}
		full, err := tryPut(s, written, fmt.Sprint("full/", i), i*3000)
		if err != nil {
			return err
		}
		if full {
			refused++
		}
		if err := limitFileSize(1 << 62); err != nil {
			return err
		}
		if full, err = tryPut(s, written, fmt.Sprint("free/", i), i*500); err != nil || full {
			return fmt.Errorf("with room again: refused %v, %w", full, err)
		}
	}
	if refused < 20 {
		return fmt.Errorf("only %d changes were refused", refused)
	}
	if err := checkWritten(s, written); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = store.Open(path, store.Options{}); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	return errors.Join(checkWritten(s, written), s.Close())
}

// tryPut puts a value of size; full says that the disk was.
func tryPut(s store.Store, written map[string]int, key string, size int) (full bool, err error) {
	_, err = s.Txn(ctx, nil, []store.Op{store.Put(key, make([]byte, size), 0)}, nil)
	if errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		if !strings.Contains(err.Error(), "file too large") {
			return true, fmt.Errorf("the error does not say why: %w", err)
		}
		return true, checkWritten(s, written) // reads go on
	}
	if err == nil {
		written[key] = size
	}
	return false, err
}

// checkWritten compares the store with what it accepted: all of it, and
// nothing that it refused.
func checkWritten(s store.Store, written map[string]int) error {
	page, err := s.Range(ctx, "", "", store.RangeOpt{})
	if err != nil {
		return err
	}
	for _, kv := range page.KVs {
		if size, ok := written[kv.Key]; !ok || size != len(kv.Value) {
			return fmt.Errorf("%s of %d bytes is there, written were %d", kv.Key, len(kv.Value), size)
		}
	}
	if len(page.KVs) != len(written) {
		return fmt.Errorf("%d keys of %d are there", len(page.KVs), len(written))
	}
	return nil
}

func TestWhatWasAnsweredSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	for range 3 {
		cmd := child(t, "write for ever", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, answered := bufio.NewScanner(out), 0
		for lines.Scan() {
			if answered, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			if answered%50 == 49 {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it had said when it died
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				answered = n
			}
		}
		_ = cmd.Wait()
		s := open(t, path)
		page, err := s.Range(ctx, "", "", store.RangeOpt{Desc: true, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		// The last one may have been done and not answered.
		if got := string(page.KVs[0].Value); got != fmt.Sprint(answered) && got != fmt.Sprint(answered+1) {
			t.Errorf("the last answer was %d, the store has %s", answered, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func writeForEver(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	for i := int(status.Rev); ; i++ {
		if _, err := s.Txn(ctx, nil, []store.Op{store.Put(fmt.Sprintf("%09d", i), fmt.Append(nil, i), 0)}, nil); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

func TestACommitThatFailedIsNotDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	s := open(t, path)
	put(t, s, "a", "1")
	full := errors.New("no space left on device")
	s.FailCommits(full, false)
	_, err := s.Txn(ctx, nil, []store.Op{store.Put("a", []byte("2"), 0)}, nil)
	wantWords(t, err, store.ErrUnavailable, path)
	if !errors.Is(err, full) {
		t.Errorf("the error hides its cause: %v", err)
	}
	if _, err := s.Grant(ctx, 1); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("grant: %v", err)
	}
	s.FailCommits(nil, false)
	if rev := put(t, s, "a", "3"); rev != 3 {
		t.Errorf("the next revision is %d", rev)
	}
}

func TestACommitThatMayHaveBeenDoneIsUnknownAndStopsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	s := open(t, path)
	s.FailCommits(errors.New("input/output error"), true)
	_, err := s.Txn(ctx, nil, []store.Op{store.Put("a", []byte("1"), 0)}, nil)
	if !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
	if _, _, err := s.Get(ctx, "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("it goes on: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if kv, _, err := open(t, path).Get(ctx, "a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("opened again: %v %v", kv, err)
	}
}

func TestAFileThatWasMovedAwayTakesNoWriteUntilItIsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	b, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put := func(value string) error {
		_, err := b.Txn(t.Context(), nil, []store.Op{store.Put("/k", []byte(value), 0)}, nil)
		return err
	}
	if err := put("1"); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"moved":    func() error { return nil },
		"replaced": func() error { return os.WriteFile(path, []byte("another"), 0o600) },
	} {
		if err := errors.Join(os.Rename(path, path+".away"), spoil()); err != nil {
			t.Fatal(err)
		}
		err := put("2")
		if want := "the state file " + path + " was removed or replaced while muru runs"; !errors.Is(err, store.ErrUnavailable) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		if kv, _, err := b.Get(t.Context(), "/k"); err != nil || string(kv.Value) != "1" {
			t.Errorf("%s: it reads %q, %v", name, kv.Value, err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		if err := put("1"); err != nil {
			t.Errorf("%s and put back: %v", name, err)
		}
	}
}
