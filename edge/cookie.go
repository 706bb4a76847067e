package edge

import "strings"

// The edge's own cookies.
const (
	idCookie      = "muru_id"
	previewCookie = "muru_preview"
	stickyCookie  = "muru_sticky"
)

// cookieValues calls yield with the value of each cookie called name in the
// lines of a Cookie header, in order, until it returns false. Values are as
// sent, quotes included; a client's garbage is skipped.
func cookieValues(lines []string, name string, yield func(value string) bool) {
	for _, line := range lines {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			pair = strings.TrimSpace(pair)
			if len(pair) > len(name) && pair[len(name)] == '=' && pair[:len(name)] == name {
				if !yield(pair[len(name)+1:]) {
					return
				}
			}
		}
	}
}

// cookieValue returns the first value of a cookie that is not empty.
func cookieValue(lines []string, name string) string {
	found := ""
	cookieValues(lines, name, func(value string) bool {
		found = value
		return value == ""
	})
	return found
}

// cookieHeader joins the lines of a Cookie header into the one that the app
// gets (CGI would join them by commas) and removes every muru_preview, which
// may hold a secret. It is empty when nothing is left.
func cookieHeader(lines []string) string {
	if len(lines) == 1 && !strings.Contains(lines[0], previewCookie) {
		return lines[0]
	}
	var kept []string
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(pair, "=")
			if name = strings.TrimSpace(name); name != "" && name != previewCookie {
				kept = append(kept, strings.TrimSpace(pair))
			}
		}
	}
	return strings.Join(kept, "; ")
}

// setCookie returns a Set-Cookie value with the attributes of all our cookies.
// They are session cookies: how long a client is remembered is the browser's
// choice.
func setCookie(name, value, path string, secure bool) string {
	text := name + "=" + value + "; Path=" + path + "; HttpOnly; SameSite=Lax"
	if secure {
		text += "; Secure"
	}
	return text
}

// privateCacheControl returns the Cache-Control of an answer that sets a
// cookie of ours: a shared cache that kept it would hand one client's identity
// to everybody. An app that says private or no-store is left alone; of what
// else it says, only public and s-maxage are taken back.
func privateCacheControl(app []string) string {
	kept := "private"
	for _, line := range app {
		for directive := range strings.SplitSeq(line, ",") {
			directive = strings.TrimSpace(directive)
			name, _, _ := strings.Cut(directive, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "private", "no-store":
				return strings.Join(app, ", ")
			case "", "public", "s-maxage":
			default:
				kept += ", " + directive
			}
		}
	}
	return kept
}
