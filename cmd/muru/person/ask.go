package person

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"muru/control"
)

// The question that Ctrl-C asks somebody who watches a rollout.
const leaveQuestion = "leave it running [Enter], abort it and clean up [a], go on watching [w]? "

// The answers to leaveQuestion.
type decision uint8

const (
	leaveRunning decision = iota
	abortAndCleanUp
	goOnWatching
)

// ask asks what to do. Another signal, and the end of the input, leave it
// running.
func (w *Watch) ask(more <-chan os.Signal) decision {
	question := leaveQuestion
	if w.Asks != "" {
		question = w.Asks
	}
	for {
		io.WriteString(w.Person.Stderr, question)
		line := make(chan string, 1)
		asking, stop := context.WithCancel(context.Background())
		go func() { // ends with a line, or with asking
			text, err := readLine(asking, w.Person.Stdin)
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
				fmt.Fprintln(w.Person.Stderr)
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
			fmt.Fprintln(w.Person.Stderr)
			return leaveRunning
		}
	}
}

// Leave asks somebody who ends a session what becomes of rollouts that they
// started and that are live. stays is true when they want to go on watching.
func (w *Watch) Leave(rollouts []int) (stays bool, err error) {
	w.rollouts = rollouts
	defer w.Printer.Close()
	arrived, giveBack := w.Person.Signals.Take()
	defer giveBack()
	live := w.live()
	verb := "left"
	if w.Asks != "" {
		verb = "is" // it may not be left
	}
	fmt.Fprintln(w.Person.Stderr, standing(verb, live))
	switch w.ask(arrived) {
	case abortAndCleanUp:
		return false, w.cleanUp(live, arrived, func(error) {})
	case goOnWatching:
		return true, nil
	}
	return false, nil
}

func (w *Watch) onTerminal() bool { return IsTerminal(w.Person.Stdin) && IsTerminal(w.Person.Stderr) }

// cleanUp cancels the run, whose stream then ends by itself, or aborts the
// rollouts that a call waited for, one after another. Another signal ends that:
// what was not asked to end by then goes on.
func (w *Watch) cleanUp(rollouts []control.RolloutInfo, more <-chan os.Signal, end func(error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpFor)
	defer cancel()
	if w.Run == 0 {
		end(errLeft) // it would say once more how they end
	}
	w.Printer.resume()
	done := make(chan error, 1)
	go func() { done <- w.cancel(ctx, rollouts) }() // ends with ctx
	select {
	case err := <-done:
		if w.Run != 0 {
			end(errLeft)
		}
		return err
	case <-more:
		return nil
	}
}

func (w *Watch) cancel(ctx context.Context, rollouts []control.RolloutInfo) error {
	if w.Run != 0 {
		err := w.Muru.CancelRun(ctx, w.Run)
		if err == nil {
			w.Printer.Show(control.Message{Kind: control.KindSay, Text: fmt.Sprintf("run %d cancelled", w.Run)})
		}
		return err
	}
	var errs []error
	for _, r := range rollouts {
		call := control.Call{Source: fmt.Sprintf("abort(%d)", r.Number)}
		errs = append(errs, w.Muru.Call(ctx, call, w.Printer.Show))
	}
	return errors.Join(errs...)
}
