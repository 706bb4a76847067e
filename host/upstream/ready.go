package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"muru"
)

// Ready asks a server once whether it is ready: with a path, whether it
// answers GET path with a status below 400; without one, whether it accepts a
// connection. ctx bounds it. The error says what was seen: it wraps
// [ErrConnect], [ErrReset] or context.Cause(ctx), or is about the status.
func Ready(ctx context.Context, network, address, path string) error {
	if path == "" {
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, address)
		switch {
		case err == nil:
			return nc.Close()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
	host := "localhost"
	if network != "unix" {
		host = address
	}
	c := New(Options{Network: network, Address: address, MaxIdle: -1})
	defer c.Close()
	a := &probeAnswer{}
	x := &muru.Exchange{
		Method: "GET", Target: path, Proto: "HTTP/1.1", Scheme: "http", Host: host, Answer: a,
		Header: []muru.Field{{Name: "User-Agent", Value: "muru-ready"}, {Name: "Accept", Value: "*/*"}},
	}
	err := c.Do(ctx, x, Hooks{})
	switch {
	case a.status >= 400:
		return fmt.Errorf("GET %s answered %d%s", path, a.status, a.text())
	case a.status > 0:
		return nil // its body does not matter
	}
	return err
}

// errProbed ends the probe's request: its status is known.
var errProbed = errors.New("the probe has its status")

// A probeAnswer keeps the status and the beginning of the body.
type probeAnswer struct {
	muru.Answer // nil: what is not below is never called without x.Upgrade
	status      int
	body        []byte
}

func (a *probeAnswer) Inform(int, []muru.Field) error { return nil }
func (a *probeAnswer) Flush() error                   { return nil }
func (a *probeAnswer) Trailer([]muru.Field) error     { return nil }

func (a *probeAnswer) Head(status int, _ []muru.Field, _ int64) error {
	a.status = status
	if status < 400 {
		return errProbed
	}
	return nil
}

func (a *probeAnswer) Write(p []byte) (int, error) {
	a.body = append(a.body, p[:min(len(p), 200-len(a.body))]...)
	if len(a.body) == 200 {
		return 0, errProbed
	}
	return len(p), nil
}

// text returns the body's first line for people.
func (a *probeAnswer) text() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(a.body)), "\n")
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "<") || !validValue(line) {
		return ""
	}
	return ": " + line
}
