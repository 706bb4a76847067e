package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"muru"
	"muru/cmd/muru/daemon"
	"muru/cmd/muru/person"
	"muru/control"
)

type runFlags struct {
	listen string
	state  string
	serve  bool
	detach bool
}

// newRunCommand is `muru run FILE [ARG...] [--name value]`: a recipe in the
// muru that serves, or, when none does, with everything it needs in this
// process. Flags of muru stand before FILE, what follows it belongs to the
// recipe.
func newRunCommand(c *cli) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] FILE [ARG...] [--name value...]",
		Short: "runs a recipe, in the muru that serves or with edge and workers in this process",
		Long: `Runs a recipe. The parameters of its main function are the arguments: in
order, or by name as --some-name VALUE. muru run FILE --help describes them.

If a muru serves, the recipe runs there and this shows what it says. Ctrl-C
on a terminal asks whether the run goes on without being watched; elsewhere
SIGINT cancels the run and SIGHUP leaves it.

Else, and with --listen or --serve, the edge and the workers live and end with
this process: when the recipe and the rollouts it started have ended, unless
--serve keeps them, or with the first Ctrl-C, which takes candidates out of
traffic. A recipe that fails ends it all, also with --serve: what is to outlive
a recipe is served by muru serve.

Flags of muru stand before FILE, those of the recipe behind it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return muru.Errorf(muru.KindUsage, "run needs a recipe").WithHint("muru run recipes/quickstart.star")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return []string{"star"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ours := cmd.Flags().Changed("listen") || flags.serve
			if ours && flags.detach {
				return muru.Errorf(muru.KindUsage, "run: --detach leaves a run with a muru that serves, --listen and --serve run it here")
			}
			if !ours {
				done, err := c.runAttached(cmd.Context(), flags, args[0], args[1:])
				if done || err != nil {
					return hintAtMisplacedFlag(cmd, args[0], args[1:], err)
				}
			}
			err := runRecipe(cmd.Context(), flags, args[0], args[1:], c.Stdout, c.Stderr)
			return hintAtMisplacedFlag(cmd, args[0], args[1:], err)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "address the edge of this process listens on")
	cmd.Flags().BoolVar(&flags.serve, "serve", false, "keep serving after the recipe has ended well, until a signal")
	cmd.Flags().BoolVar(&flags.detach, "detach", false, "start the run and leave it; muru attach shows it")
	cmd.Flags().StringVar(&flags.state, "state", "", "state directory of the muru that serves, or for logs and sockets of this process (default: that of your muru, or a temporary one)")
	return cmd
}

// runAttached runs a recipe in the muru that serves. done is false when none
// does. The recipe and its arguments are checked here first: that says the
// same, and the recipe's help needs no daemon.
func (c *cli) runAttached(ctx context.Context, flags runFlags, path string, args []string) (done bool, err error) {
	dir, err := workingDir()
	if err != nil {
		return false, err
	}
	usage, err := daemon.Check(daemon.Recipe{Path: path, Args: args, Dir: dir})
	if usage != "" {
		fmt.Fprintln(c.Stdout, usage)
	}
	if usage != "" || err != nil {
		return true, err
	}
	m, err := c.connect(flags.state)
	switch {
	case err != nil && flags.detach:
		return true, err
	case err != nil:
		return false, nil // there is no place where one could serve, and this needs none
	}
	number, err := m.StartRun(ctx, control.Run{File: path, Args: args, Dir: dir})
	switch {
	case errors.Is(err, control.ErrNoDaemon) && !flags.detach:
		return false, nil
	case err != nil:
		return true, err
	case flags.detach:
		_, err := fmt.Fprintf(c.Stdout, "muru: run %d started: muru attach %d\n", number, number)
		return true, err
	}
	return true, c.AttachRun(ctx, m, number, nil)
}

// hintAtMisplacedFlag adds to a usage error that our flags stand before the
// file, if args, which follow it, hold one of them.
func hintAtMisplacedFlag(cmd *cobra.Command, file string, args []string, err error) error {
	e, ok := err.(*muru.Error) // of the command line itself, not of a recipe
	if !ok || e.Kind != muru.KindUsage {
		return err
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasPrefix(arg, "--") && cmd.Flags().Lookup(name) != nil {
			return e.WithHint("flags of muru stand before the file: muru run --%s %s", name, file)
		}
	}
	return err
}

// runRecipe checks a recipe, builds the house, runs the recipe in it and
// takes everything down again.
func runRecipe(ctx context.Context, flags runFlags, path string, args []string, stdout, stderr io.Writer) (err error) {
	terminal := person.NewTerminal(stdout, stderr)
	defer terminal.Close()
	rec := daemon.Recipe{Path: path, Args: args}
	if rec.Dir, err = workingDir(); err != nil {
		return err
	}
	usage, err := daemon.Check(rec)
	if usage != "" {
		fmt.Fprintln(stdout, usage)
	}
	if usage != "" || err != nil {
		return err
	}
	h, err := openHouse(ctx, flags.state, flags.listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	if flags.serve {
		// Who serves wants to be reached, also while the recipe runs.
		terminal.Say(fmt.Sprintf("the edge listens on http://%s", h.Address()))
	}
	if err := h.NewRunner().RunRecipe(ctx, rec, terminal); err != nil {
		return err
	}
	if !flags.serve {
		return nil
	}
	terminal.Say(fmt.Sprintf("serving on http://%s until interrupted", h.Address()))
	select {
	case <-ctx.Done():
		return nil // a signal is how serving ends
	case err := <-h.Ended():
		return fmt.Errorf("serve %s: %w", h.Address(), err)
	}
}
