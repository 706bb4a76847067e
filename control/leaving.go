package control

import (
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// lingerFor bounds what a call may still say when whoever asked is leaving.
const lingerFor = 500 * time.Millisecond

// A leaving is how a client gives up what it asked for: it closes its half of
// the connection, which ends the work at the server, and listens for a moment
// to what that still says. The zero value closes nothing.
type leaving struct {
	mu   sync.Mutex // guards what follows
	conn net.Conn
	sent bool // the request is whole
}

// trace finds the connection.
func (l *leaving) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.conn = info.Conn
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sent = info.Err == nil
		},
	}
}

// leave closes our half, and calls end when the moment has passed: at once
// where there is no half to close.
func (l *leaving) leave(end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	half, ok := l.conn.(interface{ CloseWrite() error })
	if !ok || !l.sent || half.CloseWrite() != nil {
		end()
		return
	}
	time.AfterFunc(lingerFor, end)
}
