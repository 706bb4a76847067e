package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muru"
	"muru/control"
)

// controlPath is where this daemon's socket is: $MURU_CONTROL, whatever
// --state says, else in the state directory.
func (s *server) controlPath() string {
	if path := os.Getenv("MURU_CONTROL"); path != "" {
		return path
	}
	return filepath.Join(s.state, control.SocketName)
}

// checkControl refuses a socket that could not be opened later.
func (s *server) checkControl() error {
	if err := s.removeLink(); err != nil {
		return err
	}
	l, err := control.Listen(s.controlPath(), s.o.SocketGroup)
	if err != nil {
		return err
	}
	return l.Close()
}

// openControl opens the control socket and serves on it until stop.
func (s *server) openControl() (err error) {
	if s.socket, err = control.Listen(s.controlPath(), s.o.SocketGroup); err != nil {
		return err
	}
	s.runner = NewRunner(s.runnerOptions()) // which stop closes in its turn
	s.control = control.NewServer(control.Options{
		Muru: s.runner, Version: s.version, WriteMetrics: s.edge.WriteMetrics, Healthy: s.healthy,
		Bug: func(b control.Bug) {
			s.log.Error("BUG", "id", b.ID, "in", b.In, "value", fmt.Sprint(b.Value), "stack", string(b.Stack))
		},
	})
	s.serving.Go(func() {
		if err := s.control.Serve(s.socket); err != nil {
			s.controlled <- err // has room for it
		}
	})
	return s.leadToSocket()
}

// healthy is asked by /healthz.
func (s *server) healthy() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := s.store.Status(ctx); err != nil {
		return fmt.Errorf("the state cannot be used: %w", err)
	}
	return nil
}

// leadToSocket makes a link in the state directory to a socket elsewhere, so
// that --state finds it as well.
func (s *server) leadToSocket() error {
	target, err := filepath.Abs(s.socket.Path())
	if err != nil {
		return fmt.Errorf("find the control socket: %w", err)
	}
	link := filepath.Join(s.state, control.SocketName)
	if target == link {
		return nil
	}
	if l, err := control.Listen(link, ""); err == nil {
		// Nobody answers there: a socket that an earlier muru left is gone now.
		if err := l.Close(); err != nil {
			return fmt.Errorf("remove %s: %w", link, err)
		}
	}
	if err := os.Symlink(target, link); err != nil {
		return muru.Errorf(muru.KindFailed, "lead from %s to the control socket: %w", link, err)
	}
	s.unlink = s.removeLink
	return nil
}

// removeLink removes what leads to a socket elsewhere. The state directory is
// ours, so nobody uses it.
func (s *server) removeLink() error {
	link := filepath.Join(s.state, control.SocketName)
	info, err := os.Lstat(link)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return nil // if it cannot be looked at, that shows when it is used
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what led to the control socket: %w", err)
	}
	return nil
}
