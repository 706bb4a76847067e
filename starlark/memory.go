package starlark

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// The memory limit of a run is enforced from outside, because neither Go nor
// the interpreter counts what one of them allocates. Every run with a limit
// has a watchdog that samples the heap of the process and charges its growth
// in equal parts to the runs that were computing, as opposed to waiting in a
// builtin, since the sample before. What the heap loses is credited the same
// way. When a run's charge passes its limit, garbage is collected, and if
// the charge is still over, the run is stopped on the line it is on.
//
// So it is coarse: growth of the edge while a recipe computes is charged to
// the recipe, two recipes that compute at once share the blame, a run can
// pass its limit by what it allocates in one sample period (tens of
// megabytes), and a single operation is seen only afterwards. It never stops
// a run while the live heap of the whole process is below the run's limit,
// and a recipe that waits is never stopped for what others allocate.

// memoryPeriod is the time between samples.
const memoryPeriod = 20 * time.Millisecond

// leftovers is how much the heap may have grown during a run, in bytes, before
// the end of the run gives memory back to the system. That takes a collection,
// so it is not done for little.
const leftovers = 128 << 20

// computing counts the runs of the process that compute now.
var computing atomic.Int64

// activity counts the threads of a run that compute. The zero value is a run
// of which nothing does.
type activity struct {
	threads atomic.Int64
	seen    atomic.Bool // it computed since the last sample
}

func (a *activity) enter() {
	if a.threads.Add(1) == 1 {
		computing.Add(1)
	}
	a.seen.Store(true)
}

func (a *activity) leave() {
	if a.threads.Add(-1) == 0 {
		computing.Add(-1)
	}
}

// watchMemory starts the watchdog of a run, which calls exceeded at most
// once. The returned func ends it and waits for it.
func watchMemory(a *activity, limit int64, exceeded context.CancelCauseFunc) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	last := heapBytes()
	began := last
	go func() {
		defer close(done)
		ticker := time.NewTicker(memoryPeriod)
		defer ticker.Stop()
		c := charge{limit: limit, last: last}
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			active := a.seen.Swap(a.threads.Load() > 0) || a.threads.Load() > 0
			if c.sample(active) {
				exceeded(memoryBudget(limit))
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		if heapBytes()-began > leftovers {
			// Else the collector would let the heap grow to twice of what this
			// run had before it collects, and keep that from everybody else.
			debug.FreeOSMemory()
		}
	}
}

// charge is how much of the heap one run is held responsible for, in bytes.
type charge struct {
	limit, last, bytes int64
}

// sample reports whether the run is over its limit.
func (c *charge) sample(active bool) bool {
	c.update(active)
	if !active || c.bytes <= c.limit || !collectGarbage(c.bytes > 2*c.limit) {
		return false
	}
	c.update(active)
	return c.bytes > c.limit
}

func (c *charge) update(active bool) {
	heap := heapBytes()
	delta := heap - c.last
	c.last = heap
	if active || delta < 0 {
		c.bytes += delta / max(1, computing.Load())
	}
	c.bytes = min(max(c.bytes, 0), heap)
}

// heapBytes returns the size of all objects on the heap, garbage that was
// not collected yet included.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// garbage keeps collections forced from here apart, however many runs are
// near their limit.
var garbage struct {
	sync.Mutex
	next time.Time // when the next may be forced; guarded by Mutex
}

// collectGarbage collects and reports so, unless it did just now and the
// matter is not urgent.
func collectGarbage(urgent bool) bool {
	garbage.Lock()
	defer garbage.Unlock()
	start := time.Now()
	if start.Before(garbage.next) && !urgent {
		return false
	}
	runtime.GC()
	end := time.Now()
	garbage.next = end.Add(min(10*end.Sub(start), 200*time.Millisecond))
	return true
}
