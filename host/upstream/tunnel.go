package upstream

import (
	"context"
	"io"
	"net/textproto"
	"strings"
	"time"
)

// closeWait is how long a client may take to end its side after the server
// has ended its own.
const closeWait = 10 * time.Second

// A halfCloser can end one direction of a connection.
type halfCloser interface{ CloseWrite() error }

// tunnel passes on a 101 answer and then copies both ways until both sides
// have ended, or one has failed, or the context has ended, which a WebSocket's
// client is told by a close frame (1001). A client that ends
// its side may go on receiving; a client whose server has ended gets
// closeWait. It returns nil when the server ended properly.
func (k *call) tunnel(h *head) error {
	if !k.x.Upgrade || !offered(upgradeTo(k.x), h.upgrade) {
		return malformed("101 for protocol %.60q, which was not asked for", h.upgrade)
	}
	if h.odd {
		return malformed("101 with a body")
	}
	if k.gone != nil {
		return k.gone
	}
	client, err := k.hooks.Answer.Upgrade(h.status, h.fields)
	if err != nil {
		k.gone = err
		return err
	}
	defer client.Close()
	k.headed = true
	k.hooks.upgraded()
	websocket := isWebSocket(h.upgrade)
	stop := context.AfterFunc(k.ctx, endOfTunnel(client, websocket))
	defer stop()

	up := make(chan error, 1)
	go func(c *conn) { up <- c.copyUp(client) }(k.c)
	var frames frameTracker
	err = k.copyDown(client, &frames)
	switch {
	case k.gone != nil:
	case err == nil:
		if k.letEnd(client, up) {
			return nil
		}
	case websocket && k.ctx.Err() != nil:
		if sayGoodbye(client, &frames, up) {
			return err
		}
	}
	k.c.interrupt()
	client.Close()
	if goneErr := <-up; goneErr != nil && err != nil && k.gone == nil {
		k.gone = goneErr
	}
	return err
}

// letEnd ends the client's receiving side after the server has ended its own,
// and waits for the client to end its sending side.
func (k *call) letEnd(client io.Closer, up <-chan error) (ended bool) {
	hc, ok := client.(halfCloser)
	if !ok || hc.CloseWrite() != nil {
		return false
	}
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-up:
		return true
	case <-k.ctx.Done():
	case <-timer.C:
	}
	return false
}

// copyUp copies from the client to the server. It returns an error when the
// client failed, which ends the other direction too. Once the connection is
// cut it reads on for nobody: a client's last words, unread, would reset its
// connection before it has seen ours.
func (c *conn) copyUp(client io.Reader) error {
	buf := make([]byte, smallBuffer)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			if _, err := c.nc.Write(buf[:n]); err != nil && !c.cut.Load() {
				return nil // copyDown reads what there is and why
			}
		}
		if err == io.EOF {
			if hc, ok := c.nc.(halfCloser); ok {
				hc.CloseWrite()
			}
			return nil
		}
		if err != nil {
			if c.cut.Load() {
				return nil // our own doing
			}
			c.interrupt()
			return err
		}
	}
}

// copyDown copies from the server to the client until the server ends. An
// error of the client is in k.gone.
func (k *call) copyDown(client io.Writer, frames *frameTracker) error {
	for {
		if b := k.c.buffered(); len(b) > 0 {
			k.c.r = k.c.w
			if _, err := client.Write(b); err != nil {
				k.gone = err
				return err
			}
			frames.see(b)
		}
		if err := k.c.fill(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// offered reports whether the protocol of a 101 answer is one of those asked
// for.
func offered(asked, protocol string) bool {
	for token := range strings.SplitSeq(asked, ",") {
		if protocol != "" && strings.EqualFold(textproto.TrimString(token), protocol) {
			return true
		}
	}
	return false
}
