package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// Workers print to files of their own, never to a pipe of ours: a pipe breaks
// the next print of a worker that outlives the daemon. The host reads what
// they append, stamps it and writes it to the release's log. It looks every
// followIdle, or followBusy while something is printed, and before anyone
// asks for the log; a stamp is that much late.
//
// What was read is given back to the disk by punching a hole at the front of
// the file, which loses nothing that is being appended. Where that is not
// possible the file is truncated when all of it was read; a line printed in
// that very instant is lost.
const (
	followIdle  = 100 * time.Millisecond
	followBusy  = 25 * time.Millisecond
	freeEvery   = 1 << 20 // bytes read between two times of giving back
	readAtOnce  = 64 << 10
	partialWait = time.Second // until an unfinished line is written as it is
)

// follower copies what one worker process prints to its release's log. It is
// safe for concurrent use.
type follower struct {
	worker int
	log    *releaseLog

	mu      sync.Mutex // guards all below
	file    *os.File
	offset  int64 // read up to here
	freed   int64
	partial []byte // a line without its end
	since   time.Time
	buf     []byte
	batch   []byte
}

// follow opens path, which the worker appends to.
func follow(path string, worker int, log *releaseLog) (*follower, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("follow the worker's output: %w", err)
	}
	return &follower{worker: worker, log: log, file: file, buf: make([]byte, readAtOnce)}, nil
}

// poll copies everything that was printed so far and reports whether there
// was anything.
func (f *follower) poll() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(false)
}

// finish copies the rest, an unfinished line included, and ends.
func (f *follower) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return
	}
	f.read(true)
	_ = f.file.Close()
	f.file = nil
}

func (f *follower) read(last bool) bool {
	if f.file == nil {
		return false
	}
	now, any := time.Now(), false
	if info, err := f.file.Stat(); err == nil && info.Size() < f.offset {
		f.offset, f.freed = info.Size(), 0 // somebody else truncated it
	}
	for {
		n, err := f.file.ReadAt(f.buf, f.offset)
		f.offset += int64(n)
		f.take(now, f.buf[:n])
		any = any || n > 0
		if f.offset-f.freed >= freeEvery {
			f.free() // a worker that prints as fast as we read must not fill the disk meanwhile
		}
		if err != nil || n == 0 {
			break
		}
	}
	if len(f.partial) > 0 && (last || now.Sub(f.since) > partialWait) {
		f.line(now, f.partial)
		f.partial = f.partial[:0]
	}
	f.log.write(f.batch)
	f.batch = f.batch[:0]
	if f.offset-f.freed >= freeEvery {
		f.free()
	}
	return any
}

// take splits what was read into lines.
func (f *follower) take(now time.Time, text []byte) {
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		if room := maxLogLine - len(f.partial); len(line) > room {
			line, rest, ended = line[:room], text[room:], true
		}
		text = rest
		switch {
		case !ended:
			if len(f.partial) == 0 {
				f.since = now
			}
			f.partial = append(f.partial, line...)
		case len(f.partial) > 0:
			f.line(now, append(f.partial, line...))
			f.partial = f.partial[:0]
		default:
			f.line(now, line)
		}
	}
}

func (f *follower) line(now time.Time, line []byte) {
	f.batch = appendLogLine(f.batch, now, f.worker, bytes.TrimSuffix(line, []byte{'\r'}))
	if len(f.batch) > freeEvery {
		f.log.write(f.batch)
		f.batch = f.batch[:0]
	}
}

func (f *follower) free() {
	if freeRead(f.file, f.offset) == nil {
		f.freed = f.offset
		return
	}
	if info, err := f.file.Stat(); err == nil && info.Size() == f.offset && f.file.Truncate(0) == nil {
		f.offset, f.freed = 0, 0
	}
}

// followers are all outputs the host follows.
type followers struct {
	mu  sync.Mutex // guards all
	all map[*follower]struct{}
}

func (fs *followers) add(f *follower) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		fs.all = make(map[*follower]struct{})
	}
	fs.all[f] = struct{}{}
}

// finish ends one of them.
func (fs *followers) finish(f *follower) {
	f.finish()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, f)
}

func (fs *followers) poll() (any bool) {
	fs.mu.Lock()
	now := make([]*follower, 0, len(fs.all))
	for f := range fs.all {
		now = append(now, f)
	}
	fs.mu.Unlock()
	for _, f := range now {
		any = f.poll() || any
	}
	return any
}

// run polls until ctx ends.
func (fs *followers) run(ctx context.Context) {
	timer := time.NewTimer(followIdle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if fs.poll() {
			timer.Reset(followBusy)
		} else {
			timer.Reset(followIdle)
		}
	}
}
