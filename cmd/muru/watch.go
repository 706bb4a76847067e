package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"muru"
	"muru/control"
)

const (
	// lookFor bounds what is asked of the daemon before a person who pressed
	// Ctrl-C sees something.
	lookFor = 100 * time.Millisecond

	// leaveFor bounds how long the end of a stream that was left is waited
	// for.
	leaveFor = 2 * time.Second

	// cleanUpFor bounds an abort, or the end of a run.
	cleanUpFor = 30 * time.Second
)

// The question that Ctrl-C asks somebody who watches a rollout.
const leaveQuestion = "leave it running [Enter], abort it and clean up [a], go on watching [w]? "

var (
	// errLeft is why the context of a stream ends when nobody watches it any
	// more.
	errLeft = errors.New("nobody watches any more")

	// errLimit is why it ends when --timeout has passed.
	errLimit = errors.New("the time to wait has passed")
)

// A watch shows a call or a run that works elsewhere, and decides what a
// signal means: on a terminal Ctrl-C stops the watching only and asks;
// elsewhere SIGINT and SIGTERM cancel what is watched, and SIGHUP leaves it.
// What moves no traffic (deploy, observe, probe) is simply cancelled.
type watch struct {
	cli     *cli
	muru    control.Muru
	printer *printer
	run     int           // the run that is watched, 0: a call
	limit   time.Duration // stop watching then, 0: never
	asks    string        // in place of leaveQuestion, if not empty

	mu       sync.Mutex // guards what follows
	call     string     // what is called now, such as canary("shop@r6")
	since    time.Time  // when call was called
	rollouts []int      // that are waited for
}

// A stream calls out for each message until it ends, with its error, or ctx
// does.
type stream func(ctx context.Context, out func(control.Message)) error

// show shows a stream until it ends or the person decides otherwise, and
// returns how that is.
func (w *watch) show(ctx context.Context, s stream) error {
	arrived, giveBack := w.cli.signals.take()
	defer giveBack()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var tooLong <-chan time.Time
	if w.limit > 0 {
		timer := time.NewTimer(w.limit)
		defer timer.Stop()
		tooLong = timer.C
	}
	w.mu.Lock()
	w.since = time.Now()
	w.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s(ctx, w.see) }() // ends with the stream, or with ctx
	end := func(why error) {
		leave(why)
		select {
		case <-ended:
		case <-time.After(leaveFor):
		}
	}
	defer w.printer.Close()
	for {
		select {
		case err := <-ended:
			return err
		case <-tooLong:
			end(errLimit)
			return w.outOfTime()
		case sig := <-arrived:
			goOn, err := w.interrupted(sig, arrived, end)
			if !goOn {
				return err
			}
		}
	}
}

// see takes notice of a message and shows it.
func (w *watch) see(m control.Message) {
	w.mu.Lock()
	switch m.Kind {
	case control.KindBegin:
		w.call, w.since = m.Text, time.Now()
		w.waitsFor(m.Rollout, m.Rollout != 0)
	case control.KindProgress:
		w.waitsFor(m.Rollout, m.Text != "")
	}
	w.mu.Unlock()
	w.printer.show(m)
}

// waitsFor keeps account of the rollouts that are waited for. w.mu is held.
func (w *watch) waitsFor(rollout int, waits bool) {
	known := slices.Contains(w.rollouts, rollout)
	switch {
	case waits && !known:
		w.rollouts = append(w.rollouts, rollout)
	case !waits && known:
		w.rollouts = slices.DeleteFunc(w.rollouts, func(n int) bool { return n == rollout })
	}
}

// interrupted decides what a signal means. goOn is true when the person
// wants to go on watching.
func (w *watch) interrupted(sig os.Signal, more <-chan os.Signal, end func(error)) (goOn bool, err error) {
	w.printer.pause()
	rollouts := w.live()
	gone := &exitError{status: exitInterrupted, told: true, err: interruptedError{sig}}
	movesTraffic := len(rollouts) > 0 || w.run != 0
	decided := leaveRunning
	switch {
	case sig != syscall.SIGHUP && !w.onTerminal() && movesTraffic:
		decided = abortAndCleanUp
		fmt.Fprintln(w.cli.stderr, w.where()+w.cancelling(rollouts))
	default:
		fmt.Fprintln(w.cli.stderr, w.where()+w.leaving(rollouts))
		if sig == os.Interrupt && w.onTerminal() && movesTraffic {
			decided = w.ask(more)
		}
	}
	switch decided {
	case goOnWatching:
		w.printer.resume()
		return true, nil
	case abortAndCleanUp:
		if err := w.cleanUp(rollouts, more, end); err != nil {
			return false, &exitError{status: exitInterrupted, err: err}
		}
	case leaveRunning:
		end(errLeft)
	}
	return false, gone
}

// where words where the person stopped watching:
//
//	interrupted at canary("shop@r6") after 12 s
func (w *watch) where() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "interrupted"
	if w.call != "" {
		text += " at " + w.call
	}
	return text + " after " + muru.FormatMeasured(time.Since(w.since))
}

// leaving words what is left, cancelling what is not.
func (w *watch) leaving(rollouts []control.RolloutInfo) string {
	switch {
	case len(rollouts) > 0:
		return "; " + leftAt(rollouts)
	case w.run != 0:
		return fmt.Sprintf("; run %d goes on", w.run)
	}
	return ""
}

func (w *watch) cancelling(rollouts []control.RolloutInfo) string {
	if w.run != 0 {
		return fmt.Sprintf("; cancelling run %d", w.run)
	}
	var numbers []string
	for _, r := range rollouts {
		numbers = append(numbers, fmt.Sprintf("rollout %d", r.Number))
	}
	return "; aborting " + strings.Join(numbers, ", ")
}

// leftAt says where rollouts are left.
func leftAt(rollouts []control.RolloutInfo) string {
	var left []string
	for _, r := range rollouts {
		share, err := muru.ShareFromPercent(r.Share)
		if err != nil || r.State == "" {
			left = append(left, fmt.Sprintf("rollout %d left running", r.Number))
			continue
		}
		left = append(left, fmt.Sprintf("rollout %d left at %s", r.Number, share))
	}
	return strings.Join(left, ", ")
}

// live returns the rollouts that are waited for and still live. One that the
// daemon does not speak of in time has its number alone.
func (w *watch) live() []control.RolloutInfo {
	w.mu.Lock()
	numbers := slices.Clone(w.rollouts)
	w.mu.Unlock()
	if len(numbers) == 0 {
		return nil
	}
	state, err := askWithin(lookFor, w.muru.State)
	var live []control.RolloutInfo
	for _, n := range numbers {
		i := slices.IndexFunc(state.Rollouts, func(r control.RolloutInfo) bool { return r.Number == n })
		switch {
		case err != nil || i < 0:
			live = append(live, control.RolloutInfo{Number: n, Live: true})
		case state.Rollouts[i].Live:
			live = append(live, state.Rollouts[i])
		}
	}
	return live
}

// askWithin asks a muru, and gives up in time even if it does not.
func askWithin[T any](limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() { // ends soon after ctx, whose end the muru is told
		v, err := ask(ctx)
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (w *watch) onTerminal() bool { return isTerminal(w.cli.stdin) && isTerminal(w.cli.stderr) }

// The answers to leaveQuestion.
type decision uint8

const (
	leaveRunning decision = iota
	abortAndCleanUp
	goOnWatching
)

// ask asks what to do. Another signal, and the end of the input, leave it
// running.
func (w *watch) ask(more <-chan os.Signal) decision {
	question := leaveQuestion
	if w.asks != "" {
		question = w.asks
	}
	for {
		io.WriteString(w.cli.stderr, question)
		line := make(chan string, 1)
		asking, stop := context.WithCancel(context.Background())
		go func() { // ends with a line, or with asking
			text, err := readLine(asking, w.cli.stdin)
			if err == nil || text != "" {
				line <- text
			}
			close(line)
		}()
		select {
		case text, ok := <-line:
			stop()
			switch {
			case !ok:
				fmt.Fprintln(w.cli.stderr)
				return leaveRunning
			case strings.TrimSpace(text) == "":
				return leaveRunning
			case strings.EqualFold(strings.TrimSpace(text), "a"):
				return abortAndCleanUp
			case strings.EqualFold(strings.TrimSpace(text), "w"):
				return goOnWatching
			}
		case <-more:
			stop()
			<-line // nobody reads the terminal any more: the next line is not for the question
			fmt.Fprintln(w.cli.stderr)
			return leaveRunning
		}
	}
}

// readLine reads a line and not a byte more: what follows is for whoever
// reads the terminal next. From a file it ends with ctx.
func readLine(ctx context.Context, r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for {
		if f, ok := r.(*os.File); ok {
			if err := waitReadable(ctx, int(f.Fd())); err != nil {
				return "", err
			}
		}
		n, err := r.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1 && len(line) < 1<<10:
			line = append(line, one[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}

// cleanUp cancels the run, whose stream then ends by itself, or aborts the
// rollouts that a call waited for. Another signal ends the waiting for it,
// not the cleaning up.
func (w *watch) cleanUp(rollouts []control.RolloutInfo, more <-chan os.Signal, end func(error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpFor)
	defer cancel()
	if w.run == 0 {
		end(errLeft) // it would say once more how they end
	}
	w.printer.resume()
	done := make(chan error, 1)
	go func() { done <- w.cancel(ctx, rollouts) }() // ends with ctx
	select {
	case err := <-done:
		if w.run != 0 {
			end(errLeft)
		}
		return err
	case <-more:
		return nil
	}
}

func (w *watch) cancel(ctx context.Context, rollouts []control.RolloutInfo) error {
	if w.run != 0 {
		err := w.muru.CancelRun(ctx, w.run)
		if err == nil {
			w.printer.show(control.Message{Kind: control.KindSay, Text: fmt.Sprintf("run %d cancelled", w.run)})
		}
		return err
	}
	var errs []error
	for _, r := range rollouts {
		call := control.Call{Source: fmt.Sprintf("abort(%d)", r.Number)}
		errs = append(errs, w.muru.Call(ctx, call, w.printer.show))
	}
	return errors.Join(errs...)
}

// outOfTime is the end of a watch whose time has passed.
func (w *watch) outOfTime() error {
	text := fmt.Sprintf("%s did not end within %s", w.call, muru.FormatDuration(w.limit))
	if left := leftAt(w.live()); left != "" {
		text += "; " + left
	}
	return &exitError{status: exitTimeout, err: muru.Errorf(muru.KindTimeout, "%s", text)}
}
