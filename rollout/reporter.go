package rollout

import (
	"sync/atomic"

	"muru"
)

// A Reporter takes the upward facts of edge and host before there is an
// engine: both are made first. Events go to the log at once, harms to the
// engine from [New] on; harms before that have no rollout they could count in
// and are dropped. Its methods are safe for concurrent use.
type Reporter struct {
	log    *Log
	engine atomic.Pointer[Engine]
}

// NewReporter returns a reporter that writes to log.
func NewReporter(log *Log) *Reporter { return &Reporter{log: log} }

// Attach makes harms count in e's rollouts. [New] calls it when
// [Options.Reporter] is set.
func (r *Reporter) Attach(e *Engine) { r.engine.Store(e) }

// Report adds an event to the log.
func (r *Reporter) Report(e muru.Event) { r.log.Append(e) }

// Harm counts a crash or a kill against a release.
func (r *Reporter) Harm(id muru.ReleaseID, h muru.Harm) {
	if e := r.engine.Load(); e != nil {
		e.Harm(id, h)
	}
}
