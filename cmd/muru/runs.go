package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"muru/cmd/muru/person"
	"muru/control"
)

// newAttachCommand is `muru attach N`: what a run says, until it ends.
func newAttachCommand(c *cli) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "attach RUN",
		Short: "shows what a run says, from its beginning until it ends",
		Long: `Shows what a run of a recipe has said since its beginning, as far as it was
kept, and what it says until it ends. The status is the run's: 0, 1 failed,
130 cancelled. Ctrl-C on a terminal asks whether the run goes on.`,
		Args:              wantArgs("RUN"),
		ValidArgsFunction: completeRuns(c, &state, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := person.ParseRun(args[0])
			if err != nil {
				return err
			}
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			return c.AttachRun(cmd.Context(), m, number, nil)
		},
	}
	addStateFlag(cmd, &state)
	return cmd
}

// newRunsCommand is `muru runs`.
func newRunsCommand(c *cli) *cobra.Command {
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "lists the runs of recipes, oldest first",
		Args:  wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			runs, err := m.Runs(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON && runs == nil:
				return printJSON(c.Stdout, []control.RunInfo{})
			case asJSON:
				return printJSON(c.Stdout, runs)
			case len(runs) == 0:
				fmt.Fprintln(c.Stderr, "muru: no runs")
				return nil
			}
			person.PrintRuns(c.Stdout, runs)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	addStateFlag(cmd, &state)
	return cmd
}

// newCancelCommand is `muru cancel N`.
func newCancelCommand(c *cli) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "cancels a run: its live rollouts are aborted, its split shares put back",
		Long: `Cancels a run of a recipe and returns when nothing of it is left: its live
rollouts are aborted, the shares it set with split() put back and its traffic
ended. Releases it deployed stay, and a promotion is not undone.`,
		Args:              wantArgs("RUN"),
		ValidArgsFunction: completeRuns(c, &state, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := person.ParseRun(args[0])
			if err != nil {
				return err
			}
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			if err := m.CancelRun(cmd.Context(), number); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Stdout, "muru: run %d cancelled\n", number)
			return err
		},
	}
	addStateFlag(cmd, &state)
	return cmd
}
