package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muru"
	"muru/builtins"
	"muru/rollout"
	script "muru/starlark"
	"muru/stdlib"
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

The edge and the workers live and end with this process: when the recipe and
the rollouts it started have ended, unless --serve keeps them, or with the
first Ctrl-C, which takes candidates out of traffic. Flags of muru stand
before FILE, those of the recipe behind it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return muru.Errorf(muru.KindUsage, "run needs a recipe").WithHint("muru run recipes/quickstart.star")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runRecipe(cmd.Context(), flags, args[0], args[1:], stdout, stderr)
			return hintAtMisplacedFlag(cmd, args[0], args[1:], err)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "address the edge listens on")
	cmd.Flags().StringVar(&flags.state, "state", "", "directory for logs and sockets (default a temporary one)")
	cmd.Flags().BoolVar(&flags.serve, "serve", false, "keep serving after the recipe has ended well, until a signal")
	return cmd
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
	r := &recipeRun{terminal: newTerminal(stdout, stderr), path: path, args: args}
	defer r.terminal.Close()
	if r.dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if done, err := r.check(stdout); done || err != nil {
		return err
	}
	h, err := openHouse(ctx, flags.state, flags.listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	if flags.serve {
		// Who serves wants to be reached, also while the recipe runs.
		r.terminal.Say(fmt.Sprintf("the edge listens on http://%s", h.address))
	}
	if err := r.run(ctx, h); err != nil {
		return err
	}
	if !flags.serve {
		return nil
	}
	r.terminal.Say(fmt.Sprintf("serving on http://%s until interrupted", h.address))
	select {
	case <-ctx.Done():
		return nil // a signal is how serving ends
	case err := <-h.served:
		return fmt.Errorf("serve %s: %w", h.address, err)
	}
}

// A recipeRun is one execution of a recipe in this process.
type recipeRun struct {
	terminal *terminal
	path     string
	args     []string
	dir      string
}

// check reads and checks the recipe and its arguments before anything is
// started. done is true when the command line asked for help only.
func (r *recipeRun) check(stdout io.Writer) (done bool, err error) {
	file, err := r.runtime(builtins.New(builtins.Env{})).Open(r.path)
	if err != nil {
		return false, err
	}
	if file.WantsHelp(r.args) {
		fmt.Fprintln(stdout, file.Usage())
		return true, nil
	}
	return false, file.CheckArgs(r.args)
}

// run executes the recipe in h and releases what it owns, however it ended.
func (r *recipeRun) run(ctx context.Context, h *house) error {
	number := h.engine.BeginRun(filepath.Base(r.path), strings.Join(r.args, " "), currentUser())
	set := builtins.New(builtins.Env{
		Engine: h.engine, Terminal: r.terminal, Dir: r.dir,
		Run: number, By: fmt.Sprintf("run %d", number), EdgeToken: h.token, EdgeAddress: h.address,
	})
	_, err := r.runtime(set).Run(ctx, r.path, r.args)
	if err == nil {
		err = set.Finish(ctx) // what canary(wait = False) started goes on to its end
	}

	how := rollout.RunFinished
	switch {
	case err != nil && ctx.Err() != nil:
		how = rollout.RunCancelled
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	case err != nil:
		how = rollout.RunFailed
		err = &recipeError{err}
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRunFor)
	defer cancel()
	return errors.Join(err, set.Close(after), h.engine.EndRun(after, number, how, err))
}

// runtime returns the language with a set of builtins.
func (r *recipeRun) runtime(set *builtins.Set) *script.Runtime {
	return script.New(script.Options{
		Predeclared: set.Predeclared(),
		Print:       r.terminal.Print,
		Limits:      script.DefaultLimits(),
		Stdlib:      stdlib.FS,
		Dir:         r.dir,
	})
}

// currentUser names the person for events.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
