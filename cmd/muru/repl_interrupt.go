package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
)

// takeSignals gives the signals to the session, so that a Ctrl-C between two
// prompts does not end it: Ctrl-C ends what works, if no watch has taken it,
// and any other signal the session. giveBack ends that.
func (r *repl) takeSignals(ctx context.Context) (_ context.Context, giveBack func()) {
	arrived, back := r.cli.signals.take()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})  // closed when the session ends
	ended := make(chan struct{}) // closed when the goroutine has
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-arrived:
				if sig != os.Interrupt {
					cancel(interruptedError{sig})
					continue
				}
				r.mu.Lock()
				if r.interrupt != nil {
					r.interrupt(interruptedError{sig})
				}
				r.mu.Unlock()
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

// interruptible returns a context that Ctrl-C ends, until done.
func (r *repl) interruptible(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.setInterrupt(cancel)
	return ctx, func() {
		r.setInterrupt(nil)
		cancel(nil)
	}
}

func (r *repl) setInterrupt(cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupt = cancel
}

// leave decides whether the session ends. Somebody with a live rollout of
// this session is asked, as Ctrl-C asks.
func (r *repl) leave(ctx context.Context) (bool, error) {
	numbers, err := askWithin(newsFor, r.session.LiveRollouts)
	if err != nil || len(numbers) == 0 {
		return true, nil // also when its muru is gone: nobody can be asked to stay for that
	}
	w := &watch{cli: r.cli, muru: r.muru, printer: newPrinter(r.cli.stdout, r.cli.stderr, false), rollouts: numbers}
	defer w.printer.Close()
	arrived, giveBack := r.cli.signals.take()
	live := w.live()
	fmt.Fprintln(r.cli.stderr, leftAt(live))
	if r.embedded != "" {
		w.asks = "it ends with this process: leave [Enter], abort it and clean up [a], go on watching [w]? "
	}
	switch w.ask(arrived) {
	case abortAndCleanUp:
		err = w.cleanUp(live, arrived)
		giveBack()
		return true, err
	case goOnWatching:
		giveBack()
		for _, n := range numbers {
			if err := r.do(ctx, "wait("+strconv.Itoa(n)+")"); err != nil {
				r.complain(err)
				break
			}
		}
		return false, nil
	}
	giveBack()
	return true, nil
}
