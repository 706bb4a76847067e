package control

import (
	"encoding/json"
	"net/http"
	"time"
)

// Timing sets the bounds that tests cannot wait for.
func (o *Options) Timing(heartbeat, stall time.Duration) { o.heartbeat, o.stall = heartbeat, stall }

// Sessions sets how many sessions may be open.
func (o *Options) Sessions(max int) { o.maxSessions = max }

// Users sets where the names of users come from.
func (o *Options) Users(lookup func(uid int) (name string, known bool)) { o.lookupUser = lookup }

// SetSilence sets for how long the server may say nothing.
func (c *Client) SetSilence(d time.Duration) { c.silence = d }

// SetSessionClock sets what the table of sessions takes for the time.
func (s *Server) SetSessionClock(now func() time.Time) { s.sessions.now = now }

// PretendAPI makes the client's requests those of another API version.
func (c *Client) PretendAPI(version string) {
	next := c.http.Transport
	c.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set(headerAPI, version)
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ReadStreamLine decodes a line of a stream and returns what writing it again
// gives.
func ReadStreamLine(text []byte) (again []byte, isError bool, err error) {
	l, err := decodeLine(text)
	if err != nil {
		return nil, false, err
	}
	if l.Error != nil {
		l.Error = toWire(l.Error.error())
	}
	if _, err := l.message(); err != nil {
		return nil, false, err
	}
	again, err = l.encode()
	return again, l.Error != nil, err
}

// RoundTrip returns err as a client gets it.
func RoundTrip(err error) (*Error, error) {
	text, failed := json.Marshal(toWire(err))
	if failed != nil {
		return nil, failed
	}
	var w wireError
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	return w.error(), nil
}

// StateDir is DefaultStateDir of anybody.
var StateDir = stateDir

// Bounds of the package.
const (
	MaxPath = maxPath
	MaxBody = maxBody
	MaxLine = maxLine
)
