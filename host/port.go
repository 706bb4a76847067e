package host

import (
	"fmt"
	"net"
)

// A command worker is told its port before it listens there, and what we
// cannot do is keep the port for it: servers bind it themselves, and many
// without the options that would let them share it with us. So between our
// look and its bind another program may take the port, and would be taken for
// the worker. Two things are against that. No port is given to two workers,
// of whatever release, at once; Linux gives the ports of others out at random
// among thousands. And where the system says who listens (Linux), a program
// that is older than the worker is known not to be it, nor started by it. The
// worker's group alone would not do: containers and servers that make a
// session of their own are outside of it.

// takePort returns a port of the loopback that nothing listened on a moment
// ago, and that no other worker has until [Host.givePort].
func (h *Host) takePort() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		port, err := h.freePort()
		if err != nil || !h.ports[port] {
			if err == nil {
				h.ports[port] = true
			}
			return port, err
		}
	}
}

// givePort gives a worker's port back; 0 is none.
func (h *Host) givePort(port int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ports, port)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// stranger returns the pid of a program that listens on the worker's port and
// cannot be the worker's, 0 if there is none that we know of.
func (w *worker) stranger() int {
	listens := listeners(w.port, w.proc.pid)
	for _, p := range listens {
		if p.group == w.proc.pid || p.started >= w.proc.ticks {
			return 0
		}
	}
	if len(listens) == 0 {
		return 0
	}
	return listens[0].pid
}

// A listening is a process that listens on a port.
type listening struct {
	pid, group int
	started    int64 // in ticks of the system's clock
}
