package edge

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"muru"
)

// parsePreview reads the value of a Muru-Preview header or muru_preview
// cookie: "r6" or "shop@r6", and behind a space the route's secret. A cookie
// cannot hold a space everywhere, so a colon does as well: "r6:SECRET". ok is
// false when it names no release at all; other is true when it names one of
// another app.
func parsePreview(text, app string) (id muru.ReleaseID, secret string, other, ok bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	name := text
	if i := strings.IndexAny(text, " :"); i >= 0 {
		name, secret = text[:i], strings.TrimSpace(text[i+1:])
	}
	if len(name) > 80 {
		return muru.ReleaseID{}, secret, false, false
	}
	if owner, _, full := strings.Cut(name, "@"); full && owner != app {
		return muru.ReleaseID{}, secret, true, false
	}
	id, err := muru.ParseReleaseID(name, app)
	return id, secret, false, err == nil
}

// preview returns the release that the request asks to see. wanted is false
// when it asks for none. A request that may not ask, because previews are off
// or its secret is not the route's, does not learn what exists: it is served
// like any other. A wanted release that is not there is the zero ID.
//
// Two apps can share a host and so a preview cookie; one that names another
// app (blog@r3) is none for this one.
func (s *state) preview(h http.Header) (id muru.ReleaseID, wanted bool) {
	route := &s.routing.Route
	if route.PreviewOff {
		return muru.ReleaseID{}, false
	}
	allowed := func(secret string) bool {
		return route.PreviewKey == "" ||
			subtle.ConstantTimeCompare([]byte(secret), []byte(route.PreviewKey)) == 1
	}
	if values := h["Muru-Preview"]; len(values) > 0 {
		id, secret, _, _ := parsePreview(values[0], route.App)
		if allowed(secret) {
			return id, true
		}
	}
	if value := cookieValue(h["Cookie"], previewCookie); value != "" {
		id, secret, other, _ := parsePreview(value, route.App)
		if !other && allowed(secret) {
			return id, true
		}
	}
	return muru.ReleaseID{}, false
}
