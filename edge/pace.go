package edge

import (
	"sync"
	"sync/atomic"
	"time"
)

// The slowest a client may send its request's body. bodyStall alone lets it
// send a byte a minute, and hold for days what waits for it: a connection, and
// past what the host reads ahead, a worker's thread.
const (
	// bodyGrace is the time that a client may take whatever it sends: a bad
	// radio link is silent for seconds and then goes on.
	bodyGrace = 10 * time.Second
	// bodyRate is what it must have sent for each second beyond, on average
	// since the beginning, in bytes. A 2G link has ten times that.
	bodyRate = 500
	// paceLook is how soon the pace looks again at the least: while no read is
	// blocked the time that a client has left stays as it is, however little.
	paceLook = 10 * time.Millisecond
)

// A pace holds a client to bodyRate, by the time that reads of its body were
// blocked: a backend that reads slowly, or late, is not its fault. It stops
// with the body's end, and when the answer has begun: who still sends then may
// be in a conversation, and pause. The zero value is not started.
type pace struct {
	grace  time.Duration
	tooLow func() // called once, when the client is too slow

	since  atomic.Int64 // a read is blocked since then, Unix ns; 0: none is
	waited atomic.Int64 // by the reads before, ns
	got    atomic.Int64 // bytes

	mu    sync.Mutex // guards what follows; held while tooLow is called
	timer *time.Timer
	over  bool
}

// begin is called before a read.
func (p *pace) begin(now time.Time) {
	p.since.Store(now.UnixNano())
	if p.waited.Load() > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil && !p.over {
		p.timer = time.AfterFunc(p.grace, p.check)
	}
}

// end is called after a read of n bytes.
func (p *pace) end(n int) {
	p.got.Add(int64(n))
	// Not 0, by which begin knows the first read.
	p.waited.Add(max(1, time.Now().UnixNano()-p.since.Swap(0)))
}

// blocked is how long reads have been blocked so far.
func (p *pace) blocked() time.Duration {
	blocked := time.Duration(p.waited.Load())
	if since := p.since.Load(); since != 0 {
		blocked += time.Duration(time.Now().UnixNano() - since)
	}
	return blocked
}

// check is called when the client may have become too slow.
func (p *pace) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	waited := p.blocked()
	allowed := p.grace + time.Duration(min(p.got.Load(), 1<<40)/bodyRate)*time.Second
	if waited < allowed {
		p.timer.Reset(max(allowed-waited, paceLook))
		return
	}
	p.over = true
	p.tooLow()
}

// stop ends it; tooLow is not called afterwards.
func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
