package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muru"
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
			number, err := runNumber(args[0])
			if err != nil {
				return err
			}
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			return c.attach(cmd.Context(), m, number, ignore)
		},
	}
	addStateFlag(cmd, &state)
	return cmd
}

// attach watches a run until it ends. hear gets each message before it is shown.
func (c *cli) attach(ctx context.Context, m control.Muru, number int, hear func(control.Message)) error {
	w := &watch{cli: c, muru: m, printer: newPrinter(c.stdout, c.stderr, false), run: number}
	err := w.show(ctx, func(ctx context.Context, out func(control.Message)) error {
		return m.Attach(ctx, number, func(msg control.Message) {
			hear(msg)
			out(msg)
		})
	})
	if _, ok := errors.AsType[*exitError](err); ok || err == nil {
		return err
	}
	return c.endOfRun(ctx, m, number, err)
}

// ignore hears a message of a run and does nothing with it.
func ignore(control.Message) {}

// endOfRun tells the run's own failure from a failure to watch it.
func (c *cli) endOfRun(ctx context.Context, m control.Muru, number int, err error) error {
	runs, look := m.Runs(ctx)
	if look != nil {
		return err // nobody is there to ask: what ended the stream says more
	}
	i := slices.IndexFunc(runs, func(r control.RunInfo) bool { return r.Number == number })
	if i < 0 {
		return err
	}
	switch runs[i].State {
	case control.RunCancelled:
		return &exitError{status: exitInterrupted, err: err}
	case control.RunFailed:
		return &recipeError{err}
	}
	return err
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
				return printJSON(c.stdout, []control.RunInfo{})
			case asJSON:
				return printJSON(c.stdout, runs)
			case len(runs) == 0:
				fmt.Fprintln(c.stderr, "muru: no runs")
				return nil
			}
			printRuns(c, runs)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	addStateFlag(cmd, &state)
	return cmd
}

func printRuns(c *cli, runs []control.RunInfo) {
	var rows [][]string
	for _, r := range runs {
		took := time.Since(r.Started)
		if r.Ended != nil {
			took = r.Ended.Sub(r.Started)
		}
		rows = append(rows, []string{
			strconv.Itoa(r.Number), r.State, r.Started.Local().Format(time.DateTime), muru.FormatMeasured(max(took, 0)),
			r.By, strings.Join(append([]string{r.File}, r.Args...), " "), r.Error,
		})
	}
	printTable(c.stdout, []string{"RUN", "STATE", "STARTED", "TOOK", "BY", "RECIPE", "MESSAGE"}, rows)
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
			number, err := runNumber(args[0])
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
			_, err = fmt.Fprintf(c.stdout, "muru: run %d cancelled\n", number)
			return err
		},
	}
	addStateFlag(cmd, &state)
	return cmd
}

func runNumber(word string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "run "))
	if err != nil || n < 1 {
		return 0, muru.Errorf(muru.KindUsage, "%q is not the number of a run", word).WithHint("muru runs lists them")
	}
	return n, nil
}
