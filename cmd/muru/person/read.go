package person

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readLine reads a line and not a byte more: what follows is for whoever
// reads the terminal next. From a file it ends with ctx.
func readLine(ctx context.Context, r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for {
		if f, ok := r.(*os.File); ok {
			if err := WaitReadable(ctx, int(f.Fd())); err != nil {
				return "", err
			}
		}
		n, err := r.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1 && len(line) < 1<<10:
			line = append(line, one[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}

// WaitReadable waits until there is something to read, or returns the cause
// of ctx. Nothing of it stays behind, unlike a goroutine that reads.
func WaitReadable(ctx context.Context, fd int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wake [2]int
	if err := unix.Pipe2(wake[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("wait for the terminal: %w", err)
	}
	defer unix.Close(wake[0])
	defer unix.Close(wake[1])
	woken := make(chan struct{}) // closed when the byte is written
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(wake[1], []byte{0})
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake[0]), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the terminal: %w", err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fds[0].Revents != 0:
			return nil
		}
	}
}
