package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// mapSize is how much address space is reserved for the file at first. Within
// it a growing file is never mapped anew, which would wait for every reader:
// a slow Snapshot would hold up the writers.
const mapSize = 256 << 20

// growSize is by how much a growing file is made longer at once.
const growSize = 1 << 20

// Options are the choices of [Open]. The zero value is good.
type Options struct {
	// LockTimeout is how long to wait for another process that holds the
	// file, which may be about to end. The zero value is a second; a negative
	// one does not wait.
	LockTimeout time.Duration

	noSync bool // tests only: leave out what makes a change survive a power cut
}

// A Bolt is the [Store] in one file on this machine, held by one process at a
// time. It never returns ErrUnknown but in one case: when the disk failed at
// the very last write of a transaction. It then refuses everything until it
// is opened again, because only the disk knows.
type Bolt struct {
	path string
	file *os.File // bbolt's
	db   *bbolt.DB
	torn bool

	// writer is held, by a value in it, by the call that changes the file. A
	// channel and not a mutex, so that a wait for it can end with a context.
	writer chan struct{}
	failed atomic.Pointer[error] // set once nothing may touch the file any more

	closing chan struct{} // closed when Close begins
	running sync.WaitGroup
	closed  sync.Once
	err     error // of Close

	mu      sync.Mutex    // guards the following
	changed chan struct{} // closed and replaced after every revision
	leases  map[LeaseID]*leaseTimer
	seats   map[string]chan struct{}

	sooner chan struct{} // has a value when a lease may end before the others
	commit func(*bbolt.Tx) error
}

var _ Store = (*Bolt)(nil)

// Open opens the store in the file at path, creating it and its directory if
// they are not there. It reads the whole file and checks it first: one that
// another process holds is ErrLocked, a damaged one ErrDamaged, a newer one
// ErrFormat, each in a [muru.Error] for people; the file is then as it was.
// The caller closes the store, which also owns the goroutine that ends leases.
func Open(path string, opt Options) (*Bolt, error) {
	if opt.LockTimeout == 0 {
		opt.LockTimeout = time.Second
	}
	if err := createFile(path); err != nil {
		return nil, unopened(path, err)
	}
	f, err := lockFile(path, opt.LockTimeout)
	if err != nil {
		return nil, unopened(path, err)
	}
	torn, err := verifyFile(f, path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	db, err := openBolt(path, f, opt)
	if err != nil {
		return nil, err
	}
	b := &Bolt{
		path: path, file: f, db: db, torn: torn,
		writer: make(chan struct{}, 1), closing: make(chan struct{}),
		changed: make(chan struct{}), seats: make(map[string]chan struct{}),
		sooner: make(chan struct{}, 1), commit: (*bbolt.Tx).Commit,
	}
	if b.leases, err = b.readLeases(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b.running.Go(b.endLeases)
	return b, nil
}

// openBolt opens bbolt on f, which is locked and verified: bbolt locks the
// same open file, which succeeds, and owns it then.
func openBolt(path string, f *os.File, opt Options) (db *bbolt.DB, err error) {
	defer rescue(path, &err)()
	handed := false
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         time.Second,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: mapSize,
		NoSync:          opt.noSync,
		NoStatistics:    true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			if handed {
				return os.OpenFile(name, flag, mode)
			}
			handed = true
			return f, nil
		},
	})
	if err != nil {
		return nil, unopened(path, err)
	}
	db.AllocSize = growSize
	return db, nil
}

// rescue turns a panic of bbolt, also one for an address outside the mapping,
// into ErrDamaged: the file was altered behind its back. Use it as
//
//	defer rescue(path, &err)()
func rescue(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		p := recover()
		if p == nil {
			return
		}
		if text, ok := p.(string); ok && strings.HasPrefix(text, "BUG:") {
			panic(p)
		}
		*err = damaged(path, fmt.Errorf("%v", p))
	}
}

// usable returns why the store cannot be used now, if so.
func (b *Bolt) usable(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if failed := b.failed.Load(); failed != nil {
		return *failed
	}
	select {
	case <-b.closing:
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	default:
		return nil
	}
}

// view calls fn with a snapshot of the file.
func (b *Bolt) view(ctx context.Context, fn func(*reader) error) (err error) {
	if err := b.usable(ctx); err != nil {
		return err
	}
	defer rescue(b.path, &err)()
	err = b.db.View(func(tx *bbolt.Tx) error {
		r, err := newReader(tx)
		if err != nil {
			return err
		}
		return fn(r)
	})
	return b.explain(err)
}

// explain words what bbolt and the decoders said. Errors that are worded
// already pass.
func (b *Bolt) explain(err error) error {
	switch {
	case errors.Is(err, berrors.ErrDatabaseNotOpen), errors.Is(err, berrors.ErrInvalidMapping):
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	case errors.Is(err, errMalformed), errors.Is(err, errChecksum):
		return damaged(b.path, err)
	}
	return err
}

// errNothing ends an update that changed nothing.
var errNothing = errors.New("nothing to write")

// update calls fn with a transaction to change and makes it durable, unless
// fn returns an error. errNothing leaves the file as it is and is no error.
// after, if not nil, is called before the next writer may begin.
func (b *Bolt) update(ctx context.Context, fn func(*writer) error, after func()) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	select {
	case b.writer <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait to write: %w: %w", ErrUnavailable, context.Cause(ctx))
	case <-b.closing:
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	defer func() { <-b.writer }()
	if err := b.usable(ctx); err != nil {
		return err
	}
	advanced, err := b.write(fn)
	if errors.Is(err, errNothing) {
		return nil
	}
	if commit, ok := errors.AsType[*commitError](err); ok {
		return b.settle(commit)
	}
	if err != nil {
		return b.explain(err)
	}
	if after != nil {
		after()
	}
	if advanced {
		b.wake()
	}
	return nil
}

// A commitError is an error of bbolt's commit of transaction tx.
type commitError struct {
	tx  int
	err error
}

func (e *commitError) Error() string { return e.err.Error() }

// write runs fn and commits; advanced says whether that made a revision.
func (b *Bolt) write(fn func(*writer) error) (advanced bool, err error) {
	if err := b.inPlace(); err != nil {
		return false, err
	}
	whole := false
	defer func() {
		if !whole && err != nil {
			// A panic may have left bbolt's lists half changed.
			failed := err
			b.failed.Store(&failed)
		}
	}()
	defer rescue(b.path, &err)()
	tx, err := b.db.Begin(true)
	if err != nil {
		whole = true
		return false, err
	}
	id := tx.ID()
	w, err := newWriter(tx)
	if err == nil {
		before := w.state.rev
		if err = fn(w); err == nil {
			advanced = w.state.rev > before
			err = tx.Bucket(bucketMeta).Put(metaState, w.state.encode())
		}
	}
	if err != nil {
		_ = tx.Rollback()
		whole = true
		return false, err
	}
	if err := b.commit(tx); err != nil {
		whole = true
		return false, &commitError{id, err}
	}
	whole = true
	return advanced, nil
}

// settle says what became of a transaction whose commit failed. bbolt writes
// and syncs the data first and the page that makes it count last. If that
// page cannot be seen, the transaction was not done and bbolt has put itself
// back. If it can be seen, it may or may not be on disk, and going on would
// overwrite pages that the disk may still need.
func (b *Bolt) settle(commit *commitError) error {
	seen, err := b.lastTx()
	if err == nil && seen < commit.tx {
		return unwritten(b.path, commit.err)
	}
	err = errors.Join(commit.err, err)
	failed := fmt.Errorf("%w: the disk failed at the last write to %s, open it again: %w", ErrUnavailable, b.path, err)
	b.failed.Store(&failed)
	return fmt.Errorf("write %s: %w: %w", b.path, ErrUnknown, err)
}

// lastTx returns bbolt's number of the last transaction that can be seen.
func (b *Bolt) lastTx() (id int, err error) {
	defer rescue(b.path, &err)()
	err = b.db.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil })
	return id, err
}

// wake tells every watch that there is something to read.
func (b *Bolt) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait returns a channel that is closed after the next revision.
func (b *Bolt) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Status describes the store.
func (b *Bolt) Status(ctx context.Context) (Status, error) {
	var s Status
	err := b.view(ctx, func(r *reader) error {
		s = Status{
			Rev: r.state.rev, Compacted: r.state.compacted, Keys: int(r.state.live),
			Leases: int(r.state.leases), Bytes: r.tx.Size(), Torn: b.torn,
		}
		return nil
	})
	return s, err
}

// Snapshot writes a file that [Open] opens. A slow w holds up Close, and
// keeps the room of what is deleted meanwhile, but holds up no writer.
func (b *Bolt) Snapshot(ctx context.Context, w io.Writer) error {
	return b.view(ctx, func(r *reader) error {
		out := &endableWriter{ctx: ctx, closing: b.closing, w: w}
		_, err := r.tx.WriteTo(out)
		if err = cmp.Or(out.err, err); err != nil { // bbolt's error has only the text of w's
			return fmt.Errorf("snapshot: %w", err)
		}
		return nil
	})
}

// An endableWriter fails when ctx ends or closing is closed.
type endableWriter struct {
	ctx     context.Context
	closing <-chan struct{}
	w       io.Writer
	err     error // that ended it
}

func (w *endableWriter) Write(p []byte) (n int, err error) {
	select {
	case <-w.ctx.Done():
		w.err = fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(w.ctx))
	case <-w.closing:
		w.err = fmt.Errorf("%w: it is closed", ErrUnavailable)
	default:
		n, w.err = w.w.Write(p)
	}
	return n, w.err
}

// Close ends what the store runs and releases the file. Leaders' keys stay;
// the next leader replaces them.
func (b *Bolt) Close() error {
	b.closed.Do(func() {
		b.mu.Lock()
		close(b.closing)
		b.mu.Unlock()
		b.running.Wait()
		b.writer <- struct{}{} // nobody gets it again
		if b.failed.Load() == nil {
			// An empty transaction, so that both meta pages of a store that was
			// closed in order show the same and the loss of either loses
			// nothing. A full disk does not matter here.
			_, _ = b.write(func(*writer) error { return nil })
		}
		if b.failed.Load() != nil {
			// bbolt may hold its own locks for ever: its mapping stays. The
			// file's lock is what others wait for.
			b.err = errors.Join(syscall.Flock(int(b.file.Fd()), syscall.LOCK_UN), b.file.Close())
			return
		}
		b.err = b.db.Close()
	})
	return b.err
}
