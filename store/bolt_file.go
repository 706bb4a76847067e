package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"muru"
)

// createFile makes an empty store at path unless something is there. It
// appears whole or not at all, so an empty file at path was cut, not new.
func createFile(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	temp := f.Name()
	defer os.Remove(temp)
	if err := f.Close(); err != nil {
		return err
	}
	if err := initFile(temp); err != nil {
		return err
	}
	// A link, because a rename would replace what another muru made meanwhile.
	err = os.Link(temp, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP):
		err = os.Rename(temp, path) // a file system without links
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func initFile(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketKV, bucketLog, bucketLease, bucketMeta} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Put(metaFormat, encodeFormat(formatVersion)), meta.Put(metaState, state{rev: 1}.encode()))
	})
	return errors.Join(err, db.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockFile opens the file and takes its lock, which ends with the returned
// file, or with the process.
func lockFile(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(timeout)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
		}
		if !time.Now().Before(deadline) {
			return nil, errors.Join(locked(path), f.Close())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// unopened words what the operating system said about the file.
func unopened(path string, err error) error {
	if _, ok := errors.AsType[*muru.Error](err); ok {
		return err
	}
	e := &muru.Error{Message: fmt.Sprintf("the state file %s cannot be opened: %v", path, err), Err: errors.Join(ErrUnavailable, err)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = muru.KindDenied, "run muru as the user who owns the state directory, or give it another with --state"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Hint = "make room on its file system"
	}
	return e
}

// verifyFile reads all of the file and says what is wrong with it; torn is as
// in [Status].
func verifyFile(f *os.File, path string) (torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, unopened(path, err)
	}
	if !info.Mode().IsRegular() {
		return false, unopened(path, errors.New("it is not a file"))
	}
	meta, torn, err := readMeta(f, info.Size())
	if err != nil {
		return false, damaged(path, err)
	}
	w, err := newPageWalk(f, info.Size(), meta)
	if err != nil {
		return false, damaged(path, err)
	}
	v := &verifier{}
	w.entry = v.entry
	if err := v.run(w); err != nil {
		if v.format > formatVersion {
			return false, newerFormat(path, v.format)
		}
		return false, damaged(path, err)
	}
	return torn, nil
}

// A verifier reads every record of a file, and compares their numbers with
// those the last transaction wrote down.
type verifier struct {
	format  uint64
	state   *state
	found   state  // its counts only
	lastKey string // of the kv bucket
}

func (v *verifier) run(w *pageWalk) error {
	buckets, err := w.buckets()
	if err != nil {
		return err
	}
	// meta first: the format decides how the others are read.
	for _, name := range [][]byte{bucketMeta, bucketKV, bucketLog, bucketLease} {
		value, ok := buckets[string(name)]
		if !ok {
			return fmt.Errorf("bucket %s is missing", name)
		}
		if err := w.bucket(string(name), value); err != nil {
			return err
		}
		if v.format == 0 || v.state == nil {
			return errors.New("bucket meta is incomplete")
		}
		if v.format > formatVersion {
			return fmt.Errorf("format %d", v.format)
		}
	}
	want, got := *v.state, v.found
	if want.live != got.live || want.versions != got.versions || want.logged != got.logged || want.leases != got.leases {
		return fmt.Errorf("records are missing: %d keys in %d versions, %d changes and %d leases of %d, %d, %d and %d",
			got.live, got.versions, got.logged, got.leases, want.live, want.versions, want.logged, want.leases)
	}
	return w.freelist()
}

func (v *verifier) entry(bucket string, key, value []byte) error {
	switch bucket {
	case string(bucketKV):
		return v.version(key, value)
	case string(bucketLog):
		rev, _, err := decodeLog(key, value)
		if err == nil && rev > v.state.rev {
			err = fmt.Errorf("a change of revision %d after the newest, %d", rev, v.state.rev)
		}
		v.found.logged++
		return err
	case string(bucketLease):
		_, of, _, err := decodeLease(key, value)
		if of == "" {
			v.found.leases++
		}
		return err
	}
	return v.meta(key, value)
}

func (v *verifier) version(key, value []byte) error {
	got, err := decodeVersion(key, value)
	if err != nil {
		return err
	}
	if got.kv.Mod > v.state.rev {
		return fmt.Errorf("a key of revision %d after the newest, %d", got.kv.Mod, v.state.rev)
	}
	v.found.versions++
	// A key's newest version comes first and says whether it is there; the
	// rest follow it and are older.
	if got.kv.Key != v.lastKey || v.found.versions == 1 {
		v.lastKey = got.kv.Key
		if !got.del {
			v.found.live++
		}
	}
	return nil
}

func (v *verifier) meta(key, value []byte) (err error) {
	switch string(key) {
	case string(metaFormat):
		v.format, err = decodeFormat(value)
	case string(metaState):
		var s state
		// Another format may have another state.
		if s, err = decodeState(value); err != nil && v.format > formatVersion {
			err = nil
		}
		v.state = &s
	}
	return err
}

// inPlace returns an error if the file is not at its path any more: what is
// written to it then is gone with this process, and nobody must be told that
// it is kept.
func (b *Bolt) inPlace() error {
	here, err := b.file.Stat()
	if err != nil {
		return unwritten(b.path, err)
	}
	there, err := os.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(here, there) {
		return misplaced(b.path)
	}
	return nil // a directory that cannot be read just now says nothing
}
