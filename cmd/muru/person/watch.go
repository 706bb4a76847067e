package person

import (
	"context"
	"errors"
	"fmt"
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

var (
	// errLeft is why the context of a stream ends when nobody watches it any
	// more.
	errLeft = errors.New("nobody watches any more")

	// errLimit is why it ends when --timeout has passed.
	errLimit = errors.New("the time to wait has passed")
)

// A Watch shows a call or a run that works elsewhere, and decides what a
// signal means: on a terminal Ctrl-C stops the watching only and asks;
// elsewhere SIGINT and SIGTERM cancel what is watched, and SIGHUP leaves it.
// What moves no traffic (deploy, observe, probe) is simply cancelled.
//
// It is used once, for Show or for Leave.
type Watch struct {
	Person  *Person
	Muru    Watched
	Printer *Printer
	Run     int           // the run that is watched, 0: a call
	Call    string        // what is called, until the stream says so
	Limit   time.Duration // stop watching then, 0: never
	Asks    string        // in place of the usual question, if not empty

	mu       sync.Mutex // guards what follows
	call     string     // what is called now, such as canary("shop@r6")
	since    time.Time  // when call was called
	rollouts []int      // that are waited for
}

// A Watched is the muru in which what is watched happens: the client of a
// daemon, or one in this process. Its methods are those of [control.Muru].
type Watched interface {
	Call(ctx context.Context, c control.Call, out func(control.Message)) error
	Attach(ctx context.Context, run int, out func(control.Message)) error
	CancelRun(ctx context.Context, run int) error
	Runs(ctx context.Context) ([]control.RunInfo, error)
	State(ctx context.Context) (control.State, error)
}

// A Stream calls out for each message until it ends, with its error, or ctx
// does.
type Stream func(ctx context.Context, out func(control.Message)) error

// Show shows a stream until it ends or the person decides otherwise, and
// returns how that is.
func (w *Watch) Show(ctx context.Context, s Stream) error {
	arrived, giveBack := w.Person.Signals.Take()
	defer giveBack()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var tooLong <-chan time.Time
	if w.Limit > 0 {
		timer := time.NewTimer(w.Limit)
		defer timer.Stop()
		tooLong = timer.C
	}
	w.mu.Lock()
	w.call, w.since = w.Call, time.Now()
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
	defer w.Printer.Close()
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
func (w *Watch) see(m control.Message) {
	w.mu.Lock()
	switch m.Kind {
	case control.KindBegin:
		w.call, w.since = m.Text, time.Now()
		w.waitsFor(m.Rollout, m.Rollout != 0)
	case control.KindProgress:
		w.waitsFor(m.Rollout, m.Text != "")
	}
	w.mu.Unlock()
	w.Printer.Show(m)
}

// waitsFor keeps account of the rollouts that are waited for. w.mu is held.
func (w *Watch) waitsFor(rollout int, waits bool) {
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
func (w *Watch) interrupted(sig os.Signal, more <-chan os.Signal, end func(error)) (goOn bool, err error) {
	w.Printer.pause()
	rollouts := w.live()
	gone := &ExitError{Status: StatusInterrupted, Told: true, Err: InterruptedError{sig}}
	movesTraffic := len(rollouts) > 0 || w.Run != 0
	decided := leaveRunning
	switch {
	case sig != syscall.SIGHUP && !w.onTerminal() && movesTraffic:
		decided = abortAndCleanUp
		fmt.Fprintln(w.Person.Stderr, w.where()+w.cancelling(rollouts))
	default:
		fmt.Fprintln(w.Person.Stderr, w.where()+w.leaving(rollouts))
		if sig == os.Interrupt && w.onTerminal() && movesTraffic {
			decided = w.ask(more)
		}
	}
	switch decided {
	case goOnWatching:
		w.Printer.resume()
		return true, nil
	case abortAndCleanUp:
		if err := w.cleanUp(rollouts, more, end); err != nil {
			return false, &ExitError{Status: StatusInterrupted, Err: err}
		}
	case leaveRunning:
		end(errLeft)
		if !movesTraffic {
			w.Printer.resume() // what was given up says what it did
		}
	}
	return false, gone
}

// where words where the person stopped watching:
//
//	interrupted at canary("shop@r6") after 12 s
func (w *Watch) where() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "interrupted"
	if w.call != "" {
		text += " at " + w.call
	}
	return text + " after " + muru.FormatMeasured(time.Since(w.since))
}

// leaving words what is left, cancelling what is not.
func (w *Watch) leaving(rollouts []control.RolloutInfo) string {
	switch {
	case len(rollouts) > 0:
		return "; " + standing("left", rollouts)
	case w.Run != 0:
		return fmt.Sprintf("; run %d goes on", w.Run)
	}
	return ""
}

func (w *Watch) cancelling(rollouts []control.RolloutInfo) string {
	if w.Run != 0 {
		return fmt.Sprintf("; cancelling run %d", w.Run)
	}
	var numbers []string
	for _, r := range rollouts {
		numbers = append(numbers, fmt.Sprintf("rollout %d", r.Number))
	}
	return "; aborting " + strings.Join(numbers, ", ")
}

// standing says where rollouts stand; the verb is "left" or "is".
func standing(verb string, rollouts []control.RolloutInfo) string {
	var all []string
	for _, r := range rollouts {
		all = append(all, fmt.Sprintf("rollout %d %s %s", r.Number, verb, placeOf(r)))
	}
	return strings.Join(all, ", ")
}

// placeOf says where a live rollout is. Of one that the daemon did not speak
// of in time only that it runs is known, and one that waits for its turn has
// no share yet.
func placeOf(r control.RolloutInfo) string {
	share, err := muru.ShareFromPercent(r.Share)
	switch {
	case r.State == muru.Queued.String():
		return "queued"
	case err != nil || r.State == "":
		return "running"
	}
	return "at " + share.String()
}

// live returns the rollouts that are waited for and still live. One that the
// daemon does not speak of in time has its number alone.
func (w *Watch) live() []control.RolloutInfo {
	w.mu.Lock()
	numbers := slices.Clone(w.rollouts)
	w.mu.Unlock()
	if len(numbers) == 0 {
		return nil
	}
	state, err := AskWithin(lookFor, w.Muru.State)
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

// outOfTime is the end of a watch whose time has passed.
func (w *Watch) outOfTime() error {
	w.mu.Lock() // the stream may still say something
	text := fmt.Sprintf("%s did not end within %s", w.call, muru.FormatDuration(w.Limit))
	w.mu.Unlock()
	if left := standing("left", w.live()); left != "" {
		text += "; " + left
	}
	return &ExitError{Status: StatusTimeout, Err: muru.Errorf(muru.KindTimeout, "%s", text)}
}
