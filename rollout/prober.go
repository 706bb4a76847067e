package rollout

import (
	"context"
	"net/url"
	"regexp"
	"sync"
	"time"

	"muru"
)

// A prober requests the paths of a probe gate from both releases, over and
// over. It fails when the candidate alone failed often enough in a row: a
// path that fails on both says nothing about the candidate and starts the row
// anew. Its methods are safe for concurrent use.
type prober struct {
	e    *Engine
	gate muru.Gate
	who  arms
	wake func()
	body *regexp.Regexp // nil: any body will do

	mu      sync.Mutex // guards what is below
	started bool
	window  int
	kick    chan struct{} // a new window has begun
	paths   []probedPath  // in the order of the gate's
}

// probedPath is what one path answered last.
type probedPath struct {
	window              int // of the last answer, 0: none
	row                 int // failures in a row of the candidate alone
	failed              bool
	candidate, baseline string
}

// newProber returns a prober that has asked nothing. The gate's body was
// compiled when the request came in.
func newProber(e *Engine, g muru.Gate, who arms, wake func()) *prober {
	p := &prober{e: e, gate: g, who: who, wake: wake, kick: make(chan struct{}, 1), paths: make([]probedPath, len(g.Paths))}
	if g.Body != "" {
		p.body = regexp.MustCompile(g.Body)
	}
	return p
}

// begin starts a window, and the rounds with the first one.
func (p *prober) begin(ctx context.Context, spawn func(func()) bool) {
	p.mu.Lock()
	p.window++
	start := !p.started
	p.started = true
	p.mu.Unlock()
	if start {
		spawn(func() { p.run(ctx) })
		return
	}
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// run asks all paths, waits and asks again until ctx ends.
func (p *prober) run(ctx context.Context) {
	for {
		p.round(ctx)
		again, stop := p.e.clock.After(p.gate.Every)
		select {
		case <-again:
		case <-p.kick:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// round asks every path of both releases at the same time.
func (p *prober) round(ctx context.Context) {
	p.mu.Lock()
	window := p.window
	p.mu.Unlock()
	var wait sync.WaitGroup
	for i, path := range p.gate.Paths {
		wait.Go(func() {
			var baseline string
			baselineOK := true
			var pair sync.WaitGroup
			if !p.who.Baseline.IsZero() {
				pair.Go(func() { baseline, baselineOK = p.ask(ctx, p.who.Baseline, path) })
			}
			candidate, ok := p.ask(ctx, p.who.Candidate, path)
			pair.Wait()
			if ctx.Err() == nil {
				p.note(i, window, candidate, ok, baseline, baselineOK)
			}
		})
	}
	wait.Wait()
	p.wake()
}

// note keeps what a path answered.
func (p *prober) note(i, window int, candidate string, ok bool, baseline string, baselineOK bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := &p.paths[i]
	was.window, was.candidate, was.baseline = window, candidate, baseline
	was.failed = !ok && baselineOK
	if was.failed {
		was.row++
	} else {
		was.row = 0
	}
}

// ask requests one path and says what came back and whether that is well.
func (p *prober) ask(ctx context.Context, id muru.ReleaseID, path string) (said string, ok bool) {
	r, err := p.e.Probe(ctx, ProbeRequest{Release: id, Path: path, Within: p.gate.Within})
	switch {
	case err != nil:
		return err.Error(), false
	case !r.answered && r.Status == muru.ReasonHardTimeout.Status():
		return textNoAnswer(p.gate.Within), false
	case r.Status >= 400:
		return textStatus(r.Status), false
	case p.body != nil && !p.body.Match(r.Body):
		return textNoMatch, false
	}
	return textStatus(r.Status), true
}

// verdict is no data until every path was asked in this window, and while the
// last answer was a failure that is not yet one too many.
func (p *prober) verdict(now time.Time) muru.Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := muru.Verdict{Gate: p.gate.Name, Result: muru.Pass, At: now}
	for i, path := range p.paths {
		switch {
		case path.row >= p.gate.Failures && path.window == p.window:
			baseline := path.baseline
			if baseline == "" {
				baseline = muru.Measure{}.String()
			}
			v.Result, v.Count = muru.Fail, path.row
			v.Message = textProbe(p.gate.Paths[i], path.row, path.candidate, baseline)
			return v
		case path.window != p.window || path.failed:
			v.Result = muru.NoDataYet
		}
	}
	return v
}

// splitTarget takes a request target apart.
func splitTarget(target string) (path, query string, err error) {
	u, err := url.ParseRequestURI(target)
	if err != nil || target[0] != '/' {
		return "", "", muru.Errorf(muru.KindUsage, "%q is not a path", target).WithHint(`write it like "/orders/1"`)
	}
	return u.Path, u.RawQuery, nil
}
