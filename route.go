package muru

import (
	"strings"
	"time"
)

// A Route says where an app is reached, how its clients are told apart and
// what the edge answers itself. The zero value with an App name matches every
// host and path and keys clients by the muru_id cookie.
type Route struct {
	App         string
	Hosts       []string          // host names without port, or "*.example.com"; empty or "*": every host
	Path        string            // prefix, never stripped; empty is "/"
	Headers     map[string]string // request headers that must match exactly
	Methods     []string          // empty: all
	Key         Key
	Sticky      time.Duration // grace after a release left the route; 0: not sticky
	PreviewOff  bool
	PreviewKey  string            // when set, the secret a preview must carry after the release's name
	Health      string            // path the edge answers 200 itself
	Redirects   map[string]string // path: location, answered 308
	Compress    bool
	MaxBody     int64  // bytes; 0: unbounded
	Maintenance string // when set, every request but previews gets 503 and this text
}

// KeyKind says what tells a route's clients apart.
type KeyKind uint8

// The kinds of key.
const (
	KeyMuruID  KeyKind = iota // the edge's own muru_id cookie
	KeyCookie                 // a cookie of the application
	KeyHeader                 // a request header
	KeyAddress                // the client's address
)

// A Key tells a route's clients apart. A client without the named header or
// cookie falls back to muru_id. The zero value is muru_id.
type Key struct {
	Kind KeyKind
	Name string // of the header or cookie
}

// ParseKey parses "muru_id", "cookie:NAME", "header:NAME" or "address".
func ParseKey(text string) (Key, error) {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case text == "muru_id":
		return Key{}, nil
	case text == "address":
		return Key{Kind: KeyAddress}, nil
	case named && name != "" && kind == "cookie" && isToken(name):
		return Key{KeyCookie, name}, nil
	case named && name != "" && kind == "header" && isToken(name):
		return Key{KeyHeader, name}, nil
	}
	return Key{}, Errorf(KindUsage, "%q is not a key", text).
		WithHint(`write "muru_id", "cookie:NAME", "header:NAME" or "address"`)
}

// String is the inverse of [ParseKey].
func (k Key) String() string {
	switch k.Kind {
	case KeyCookie:
		return "cookie:" + k.Name
	case KeyHeader:
		return "header:" + k.Name
	case KeyAddress:
		return "address"
	default:
		return "muru_id"
	}
}

// isToken reports whether s is an HTTP token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// Routing is everything the edge knows of one app. It is immutable once
// handed over: a change is a new Routing with a higher Generation.
type Routing struct {
	Route      Route
	Generation uint64 // of this app's table; counts are kept per generation
	Split      Split
	Backends   map[ReleaseID]Backend // every live release: those in the split, and held and warm ones for previews
	Rollout    int                   // the live rollout, 0 if none
	Honoured   []Honoured            // sticky routes: releases off the split whose clients keep them for a while
	Marks      []string              // names of answer headers whose presence is told in [Fact] Marks
	// Shield has the baseline answer a GET or HEAD without a body that the
	// candidate failed (a 5xx, its own or muru's) before a byte reached the
	// client. The candidate's Fact tells its failure; the rescue has none.
	Shield bool
	Shadow *Shadow // nil: no copies are made
}

// A Shadow has copies of requests sent to a release that does not answer
// them, in the background: GET and HEAD without a body, of those clients that
// the baseline answers and whose bucket lies below Share, which are the same
// clients that a split with that share would give to the release. Copies carry
// Muru-Shadow: 1. They never delay the client, and are dropped, not queued,
// when the release is busy or too many are under way.
type Shadow struct {
	Release ReleaseID
	Share   Share
}

// Honoured is a release that left a sticky route but keeps its clients until
// a time. A candidate that was rolled back or aborted is never honoured.
type Honoured struct {
	Release ReleaseID
	Until   time.Time
}
