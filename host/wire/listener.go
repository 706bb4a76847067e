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
	path string
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	socket *net.UnixListener
	file   os.FileInfo // of the socket
	closed bool
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
	l := &Listener{path: path, log: log}
	if err := l.listen(); err != nil {
		return nil, err
	}
	return l, nil
}

// listen makes the socket. l.mu is held, or nobody else has l.
func (l *Listener) listen() error {
	if err := clearSocket(l.path); err != nil {
		return err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	err = os.Chmod(l.path, 0o600)
	var file os.FileInfo
	if err == nil {
		file, err = os.Lstat(l.path)
	}
	if err != nil {
		_ = socket.Close()
		return fmt.Errorf("listen for workers: %w", err)
	}
	socket.SetUnlinkOnClose(false) // we look first whether it is still ours
	l.socket, l.file = socket, file
	return nil
}

// ours reports whether the path leads to our socket. l.mu is held.
func (l *Listener) ours() bool {
	file, err := os.Lstat(l.path)
	return err == nil && os.SameFile(file, l.file)
}

// Renew listens again if the socket's file was removed or replaced, so that
// workers find us: nothing else says so, and they would look for a daemon in
// vain. Connections that were accepted stay as they are. Call it before a
// worker is started. The error says what is in the way; it is refused when
// another daemon listens there.
func (l *Listener) Renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.ours() {
		return nil
	}
	old := l.socket
	if err := l.listen(); err != nil {
		return err
	}
	l.log.Warn("the worker socket was removed: listening again", "path", l.path)
	_ = old.Close() // Serve goes on with the new one
	return nil
}

// current returns the socket to accept on, nil once the listener is closed.
func (l *Listener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.socket
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
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		socket := l.current()
		if socket == nil {
			return nil
		}
		c, err := socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			continue // for good, or there is a new one
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	if l.ours() {
		err = os.Remove(l.path)
	}
	return errors.Join(err, l.socket.Close())
}
