package repl

import (
	"context"
	"os"
	"strconv"
	"sync"

	"muru/cmd/muru/person"
)

// takeSignals gives the signals to the session: Ctrl-C is for what works or
// for the line that is typed, if no watch has taken it, and any other signal
// ends the session. giveBack ends that.
func (r *repl) takeSignals(ctx context.Context) (_ context.Context, giveBack func()) {
	arrived, back := r.person.Signals.Take()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})  // closed when the session ends
	ended := make(chan struct{}) // closed when the goroutine has
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-arrived:
				if sig == os.Interrupt {
					r.interrupts.arrive()
				} else {
					cancel(person.InterruptedError{Signal: sig})
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		back()
		close(done)
		<-ended
		cancel(nil)
	}
}

// Interrupts hand a Ctrl-C to what can be interrupted now, or else to what
// can next: one that is pressed between two lines is not lost. The zero value
// is ready and safe for concurrent use.
type interrupts struct {
	mu      sync.Mutex // guards what follows
	end     func()     // ends what works, nil: nothing does
	pending bool
}

func (i *interrupts) arrive() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.end == nil {
		i.pending = true
		return
	}
	i.end()
}

// during returns a context that Ctrl-C ends for a reason, until done.
func (i *interrupts) during(ctx context.Context, why error) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end = func() { cancel(why) }
	if i.pending {
		i.pending = false
		i.end()
	}
	return ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.end = nil
		cancel(nil)
	}
}

// leave decides whether the session ends. Somebody with a live rollout of
// this session is asked, as Ctrl-C asks.
func (r *repl) leave(ctx context.Context) (bool, error) {
	numbers, err := person.AskWithin(newsFor, r.session.LiveRollouts)
	if err != nil || len(numbers) == 0 {
		return true, nil // also when its muru is gone: nobody can be asked to stay for that
	}
	w := r.watch()
	if r.embedded != "" {
		w.Asks = "it ends with this process: leave [Enter], abort it and clean up [a], go on watching [w]? "
	}
	stays, err := w.Leave(numbers)
	if !stays {
		return true, err
	}
	for _, n := range numbers {
		if err := r.do(ctx, "wait("+strconv.Itoa(n)+")"); err != nil {
			r.complain(err)
			break
		}
	}
	return false, nil
}
