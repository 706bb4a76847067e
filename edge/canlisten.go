package edge

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errCanListen ends the trial of CanListen when it has succeeded.
var errCanListen = errors.New("the address is free")

// CanListen returns the error that [Edge.Listen] would return now. It binds a
// socket and does not listen on it: whoever connected meanwhile would be hung up
// on.
func CanListen(ctx context.Context, address string) error {
	config := net.ListenConfig{Control: func(network, resolved string, c syscall.RawConn) error {
		if strings.HasPrefix(resolved, ":") {
			resolved = "[::]" + resolved // everywhere
		}
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		if tried := c.Control(func(fd uintptr) { err = bind(int(fd), network, at) }); tried != nil || err != nil {
			return errors.Join(tried, err)
		}
		return errCanListen
	}}
	l, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l.Close() // not reached: Control ends every trial with an error
	case errors.Is(err, errCanListen):
		return nil
	}
	return listenError(address, err)
}

// bind takes an address for a socket that net has made, and closes.
func bind(fd int, network string, at netip.AddrPort) error {
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if network == "tcp4" {
		four := &unix.SockaddrInet4{Port: int(at.Port())}
		if a := at.Addr().Unmap(); a.Is4() {
			four.Addr = a.As4()
		}
		to = four
	}
	return os.NewSyscallError("bind", unix.Bind(fd, to))
}
