package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
)

// The deadlines of stopping that are not the house's. All of them together
// are below the 90 seconds that systemd gives by default.
const (
	cancelRunsFor   = 20 * time.Second
	closeControlFor = 5 * time.Second
	tidyFor         = 5 * time.Second
)

// ServeOptions are what the daemon serves and where.
type ServeOptions struct {
	Options                    // State is needed
	Site        string         // the site's file, empty: none
	Dir         string         // where Site, and relative paths in it, start
	Listen      []string       // addresses of the edge, unless Site declares some
	SocketGroup string         // group whose members may use the control socket, empty: none
	Notify      string         // URL that gets every event of warning and above, empty: none
	Keep        rollout.Policy // what is kept of the past
}

// A server is the daemon: a house, and what talks to it.
type server struct {
	*House
	o          ServeOptions
	runner     *Runner
	control    *control.Server
	socket     *control.Listener
	unlink     func() error // removes what leads to the socket
	endNotify  func()       // ends the notifier
	restored   bool         // what served before serves again
	controlled chan error   // why the control API ended
	serving    sync.WaitGroup
	tidied     chan struct{} // closed when no old records are removed any more; nil: that has not begun
}

// Serve is the daemon, from its start to its end: it serves until ctx ends,
// which is no failure, also while it starts. It shows on terminal where it
// serves and what the site's file says.
func Serve(ctx context.Context, o ServeOptions, terminal builtins.Terminal) (err error) {
	if o.Site != "" {
		if _, err := Check(o.siteRecipe()); err != nil {
			return err
		}
	}
	h, err := openHouse(ctx, o.Options)
	if err != nil {
		return err
	}
	h.keep = o.Keep
	s := &server{
		House: h, o: o, controlled: make(chan error, 1),
		endNotify: func() {}, unlink: func() error { return nil },
	}
	if err = s.start(ctx, terminal); err == nil {
		terminal.Say(fmt.Sprintf("serving on http://%s, control at %s", s.address, s.socket.Path()))
		s.tellSystemd(systemd.SdNotifyReady + "\nSTATUS=serving on " + s.address)
		err = s.wait(ctx)
	}
	s.tellSystemd(systemd.SdNotifyStopping)
	cut, stopped := s.stop(context.WithoutCancel(ctx))
	if cut != nil {
		terminal.Say(control.ErrorText(cut)) // that somebody waited longer than we do is no failure of stopping
	}
	if ctx.Err() != nil {
		err = nil // that is how serving ends
	}
	return errors.Join(err, stopped)
}

// start does, in this order: what can be refused is refused; what served
// before serves again; the site's file; the listeners; the control socket.
// The house has opened state, store, event log, host, edge and engine before.
func (s *server) start(ctx context.Context, terminal builtins.Terminal) error {
	s.warnIfTorn(ctx)
	if err := s.checkFirst(ctx); err != nil {
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
	addresses, err := s.runSite(ctx, terminal)
	if err != nil {
		return err
	}
	if len(addresses) == 0 {
		addresses = s.o.Listen
	}
	if err := s.listen(ctx, addresses...); err != nil {
		return err
	}
	return s.openControl()
}

// wait returns when a signal asks for the end, or serving has ended by itself.
func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tidied := make(chan struct{})
	s.tidied = tidied
	go func() {
		defer close(tidied)
		s.keepTidy(ctx)
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.served:
		return fmt.Errorf("serve %s: %w", s.address, err)
	case err := <-s.controlled:
		return fmt.Errorf("serve the control socket: %w", err)
	}
}

// keepTidy removes what is past its retention until ctx ends. It has a
// goroutine of its own: on a disk that hangs nobody knows how long it takes.
func (s *server) keepTidy(ctx context.Context) {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		if _, err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("remove old records", "error", err)
		}
		select {
		case <-tidy.C:
		case <-ctx.Done():
			return
		}
	}
}

// awaitTidy waits for the end of keepTidy.
func (s *server) awaitTidy(ctx context.Context) error {
	select {
	case <-s.tidied:
		return nil
	case <-ctx.Done():
		return errors.New("old records are still being removed: the disk may hang")
	}
}

// stop ends everything in this order: changes are refused; kept connections end
// with an answer, for a second at most; the listeners close and the edge drains;
// runs are cancelled, their rollouts stay for the next start; the control
// socket; the notifier; then the house, which is the engine, the workers and the
// store. cut says which requests did not end in time.
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
		s.serving.Wait() // Close has closed what it serves on
	}
	if s.tidied != nil {
		errs = append(errs, step(tidyFor, s.awaitTidy))
	}
	s.endNotify()
	errs = append(errs, s.unlink(), s.House.Close(ctx))
	return cut, errors.Join(errs...)
}

// tellSystemd says how it goes to the systemd that started us, if one did.
func (s *server) tellSystemd(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
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
	if s.o.Notify == "" {
		return nil
	}
	n, err := newNotifier(s.o.Notify, s.version, s.events, s.log)
	if err != nil {
		return err
	}
	s.endNotify = n.start()
	return nil
}
