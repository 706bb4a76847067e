package person

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An InterruptedError is the cause of a context that a signal ended.
type InterruptedError struct{ Signal os.Signal }

// Error names the signal as people know it.
func (e InterruptedError) Error() string {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return "interrupted by " + unix.SignalName(s) // SIGINT, not Go's "interrupt"
	}
	return "interrupted by " + e.Signal.String()
}

// Signals are the signals of the person who started this process. At first
// they end the process's context; somebody who watches a rollout takes them
// over and decides. [NewSignals] or [UntilSignal] makes them. They are safe for
// concurrent use.
type Signals struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex     // guards what follows
	taken chan os.Signal // nil: nobody took them
	asked time.Time      // when the first one ended the context
}

// sameSignalFor is how long after the first signal another one is taken for
// the same: timeout(1) sends its signal to the process and again to its group,
// and a closed terminal sends several kinds at once.
const sameSignalFor = time.Second

// NewSignals returns signals of which the first that nobody took calls cancel
// with an [InterruptedError]. They arrive only through Deliver.
func NewSignals(cancel context.CancelCauseFunc) *Signals { return &Signals{cancel: cancel} }

// UntilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP that
// nobody took ends. A later one ends the process at once: whoever asks twice
// does not want to wait for a drain, though it leaves workers that end by
// themselves and a temporary directory that stays. The caller calls stop at the
// end.
func UntilSignal(ctx context.Context) (_ context.Context, s *Signals, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s = NewSignals(cancel)
	arrived := make(chan os.Signal, 2)
	signal.Notify(arrived, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{}) // closed when the goroutine has ended
	stopped := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-arrived:
				s.Deliver(sig)
			case <-stopped:
				return
			}
		}
	}()
	return ctx, s, func() {
		signal.Stop(arrived)
		close(stopped)
		<-done
		cancel(nil)
	}
}

// Deliver hands a signal to whoever has them, as if it had arrived from the
// system.
func (s *Signals) Deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != nil {
		select {
		case s.taken <- sig:
		default: // two are waiting to be looked at: a third adds nothing
		}
		return
	}
	switch {
	case s.asked.IsZero():
		s.asked = time.Now()
		s.cancel(InterruptedError{sig})
	case time.Since(s.asked) > sameSignalFor:
		os.Exit(StatusInterrupted)
	}
}

// Take makes signals arrive at the returned channel until giveBack is called,
// which gives them back to whoever had them before: a session has them, and
// what is watched in it in its turn. They are given back in reverse order.
func (s *Signals) Take() (_ <-chan os.Signal, giveBack func()) {
	taken := make(chan os.Signal, 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.taken
	s.taken = taken
	return taken, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = before
	}
}
