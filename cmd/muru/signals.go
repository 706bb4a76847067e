package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An interruptedError is the cause of a context that a signal ended.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string {
	if s, ok := e.signal.(syscall.Signal); ok {
		return "interrupted by " + unix.SignalName(s) // SIGINT, not Go's "interrupt"
	}
	return "interrupted by " + e.signal.String()
}

// signals are the signals of the person who started this process. At first
// they end the process's context; somebody who watches a rollout takes them
// over and decides himself. It is safe for concurrent use.
type signals struct {
	mu     sync.Mutex
	taken  chan os.Signal // nil: nobody took them
	asked  time.Time      // when the first one ended the context
	cancel context.CancelCauseFunc
}

// sameSignalFor is how long after the first signal another one is taken for
// the same: timeout(1) sends its signal to the process and again to its group,
// and a closed terminal sends several kinds at once.
const sameSignalFor = time.Second

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP that
// nobody took ends. A later one ends the process at once: whoever asks twice
// does not want to wait for a drain, though it leaves workers that end by
// themselves and a temporary directory that stays. The caller calls stop at the
// end.
func untilSignal(ctx context.Context) (_ context.Context, s *signals, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s = &signals{cancel: cancel}
	arrived := make(chan os.Signal, 2)
	signal.Notify(arrived, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{}) // closed when the goroutine has ended
	stopped := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-arrived:
				s.deliver(sig)
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

// deliver hands a signal to whoever has them.
func (s *signals) deliver(sig os.Signal) {
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
		s.cancel(interruptedError{sig})
	case time.Since(s.asked) > sameSignalFor:
		os.Exit(exitInterrupted)
	}
}

// take makes signals arrive at the returned channel until giveBack is called,
// which gives them back to whoever had them before: a session has them, and
// what is watched in it in its turn. They are given back in reverse order.
func (s *signals) take() (_ <-chan os.Signal, giveBack func()) {
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
