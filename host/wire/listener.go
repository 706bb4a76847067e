package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"muru"
)

// helloTimeout bounds the wait for a connection's hello.
const helloTimeout = 5 * time.Second

// MaxSocketPath is the longest path, in bytes, that a unix socket can have on
// this system: an address has room for it and for the NUL that ends it.
const MaxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// A Listener takes the connections of Python workers. It is safe for
// concurrent use.
type Listener struct {
	socket *net.UnixListener
	log    *slog.Logger
}

// Listen listens at path, which only this user can connect to. What a daemon
// that is gone left there is replaced; a daemon that is not gone is an error.
// log takes what is wrong with connections that were dropped; nil for nowhere.
func Listen(path string, log *slog.Logger) (*Listener, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if len(path) > MaxSocketPath {
		return nil, muru.Errorf(muru.KindUsage, "the path of the socket is too long: %d bytes, at most %d: %s", len(path), MaxSocketPath, path).
			WithHint("choose a shorter state directory with --state")
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	return &Listener{socket: socket, log: log}, nil
}

// clearSocket removes a socket that nobody listens on.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return muru.Errorf(muru.KindFailed, "listen for workers: %s is there and is no socket", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return muru.Errorf(muru.KindRefused, "another muru uses %s", path).
			WithHint("choose another state directory with --state")
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	return nil
}

// Serve calls accept with each connection that said a hello, on a goroutine
// of its own; accept owns the connection and should return soon. Whether the
// token is right is for accept to say. Connections that say none within 5 s
// are dropped. Serve returns nil when ctx ends or Close was called, once every
// accept has returned.
func (l *Listener) Serve(ctx context.Context, accept func(Hello, net.Conn)) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.socket.Close() })
	defer stop()
	for {
		c, err := l.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// Out of descriptors, most likely: workers try again.
			l.log.Warn("take a worker's connection", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		open.Go(func() { l.greet(ctx, c, accept) })
	}
}

// greet reads the hello of one connection.
func (l *Listener) greet(ctx context.Context, c *net.UnixConn, accept func(Hello, net.Conn)) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	r := bufio.NewReaderSize(c, 512)
	hello, err := readHello(r)
	if err == nil && r.Buffered() > 0 && hello.Thread != ControlThread {
		err = protocolError("said more than a hello")
	}
	if !stop() || err != nil {
		if err != nil {
			l.log.Warn("drop a connection to the worker socket", "err", err)
		}
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if r.Buffered() > 0 {
		accept(hello, &helloConn{Conn: c, r: r})
		return
	}
	accept(hello, c)
}

// Read reads what came with the hello first: a control connection may report
// at once.
func (c *helloConn) Read(p []byte) (int, error) {
	if c.r.Buffered() > 0 {
		return c.r.Read(p)
	}
	return c.Conn.Read(p)
}

// Close stops listening and removes the socket; connections that were
// accepted stay open. Workers look for the next daemon from then on.
func (l *Listener) Close() error {
	err := l.socket.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
