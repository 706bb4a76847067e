package rollout

import (
	"context"

	"muru"
)

// A Report is the line or lines a changing call reports to the person,
// without the leading "muru: "; several are separated by \n. It is empty when
// there is nothing to say.
type Report string

// Options are what an [Engine] works with. Edge and Host are required; a nil
// Clock is [RealClock] and a nil Log a new one of 100,000 events.
type Options struct {
	Edge     Edge
	Host     Host
	Clock    Clock
	Log      *Log
	Reporter *Reporter // attached to the engine by New; may be nil
}

// An Engine moves apps between releases. Its methods are safe for concurrent
// use. Nothing runs until the first app exists; Close ends everything.
type Engine struct{}

// New returns an engine without apps.
func New(Options) *Engine { return &Engine{} }

// Close ends the actors and what runs for them in the background, and waits
// for it until ctx ends. It stops no release: that is the host's to do.
func (e *Engine) Close(ctx context.Context) error { return nil }

// Clock returns the engine's time.
func (e *Engine) Clock() Clock { return nil }

// Report adds an event to the log.
func (e *Engine) Report(muru.Event) {}

// Harm counts a crash or a kill against a release.
func (e *Engine) Harm(muru.ReleaseID, muru.Harm) {}
