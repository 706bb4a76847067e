package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"muru"
	"muru/control"
	"muru/rollout"
)

// The deadlines of stopping that are not the house's. All of them together
// are below the 90 seconds that systemd gives by default.
const (
	cancelRunsFor   = 20 * time.Second
	closeControlFor = 5 * time.Second
)

type serveFlags struct {
	listen      []string
	state       string
	socketGroup string
	notify      string
	keep        rollout.Policy
}

// newServeCommand is `muru serve [SITE.star]`: the daemon.
func newServeCommand(c *cli) *cobra.Command {
	flags := serveFlags{keep: defaultRetention()}
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
			return c.serve(cmd.Context(), flags, strings.Join(args, ""))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&wordFlag{set: func(word string) error {
		flags.listen = append(flags.listen, strings.Split(word, ",")...)
		return nil
	}, typ: "HOST:PORT,..."}, "listen", "addresses the edge listens on, unless SITE.star says (default 127.0.0.1:8080)")
	cmd.Flags().StringVar(&flags.state, "state", "", "state directory (default /var/lib/muru for root, else muru in the user's state directory)")
	cmd.Flags().StringVar(&flags.socketGroup, "socket-group", "", "group whose members may use the control socket")
	cmd.Flags().StringVar(&flags.notify, "notify", "", "URL that gets every event of warning and above as JSON")
	addRetentionFlags(cmd, &flags.keep)
	return cmd
}

// A server is the daemon: a house, and what talks to it.
type server struct {
	*house
	flags      serveFlags
	runner     *runner
	control    *control.Server
	socket     *control.Listener
	unlink     func() error // removes what leads to the socket
	endNotify  func()       // ends the notifier
	restored   bool         // what served before serves again
	controlled chan error   // why the control API ended
}

// serve serves until a signal, which is no failure, also while it starts.
func (c *cli) serve(ctx context.Context, flags serveFlags, site string) (err error) {
	if flags.state == "" {
		if flags.state, err = control.DefaultStateDir(); err != nil {
			return err
		}
	}
	if len(flags.listen) == 0 {
		flags.listen = []string{"127.0.0.1:8080"}
	}
	if err := checkSite(site); err != nil {
		return err
	}
	h, err := openHouse(ctx, flags.state)
	if err != nil {
		return err
	}
	h.keep = flags.keep
	s := &server{
		house: h, flags: flags, controlled: make(chan error, 1),
		endNotify: func() {}, unlink: func() error { return nil },
	}
	terminal := newTerminal(c.stdout, c.stderr)
	if err = s.start(ctx, terminal, site); err == nil {
		terminal.Say(fmt.Sprintf("serving on http://%s, control at %s", s.address, s.socket.Path()))
		s.tellSystemd(daemon.SdNotifyReady + "\nSTATUS=serving on " + s.address)
		err = s.wait(ctx)
	}
	s.tellSystemd(daemon.SdNotifyStopping)
	cut, stopped := s.stop(context.WithoutCancel(ctx))
	if cut != nil {
		terminal.Say(errorText(cut)) // that somebody waited longer than we do is no failure of stopping
	}
	if ctx.Err() != nil {
		err = nil // a signal is how serving ends
	}
	return errors.Join(err, stopped)
}

// start does, in this order: what can be refused is refused; what served
// before serves again; the site's file; the listeners; the control socket.
// The house has opened state, store, event log, host, edge and engine before.
func (s *server) start(ctx context.Context, terminal *terminal, site string) error {
	s.warnIfTorn(ctx)
	if err := s.checkFirst(ctx, site); err != nil {
		return err
	}
	if err := s.startNotifier(); err != nil {
		return err
	}
	s.tellSystemd("STATUS=starting what served before")
	if err := s.restore(ctx); err != nil {
		return err
	}
	s.restored = true
	addresses, err := s.runSite(ctx, terminal, site)
	if err != nil {
		return err
	}
	if len(addresses) == 0 {
		addresses = s.flags.listen
	}
	if err := s.listen(ctx, addresses...); err != nil {
		return err
	}
	return s.openControl()
}

// wait returns when a signal asks for the end, or serving has ended by itself.
func (s *server) wait(ctx context.Context) error {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		if _, err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("remove old records", "error", err)
		}
		select {
		case <-tidy.C:
		case <-ctx.Done():
			return nil
		case err := <-s.served:
			return fmt.Errorf("serve %s: %w", s.address, err)
		case err := <-s.controlled:
			return fmt.Errorf("serve the control socket: %w", err)
		}
	}
}

// stop ends everything in this order: changes are refused; the listeners
// close and the edge drains; runs are cancelled, their rollouts stay for the
// next start; the control socket; the notifier; then the house, which is the
// engine, the workers and the store. cut says which requests did not end in
// time.
func (s *server) stop(ctx context.Context) (cut, err error) {
	if s.restored {
		s.reporter.Report(muru.Event{Kind: muru.DaemonStops, Subject: "muru", Message: "by " + currentUser()})
	}
	var errs []error
	step := func(limit time.Duration, do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return do(ctx)
	}
	if s.control != nil {
		s.control.RefuseChanges()
	}
	if cut = step(drainEdgeFor, s.edge.Close); cut != nil {
		s.log.Warn("stop the edge", "error", cut)
	}
	if s.runner != nil {
		errs = append(errs, step(cancelRunsFor, s.runner.Close))
	}
	if s.control != nil {
		errs = append(errs, step(closeControlFor, s.control.Close))
	}
	s.endNotify()
	errs = append(errs, s.unlink(), s.house.Close(ctx))
	return cut, errors.Join(errs...)
}

// tellSystemd says how it goes to the systemd that started us, if one did.
func (s *server) tellSystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("tell systemd", "state", state, "error", err)
	}
}

// warnIfTorn logs what a machine that stopped may have cost.
func (s *server) warnIfTorn(ctx context.Context) {
	if status, err := s.store.Status(ctx); err == nil && status.Torn {
		s.log.Warn("the last transaction before the machine stopped is lost", "file", "muru.db")
	}
}

// startNotifier posts warnings to a URL until stop.
func (s *server) startNotifier() error {
	if s.flags.notify == "" {
		return nil
	}
	n, err := newNotifier(s.flags.notify, s.events, s.log)
	if err != nil {
		return err
	}
	s.endNotify = n.start()
	return nil
}
