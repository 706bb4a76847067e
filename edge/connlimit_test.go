package edge

import (
	"io"
	"net"
	"testing"
	"time"
)

// A client that may take all descriptors of the process with connections on
// which nothing happens takes the control socket and new workers with them.
func TestIdleClientsLeaveDescriptorsForTheRest(t *testing.T) {
	f := newFront(t, Options{maxConns: 3})
	var idle []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	answered := func() bool {
		c, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		head, _ := io.ReadAll(c) // closed with our bytes unread: a reset
		return len(head) > 0
	}
	for range 3 {
		if answered() {
			t.Fatal("a client over the limit was served")
		}
	}
	idle[0].Close()
	for deadline := time.Now().Add(5 * time.Second); !answered(); {
		if time.Now().After(deadline) {
			t.Fatal("no room again after one has left")
		}
	}
}
