package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

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

// An interruptedError is the cause of a context that a signal ended.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string { return "interrupted by " + e.signal.String() }

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
