package edge

import (
	"syscall"
	"time"
)

// connShare is how many of the process's file descriptors clients may hold,
// in per cent. The others are for what must work whatever clients do: the
// control socket, new workers, connections to upstreams, files.
const connShare = 75

// maxConns returns how many connections the edge takes at once. A client over
// it is hung up on at once: in the backlog it would wait for an answer that
// idle ones keep from it.
func maxConns() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1 << 20
	}
	return int64(min(limit.Cur, 1<<20) / 100 * connShare) // at least 75, where the limit is 100
}

// crowdedEvery is how often the log says that clients were turned away.
const crowdedEvery = time.Minute

// takes counts one more connection, unless there are too many.
func (e *Edge) takes() bool {
	if e.open.Add(1) <= e.maxConns {
		return true
	}
	e.open.Add(-1)
	now := time.Now().UnixNano()
	if last := e.crowded.Load(); now-last > int64(crowdedEvery) && e.crowded.CompareAndSwap(last, now) {
		e.log.Warn("too many connections: new ones are closed until some end", "open", e.maxConns)
	}
	return false
}
