package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"muru"
)

// version is set when a release of muru is built.
var version = "devel"

// execute runs the command line args and returns the exit status. It returns
// only when everything it started has ended.
func execute(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	root := &cobra.Command{
		Use:           "muru",
		Short:         "deploy web applications and let real traffic decide",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Two letters, as cobra has it where it suggests by itself.
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &muru.Error{
			Kind: muru.KindUsage, Message: err.Error(), Err: err,
			Hint: cmd.CommandPath() + " --help lists the flags",
		}
	})
	root.AddCommand(newRunCommand(stdout, stderr))
	root.SetHelpCommand(newHelpCommand(stdout))
	err := root.ExecuteContext(ctx)
	return report(stderr, err)
}

// unknownVerb says that there is no such verb, and which one may be meant.
func unknownVerb(root *cobra.Command, verb string) error {
	e := muru.Errorf(muru.KindUsage, "there is no verb %q", verb)
	if near := root.SuggestionsFor(verb); len(near) > 0 {
		return e.WithHint("did you mean muru %s?", near[0])
	}
	return e.WithHint("muru help lists the verbs")
}

// An interruptedError is the cause of a context that a signal ended.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string {
	if s, ok := e.signal.(syscall.Signal); ok {
		return "interrupted by " + unix.SignalName(s) // SIGINT, not Go's "interrupt"
	}
	return "interrupted by " + e.signal.String()
}

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP
// ends. A second one ends the process at once: whoever asks twice does not
// want to wait for a drain.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{}) // closed when the watcher has ended
	stopped := make(chan struct{})
	go func() {
		defer close(done)
		for asked := false; ; asked = true {
			select {
			case s := <-signals:
				if asked {
					os.Exit(exitInterrupted)
				}
				cancel(interruptedError{s})
			case <-stopped:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancel(nil)
	}
}
