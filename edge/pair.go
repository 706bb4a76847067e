package edge

import (
	"sync"

	"muru"
)

// A pair brings what a judge is to hear of a request and of its shadow copy
// together. It takes the place of the judge's sink for the request. When both
// have ended the judge hears of the pair; when the copy comes to nothing, of
// the request as of any other. Safe for concurrent use; the judge is called
// with mu held, which keeps what it hears in order.
type pair struct {
	sink  muru.Sink
	share muru.Share // of the shadow

	mu      sync.Mutex // guards what follows
	user    *muru.Fact // nil: not ended
	copy    *muru.Fact // nil: not ended
	overdue []overdue  // of the request
	alone   bool       // there is no copy
}

type overdue struct {
	fact      muru.Fact
	threshold muru.Threshold
}

// Done implements [muru.Sink] for the request.
func (p *pair) Done(f muru.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = &f
	p.settle()
}

// Overdue implements [muru.Sink] for the request. A pair has its times in its
// facts.
func (p *pair) Overdue(f muru.Fact, t muru.Threshold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.alone:
		p.sink.Overdue(f, t)
	case p.copy == nil:
		p.overdue = append(p.overdue, overdue{f, t})
	}
}

// Pair implements [muru.Sink]; nothing gives a request two copies.
func (p *pair) Pair(muru.Fact, muru.Fact) { panic("BUG: a pair of a pair") }

// copied ends the copy. The first word on it counts.
func (p *pair) copied(f muru.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copy == nil && !p.alone {
		p.copy = &f
		p.settle()
	}
}

// dropped says that there is no copy after all.
func (p *pair) dropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copy != nil || p.alone {
		return
	}
	p.alone = true
	for _, o := range p.overdue {
		p.sink.Overdue(o.fact, o.threshold)
	}
	p.settle()
}

// settle is called with mu held, after each change.
func (p *pair) settle() {
	switch {
	case p.user == nil:
	case p.alone:
		p.sink.Done(*p.user)
	case p.copy != nil:
		p.user.Share, p.copy.Share = p.share, p.share
		p.sink.Pair(*p.user, *p.copy)
	}
}
