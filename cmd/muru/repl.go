package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"muru/cmd/muru/daemon"
	"muru/cmd/muru/repl"
	"muru/control"
	"muru/edge"
)

type replFlags struct {
	listen string
	state  string
}

// newReplCommand is `muru repl`.
func newReplCommand(c *cli) *cobra.Command {
	var flags replFlags
	cmd := &cobra.Command{
		Use:   "repl",
		Short: "reads calls as you type them, shows what they say, and keeps names",
		Long: `Reads calls and shows what they say and return; names keep their values until
you leave. help() lists the calls, %help the commands, Ctrl-D leaves.

If a muru serves, the session is there. Else, and with --listen, the edge and
the workers live in this process and end with it.

What is piped in is evaluated without prompts; the first error ends it with
status 1.`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.repl(cmd.Context(), flags, cmd.Flags().Changed("listen"))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "serve in this process, its edge listening on this address")
	cmd.Flags().StringVar(&flags.state, "state", "", "state directory of the muru that serves, or for logs and sockets of this process (default: that of your muru, or a temporary one)")
	return cmd
}

// repl holds a session in the muru that serves, or in one in this process.
func (c *cli) repl(ctx context.Context, flags replFlags, here bool) (err error) {
	var o repl.Options
	if o.Dir, err = workingDir(); err != nil {
		return err
	}
	if !here {
		if done, err := c.replAttached(ctx, flags.state, o); done || err != nil {
			return err
		}
	}
	h, err := openHouse(ctx, flags.state, flags.listen)
	if errors.Is(err, edge.ErrPortTaken) && !here {
		h, err = openHouse(ctx, flags.state, "127.0.0.1:0")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	run := h.NewRunner()
	o.Muru, o.Embedded = run, h.Address()
	if o.State, err = run.State(ctx); err != nil {
		return err
	}
	return repl.Run(ctx, &c.Person, o)
}

// replAttached holds a session in the muru that serves. done is false when none
// does.
func (c *cli) replAttached(ctx context.Context, stateDir string, o repl.Options) (done bool, err error) {
	if o.Muru, err = c.connect(stateDir); err != nil {
		return false, nil // there is no place where one could serve, and this needs none
	}
	o.State, err = o.Muru.State(ctx)
	socketNamed := stateDir == "" && os.Getenv("MURU_CONTROL") != ""
	switch {
	case errors.Is(err, control.ErrNoDaemon) && !socketNamed: // who names one does not want an empty muru
		return false, nil
	case err != nil:
		return true, err
	}
	return true, repl.Run(ctx, &c.Person, o)
}

// openHouse opens a house in this process.
func openHouse(ctx context.Context, state, address string) (*daemon.House, error) {
	return daemon.Open(ctx, daemon.Options{State: state, Version: version}, address)
}
