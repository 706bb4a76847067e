package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"muru"
	"muru/cmd/muru/daemon"
	"muru/cmd/muru/person"
	"muru/control"
)

// newServeCommand is `muru serve [SITE.star]`: the daemon.
func newServeCommand(c *cli) *cobra.Command {
	o := daemon.ServeOptions{Keep: daemon.DefaultRetention()}
	o.Version = version
	cmd := &cobra.Command{
		Use:   "serve [flags] [SITE.star]",
		Short: "serves until SIGTERM, and takes what the other verbs ask for",
		Long: `Serves what its state directory has: after a stop it comes back as it was,
with the same releases serving, held and kept warm, and live rollouts in their
step. The other verbs, the REPL and attached runs talk to it over its socket:
$MURU_CONTROL, else muru.sock in the state directory.

SITE.star declares what this machine serves: listen(), app() and deploy(). It
runs at every start, before the listeners open; deploying what serves already
does nothing, and a SITE.star that fails ends muru with status 1.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return muru.Errorf(muru.KindUsage, "serve: %q is one word too many", args[1]).WithHint("muru serve [flags] [SITE.star]")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return []string{"star"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Site = strings.Join(args, "")
			return c.serve(cmd.Context(), o)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&wordFlag{set: func(word string) error {
		o.Listen = append(o.Listen, strings.Split(word, ",")...)
		return nil
	}, typ: "HOST:PORT,..."}, "listen", "addresses the edge listens on, unless SITE.star says (default 127.0.0.1:8080)")
	cmd.Flags().StringVar(&o.State, "state", "", "state directory (default /var/lib/muru for root, else muru in the user's state directory)")
	cmd.Flags().StringVar(&o.SocketGroup, "socket-group", "", "group whose members may use the control socket")
	cmd.Flags().StringVar(&o.Notify, "notify", "", "URL that gets every event of warning and above as JSON")
	addRetentionFlags(cmd, &o.Keep)
	return cmd
}

// serve serves until a signal, which is no failure.
func (c *cli) serve(ctx context.Context, o daemon.ServeOptions) (err error) {
	if o.State == "" {
		if o.State, err = control.DefaultStateDir(); err != nil {
			return err
		}
	}
	if len(o.Listen) == 0 {
		o.Listen = []string{"127.0.0.1:8080"}
	}
	if o.Dir, err = workingDir(); err != nil {
		return err
	}
	return daemon.Serve(ctx, o, person.NewTerminal(c.Stdout, c.Stderr))
}
