package builtins

import (
	"net"
	"net/netip"
	"strconv"

	"go.starlark.net/starlark"

	"muru"
)

// A Listener is what listen() asks for.
type Listener struct {
	Address string // HOST:PORT; an empty host is every address

	// TrustedProxies are where requests come from whose X-Forwarded headers
	// are believed.
	TrustedProxies []netip.Prefix
}

var listenSpec = (&Spec{
	Name:    "listen",
	Group:   GroupTraffic,
	Summary: "makes the edge listen on an address; in the site's file only",
	Doc: `The site's file is the one that muru serve is started with. A listener opens when the whole file has
run and what served before serves again. Without any, the edge listens where --listen says.`,
	Params: []Param{
		{Name: "address", Type: addressType, Pass: Positional, Doc: `such as ":80" (every address) or "127.0.0.1:8080"`},
		{Name: "trusted_proxies", Type: listType[netip.Prefix](networkType), Default: list(), Doc: "addresses and networks whose X-Forwarded headers are believed"},
	},
	Returns: "None",
	Errors:  []string{"refused: this is not the site's file, or the address is declared already"},
	Example: `listen("127.0.0.1:8080", trusted_proxies = ["10.0.0.0/8"])`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		if c.set.env.Listen == nil {
			return nil, muru.Errorf(muru.KindRefused, "only the site's file declares listeners").
				WithHint("muru serve SITE.star; muru run has --listen")
		}
		return nil, c.set.env.Listen(c.ctx, Listener{
			Address: arg[string](c, "address"), TrustedProxies: arg[[]netip.Prefix](c, "trusted_proxies"),
		})
	},
}).check()

var (
	addressType = checkedText("address to listen on", func(address string) string {
		host, port, err := net.SplitHostPort(address)
		n, convErr := strconv.Atoi(port)
		_, ipErr := netip.ParseAddr(host)
		if err != nil || convErr != nil || n < 0 || n > 65535 || host != "" && host != "localhost" && ipErr != nil {
			return `write it like ":80" or "127.0.0.1:8080"`
		}
		return ""
	})
	networkType Type = typeOf{"address or network", func(_ *Call, v starlark.Value) (any, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted("an address or a network", v)
		}
		if addr, err := netip.ParseAddr(string(s)); err == nil {
			return netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		network, err := netip.ParsePrefix(string(s))
		if err != nil {
			return nil, usagef("%s is not an address or a network", v).WithHint(`write it like "10.0.0.1" or "10.0.0.0/8"`)
		}
		return network.Masked(), nil
	}}
)
