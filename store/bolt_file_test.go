package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"muru"
	"muru/store"
)

var ctx = context.Background()

func put(t testing.TB, s store.Store, key, value string) store.Rev {
	t.Helper()
	result, err := s.Txn(ctx, nil, []store.Op{store.Put(key, []byte(value), 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Rev
}

// fill makes a store with all there is in one: many keys, large values, old
// versions, deletions, leases and a compaction. It returns the closed file.
func fill(t testing.TB) (path string) {
	path = filepath.Join(t.TempDir(), "muru.db")
	s := open(t, path)
	for i := range 12 {
		ops := []store.Op{store.Put("/muru/local/state", fmt.Append(nil, i), 0)}
		for j := range 10 {
			ops = append(ops, store.Put(fmt.Sprintf("/muru/local/event/%04d", i*10+j), bytes.Repeat([]byte("event "), i), 0))
		}
		if _, err := s.Txn(ctx, nil, ops, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "/muru/local/large", strings.Repeat("large", 1500))
	lease, err := s.Grant(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Txn(ctx, nil, []store.Op{
		store.Put("/muru/local/leased", []byte("x"), lease.ID),
		store.DelRange("/muru/local/event/0010", "/muru/local/event/0030"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(ctx, 8); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// dump reads everything out of a store.
func dump(s store.Store) (string, error) {
	status, err := s.Status(ctx)
	if err != nil {
		return "", err
	}
	b := fmt.Appendln(nil, status.Rev, status.Compacted, status.Keys, status.Leases)
	for _, rev := range []store.Rev{status.Compacted, status.Rev} {
		for _, desc := range []bool{false, true} {
			page, err := s.Range(ctx, "", "", store.RangeOpt{AtRev: rev, Desc: desc})
			if err != nil {
				return "", err
			}
			for _, kv := range page.KVs {
				b = appendKV(b, kv)
			}
		}
	}
	wctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := s.Watch(wctx, "", "", status.Compacted)
	if err != nil {
		return "", err
	}
	for batch := range c {
		if batch.Err != nil {
			return "", batch.Err
		}
		for _, change := range batch.Events {
			b = appendKV(b, change.KV)
			if change.Prev != nil {
				b = appendKV(b, *change.Prev)
			}
		}
		if batch.Rev == status.Rev {
			return string(b), nil
		}
	}
	return "", fmt.Errorf("the watch ended before revision %d", status.Rev)
}

func appendKV(b []byte, kv store.KV) []byte {
	b = append(append(b, kv.Key...), '=')
	b = append(append(b, kv.Value...), ' ')
	for _, n := range []int64{int64(kv.Create), int64(kv.Mod), kv.Version, int64(kv.Lease)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	return append(b, '\n')
}

// wantWords checks that err is of sentinel and words it for people.
func wantWords(t *testing.T, err, sentinel error, path string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("got error %v, want %v", err, sentinel)
	}
	worded, ok := errors.AsType[*muru.Error](err)
	if !ok || !strings.Contains(worded.Message, path) || worded.Hint == "" || strings.Contains(worded.Message, "\n") {
		t.Fatalf("error %q with hint %q does not say which file and what to do", err, worded.Hint)
	}
}

func TestAFlippedByteIsRefusedOrChangesNothing(t *testing.T) {
	s := open(t, fill(t))
	want, err := dump(s)
	var copied bytes.Buffer // without the room to grow that a file has
	if err := errors.Join(err, s.Snapshot(ctx, &copied), s.Close()); err != nil {
		t.Fatal(err)
	}
	whole := copied.Bytes()
	damaged := filepath.Join(t.TempDir(), "muru.db")
	refused, harmless := 0, 0
	for offset := range whole {
		// Every byte of the heads of pages, some of the rest.
		if offset%4096 >= 64 && offset%131 != 0 {
			continue
		}
		flipped := bytes.Clone(whole)
		flipped[offset] ^= byte(1 << (offset % 8))
		if err := os.WriteFile(damaged, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(damaged, store.Unsynced())
		if err != nil {
			wantWords(t, err, store.ErrDamaged, damaged)
			refused++
			if after, _ := os.ReadFile(damaged); !bytes.Equal(after, flipped) {
				t.Fatalf("byte %d: the file that was refused was changed", offset)
			}
			continue
		}
		harmless++
		got, err := dump(s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatalf("byte %d: opened, and then: %v", offset, err)
		}
		if got != want {
			t.Fatalf("byte %d: opened with other contents", offset)
		}
	}
	if refused < harmless/2 {
		t.Errorf("only %d of %d flips were refused", refused, refused+harmless)
	}
	t.Logf("%d flips were refused, %d changed nothing", refused, harmless)
}

func TestATruncatedFileIsRefusedAtEveryLength(t *testing.T) {
	path := fill(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "muru.db")
	used := len(bytes.TrimRight(whole, "\x00"))
	for size := 0; size < used-4096; size += 509 {
		if err := os.WriteFile(short, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(short, store.Unsynced())
		if err == nil {
			_ = s.Close()
			t.Fatalf("a file cut to %d of %d bytes was opened", size, len(whole))
		}
		wantWords(t, err, store.ErrDamaged, short)
	}
}

func TestAFileThatIsNoStoreIsRefused(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte("hello\n"), "zeros": make([]byte, 64<<10),
		"ones": bytes.Repeat([]byte{0xff}, 64<<10), "a database of something else": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "muru.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(path, store.Options{})
			wantWords(t, err, store.ErrDamaged, path)
		})
	}
}

func TestADirectoryInPlaceOfTheFileIsRefused(t *testing.T) {
	path := t.TempDir()
	_, err := store.Open(path, store.Options{})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
}

func TestANewerFormatIsRefusedByName(t *testing.T) {
	path := fill(t)
	if err := store.SetFormat(path, 2); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	_, err := store.Open(path, store.Options{})
	wantWords(t, err, store.ErrFormat, path)
	if !strings.Contains(err.Error(), "has format 2, and this muru knows formats up to 1") {
		t.Errorf("the error says %q", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file that was refused was changed")
	}
}

func TestASecondOpenIsRefusedWhileTheFirstLasts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	first := open(t, path)
	_, err := store.Open(path, store.Options{LockTimeout: 20 * time.Millisecond})
	wantWords(t, err, store.ErrLocked, path)
	put(t, first, "a", "still works")

	second := make(chan error, 1)
	go func() {
		s, err := store.Open(path, store.Options{LockTimeout: 10 * time.Second})
		if err == nil {
			err = s.Close()
		}
		second <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatalf("the file was free, and yet: %v", err)
	}
}

func TestALostNewestPageIsReportedAndLosesNothingAfterAnOrderlyClose(t *testing.T) {
	path := fill(t)
	for page := range int64(2) {
		s := open(t, path)
		put(t, s, "/muru/local/last", fmt.Sprint(page))
		want, err := dump(s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(make([]byte, 512), page*int64(os.Getpagesize()))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		s = open(t, path)
		status, err := s.Status(ctx)
		if err != nil || !status.Torn {
			t.Errorf("page %d: status %+v, %v", page, status, err)
		}
		got, err := dump(s)
		if err != nil || got != want {
			t.Errorf("page %d: other contents, %v", page, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASnapshotIsAStore(t *testing.T) {
	s := open(t, fill(t))
	copied := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Snapshot(ctx, f), f.Close()); err != nil {
		t.Fatal(err)
	}
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "later", "not in the copy")
	got, err := dump(open(t, copied))
	if err != nil || got != want {
		t.Errorf("the copy differs: %v", err)
	}
}

func TestASnapshotNobodyReadsHoldsUpNoWriter(t *testing.T) {
	s := open(t, fill(t))
	blocked, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		first := true
		done <- s.Snapshot(ctx, writerFunc(func(p []byte) (int, error) {
			if first {
				first = false
				close(blocked)
				<-release
			}
			return len(p), nil
		}))
	}()
	<-blocked
	for i := range 40 { // the file grows to several times its size
		put(t, s, fmt.Sprint("/new/", i), strings.Repeat("x", store.MaxValueBytes))
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAFileDamagedWhileOpenIsAnErrorAndNoCrash(t *testing.T) {
	for name, damage := range map[string]func(f *os.File, size int64) error{
		"truncated": func(f *os.File, _ int64) error { return f.Truncate(8192) },
		"overwritten": func(f *os.File, size int64) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size)-8192), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := fill(t)
			s := open(t, path)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err := errors.Join(err, damage(f, info.Size()), f.Close()); err != nil {
				t.Fatal(err)
			}
			_, err = s.Range(ctx, "", "", store.RangeOpt{})
			wantWords(t, err, store.ErrDamaged, path)
			if _, err = s.Txn(ctx, nil, []store.Op{store.Put("a", nil, 0)}, nil); err == nil {
				t.Error("a damaged file took a change")
			}
			_ = s.Close()
			_, err = store.Open(path, store.Options{})
			wantWords(t, err, store.ErrDamaged, path)
		})
	}
}
