package store

import (
	"errors"
	"fmt"

	"muru"
)

// What a call of a [Store] fails with. Compare with errors.Is; the error that
// comes back says more than the sentinel.
var (
	// ErrNotFound is returned by Get for a key that is not there (the revision
	// beside it holds), and by Txn, KeepAlive and Revoke for a lease that is
	// not there, any more or ever.
	ErrNotFound = errors.New("not found")

	// ErrCompacted is returned by Range and Watch for a revision below the
	// compaction, and by Compact for one that is compacted already. The way
	// on is a Range of now and a Watch from the revision after it.
	ErrCompacted = errors.New("the revision is compacted")

	// ErrFuture is returned by Range and Compact for a revision that no
	// transaction has reached yet.
	ErrFuture = errors.New("the revision is in the future")

	// ErrTooLarge is returned for a key, value or transaction over its limit;
	// nothing was done.
	ErrTooLarge = errors.New("too large")

	// ErrInvalid is returned for a request no store could do: an empty key,
	// the same key twice in one transaction. Nothing was done.
	ErrInvalid = errors.New("invalid request")

	// ErrUnavailable is returned when the store cannot do it now: the disk is
	// full, the store is closed, the context ended first. It was not done;
	// asking again later is safe.
	ErrUnavailable = errors.New("the store is not available")

	// ErrUnknown is returned when it may or may not have been done: every
	// timeout of a remote engine. Once-only writes use create-only keys
	// ([Absent]) and read back.
	ErrUnknown = errors.New("it is not known whether the change was made")
)

// What [Open] fails with, inside a [muru.Error] that names the file and the
// way out. ErrDamaged also comes from calls on a file that was damaged while
// it was open.
var (
	// ErrLocked is returned when another process holds the file.
	ErrLocked = errors.New("the state file is in use")

	// ErrDamaged is returned when the file is truncated, altered or no state
	// file. Nothing in it was changed.
	ErrDamaged = errors.New("the state file is damaged")

	// ErrFormat is returned when a newer muru wrote the file in a format that
	// this one does not know. Nothing in it was changed.
	ErrFormat = errors.New("the state file has a newer format")
)

func damaged(path string, cause error) error {
	return &muru.Error{
		Kind:    muru.KindFailed,
		Message: fmt.Sprintf("the state file %s is damaged: %v", path, cause),
		Hint:    "restore it from a backup or a snapshot, or move it away to start with an empty one; it was left as it is",
		Err:     errors.Join(ErrDamaged, cause),
	}
}

func locked(path string) error {
	return &muru.Error{
		Kind:    muru.KindRefused,
		Message: fmt.Sprintf("the state file %s is in use by another muru", path),
		Hint:    "stop that one first, or give this one a state directory of its own with --state",
		Err:     ErrLocked,
	}
}

func newerFormat(path string, found uint64) error {
	return &muru.Error{
		Kind:    muru.KindRefused,
		Message: fmt.Sprintf("the state file %s has format %d, and this muru knows formats up to %d", path, found, formatVersion),
		Hint:    "run the muru that wrote it or a newer one, or restore a backup from before that upgrade",
		Err:     ErrFormat,
	}
}

// unwritten is the error of a write that was not done because of the disk.
func unwritten(path string, cause error) error {
	return &muru.Error{
		Kind:    muru.KindFailed,
		Message: fmt.Sprintf("the state file %s cannot be written: %v", path, cause),
		Hint:    "make room on its file system; nothing was lost, and changes work again as soon as there is room",
		Err:     errors.Join(ErrUnavailable, cause),
	}
}

// misplaced is the error of a write to a file that somebody moved away.
func misplaced(path string) error {
	return &muru.Error{
		Kind:    muru.KindFailed,
		Message: fmt.Sprintf("the state file %s was removed or replaced while muru runs", path),
		Hint:    "put the same file back, and changes work again; a restart without it would begin with nothing",
		Err:     ErrUnavailable,
	}
}
