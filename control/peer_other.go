//go:build !linux

package control

import (
	"net"
	"os"
)

// peerOf takes everybody for the owner where we do not know how to ask: the
// mode of the socket's file is then what keeps others out, and changes by
// members of its group are the owner's in events.
func peerOf(*net.UnixConn) (peer, error) { return peer{uid: os.Geteuid()}, nil }
