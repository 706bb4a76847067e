package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"muru"
)

// endRunFor bounds the cleaning up after a recipe.
const endRunFor = 20 * time.Second

type runFlags struct {
	listen string
	state  string
	serve  bool
}

// newRunCommand is `muru run FILE [ARG...] [--name value]`: a recipe with
// everything it needs in this process. Flags of muru stand before FILE, what
// follows it belongs to the recipe.
func newRunCommand(stdout, stderr io.Writer) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] FILE [ARG...] [--name value...]",
		Short: "run a recipe, with edge and workers in this process",
		Long: `Runs a recipe. The parameters of its main function are the arguments: in
order, or by name as --some-name VALUE. muru run FILE --help describes them.

The edge and the workers live in this process and end with the recipe,
unless --serve keeps them.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return muru.Errorf(muru.KindUsage, "run needs a recipe").WithHint("muru run recipes/quickstart.star")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRecipe(cmd.Context(), flags, args[0], args[1:], stdout, stderr)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "address the edge listens on")
	cmd.Flags().StringVar(&flags.state, "state", "", "directory for logs and sockets (default a temporary one)")
	cmd.Flags().BoolVar(&flags.serve, "serve", false, "keep serving after the recipe has ended, until a signal")
	return cmd
}

// runRecipe checks a recipe, builds the house, runs the recipe in it and
// takes everything down again.
func runRecipe(ctx context.Context, flags runFlags, path string, args []string, stdout, stderr io.Writer) (err error) {
	terminal := newTerminal(stdout, stderr)
	defer terminal.Close()
	rec := recipe{path: path, args: args, by: currentUser()}
	if rec.dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	usage, err := newRunner(runnerOptions{}).check(rec)
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
	r := newRunner(h.runnerOptions())
	if err := r.run(ctx, rec, r.begin(rec), terminal, nil); err != nil {
		return err
	}
	if !flags.serve {
		return nil
	}
	terminal.Say(fmt.Sprintf("serving on http://%s until interrupted", h.address))
	select {
	case <-ctx.Done():
		return nil // a signal is how serving ends
	case err := <-h.served:
		return fmt.Errorf("serve %s: %w", h.address, err)
	}
}

// currentUser names the person for events.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
