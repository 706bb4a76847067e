package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
)

// The deadlines of stopping that are not the house's.
const (
	cancelRunsFor   = 20 * time.Second
	closeControlFor = 5 * time.Second
)

type serveFlags struct {
	listen      []string
	state       string
	socketGroup string
	notify      string
}

// newServeCommand is `muru serve [SITE.star]`: the daemon.
func newServeCommand(c *cli) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags] [SITE.star]",
		Short: "serve until SIGTERM, and take what the other verbs ask for",
		Long: `Serves what its state directory has: after a stop it comes back as it was,
with the same releases serving, held and kept warm, and live rollouts in their
step. The other verbs, the REPL and attached runs talk to it over its socket.

SITE.star declares what this machine serves: listen(), app() and deploy(). It
runs at every start; deploying what serves already does nothing.`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return []string{"star"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.serve(cmd.Context(), flags, strings.Join(args, ""))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringSliceVar(&flags.listen, "listen", []string{"127.0.0.1:8080"}, "addresses the edge listens on, unless SITE.star says")
	cmd.Flags().StringVar(&flags.state, "state", "", "state directory (default /var/lib/muru for root, else muru in the user's state directory)")
	cmd.Flags().StringVar(&flags.socketGroup, "socket-group", "", "group whose members may use the control socket")
	cmd.Flags().StringVar(&flags.notify, "notify", "", "URL that gets every event of warning and above as JSON")
	return cmd
}

// A server is the daemon: a house, and what talks to it.
type server struct {
	*house
	runner  *runner
	control *control.Server
	socket  *control.Listener
	ended   chan error // why the control API ended
	notify  func()     // ends the notifier
}

// serve starts in this order: state, store, event log, host, edge and engine;
// what served before serves again; the site's file; the listeners; the
// control socket.
func (c *cli) serve(ctx context.Context, flags serveFlags, site string) (err error) {
	if flags.state == "" {
		if flags.state, err = control.DefaultStateDir(); err != nil {
			return err
		}
	}
	h, err := openHouse(ctx, flags.state)
	if err != nil {
		return err
	}
	s := &server{house: h, ended: make(chan error, 1), notify: func() {}}
	defer func() { err = errors.Join(err, s.stop(context.WithoutCancel(ctx))) }()
	if err := s.startNotifier(flags.notify); err != nil {
		return err
	}
	if status, err := s.store.Status(ctx); err == nil && status.Torn {
		s.log.Warn("the last transaction before the machine stopped is lost", "file", "muru.db")
	}
	if err := s.restore(ctx); err != nil {
		return err
	}
	terminal := newTerminal(c.stdout, c.stderr)
	addresses, err := s.runSite(ctx, terminal, site)
	if err != nil {
		return err
	}
	if len(addresses) == 0 {
		addresses = flags.listen
	}
	if err := s.listen(ctx, addresses...); err != nil {
		return err
	}
	if err := s.openControl(flags.socketGroup); err != nil {
		return err
	}
	terminal.Say(fmt.Sprintf("serving on http://%s, control at %s", s.address, s.socket.Path()))
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // to systemd, where it started us
	return s.wait(ctx)
}

// wait returns when a signal asks for the end, or serving has ended by itself.
func (s *server) wait(ctx context.Context) error {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	s.tidy(ctx)
	for {
		select {
		case <-tidy.C:
			s.tidy(ctx)
		case <-ctx.Done():
			return nil // a signal is how serving ends
		case err := <-s.served:
			return fmt.Errorf("serve %s: %w", s.address, err)
		case err := <-s.ended:
			return fmt.Errorf("serve the control socket: %w", err)
		}
	}
}

// stop ends everything in this order: changes are refused; the listeners
// close and the edge drains; runs are cancelled, their rollouts stay for the
// next start; the control socket; then the house, which is the engine, the
// workers and the store.
func (s *server) stop(ctx context.Context) error {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	s.reporter.Report(muru.Event{Kind: muru.DaemonStops, Subject: "muru", Message: "by " + currentUser()})
	var errs []error
	step := func(limit time.Duration, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		errs = append(errs, do(ctx))
	}
	if s.control != nil {
		s.control.RefuseChanges()
	}
	step(drainEdgeFor, s.edge.Close)
	if s.runner != nil {
		step(cancelRunsFor, s.runner.Close)
	}
	if s.control != nil {
		step(closeControlFor, s.control.Close)
	}
	s.notify()
	errs = append(errs, s.house.Close(ctx))
	return errors.Join(errs...)
}

// runSite runs the site's file, if there is one, and returns the addresses it
// wants to listen on.
func (s *server) runSite(ctx context.Context, terminal builtins.Terminal, site string) (addresses []string, err error) {
	if site == "" {
		return nil, nil
	}
	var trusted []netip.Prefix
	o := s.runnerOptions()
	o.Listen = func(_ context.Context, l builtins.Listener) error {
		for _, a := range addresses {
			if a == l.Address {
				return muru.Errorf(muru.KindRefused, "%s is declared already", a)
			}
		}
		addresses = append(addresses, l.Address)
		trusted = append(trusted, l.TrustedProxies...)
		return nil
	}
	dir, err := workingDir()
	if err != nil {
		return nil, err
	}
	r := newRunner(o)
	rec := recipe{path: site, dir: dir, by: currentUser()}
	if _, err := r.check(rec); err != nil {
		return nil, err
	}
	if err := r.run(ctx, rec, r.begin(rec), terminal, nil); err != nil {
		return nil, err
	}
	s.edge.Trust(trusted)
	return addresses, nil
}

// openControl opens the control socket and serves on it until stop.
func (s *server) openControl(group string) (err error) {
	path, err := socketPath(s.state)
	if err != nil {
		return err
	}
	if s.socket, err = control.Listen(path, group); err != nil {
		return err
	}
	s.runner = newRunner(s.runnerOptions())
	s.control = control.NewServer(control.Options{
		Muru: s.runner, Version: version, WriteMetrics: s.edge.WriteMetrics,
		Bug: func(b control.Bug) {
			s.log.Error("BUG", "id", b.ID, "in", b.In, "value", fmt.Sprint(b.Value), "stack", string(b.Stack))
		},
	})
	go func() { // ends when control.Close has closed the socket
		if err := s.control.Serve(s.socket); err != nil {
			s.ended <- err
		}
	}()
	return nil
}

// startNotifier posts warnings to a URL until stop.
func (s *server) startNotifier(target string) error {
	if target == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	n, err := newNotifier(target, s.events.Subscribe(ctx), s.log)
	if err != nil {
		cancel()
		return err
	}
	done := make(chan struct{}) // closed when the notifier has ended
	go func() {
		defer close(done)
		n.run(ctx)
	}()
	s.notify = func() {
		cancel()
		<-done
	}
	return nil
}

// What is kept of the past, and how often the rest is removed.
const tidyEvery = time.Hour

var retention = rollout.Policy{Events: keepEvents, EventAge: 90 * 24 * time.Hour, Releases: 20, Rollouts: 1000}

// tidy removes records that are past their retention, and the logs of the
// releases that are.
func (s *server) tidy(ctx context.Context) {
	report, err := s.engine.GC(ctx, retention)
	for _, id := range report.Releases {
		err = errors.Join(err, s.host.Forget(id))
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("remove old records", "error", err)
	}
}
