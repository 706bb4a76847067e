package edge

import (
	"net/netip"
	"strings"
)

// trusts reports whether addr is a proxy whose forwarded headers are believed.
func (e *Edge) trusts(addr netip.Addr) bool {
	for _, p := range *e.trust.Load() {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// forwardedClient returns the client's address as the trusted proxies tell it:
// the last entry of X-Forwarded-For that is not itself a trusted proxy, since
// everything before it is the client's own word. An entry that is no address
// ends the search at the proxy that wrote it.
func forwardedClient(peer netip.Addr, header []string, trusts func(netip.Addr) bool) netip.Addr {
	client := peer
	for i := len(header) - 1; i >= 0; i-- {
		rest := header[i]
		for more := true; more; {
			entry := rest
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, entry = rest[:at], rest[at+1:]
			} else {
				more = false
			}
			addr, ok := parseForwardedAddr(entry)
			if !ok {
				return client
			}
			if client = addr; !trusts(addr) {
				return client
			}
		}
	}
	return client
}

// parseForwardedAddr parses an entry of X-Forwarded-For: an address, with or
// without brackets and a port.
func parseForwardedAddr(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if len(entry) > 64 {
		return netip.Addr{}, false
	}
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// forwardedScheme returns http or https if that is what a trusted proxy's
// X-Forwarded-Proto says, else the connection's own.
func forwardedScheme(header []string, own string) string {
	if len(header) == 0 {
		return own
	}
	first, _, _ := strings.Cut(header[0], ",")
	switch first = strings.TrimSpace(first); {
	case strings.EqualFold(first, "https"):
		return "https"
	case strings.EqualFold(first, "http"):
		return "http"
	}
	return own
}
