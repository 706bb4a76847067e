package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"muru"
)

// A nullAnswer drops an answer without an allocation.
type nullAnswer struct{ muru.Answer }

func (nullAnswer) Head(int, []muru.Field, int64) error { return nil }
func (nullAnswer) Write(p []byte) (int, error)         { return len(p), nil }
func (nullAnswer) Flush() error                        { return nil }

// benchServer answers 100 bytes to whatever ends in an empty line, as cheaply
// as can be.
func benchServer(b *testing.B, network string) Options {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = b.TempDir() + "/s"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nDate: Sat, 07 Nov 2026 07:20:07 GMT\r\n" +
		"Content-Length: 100\r\n\r\n" + string(make([]byte, 100)))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					c.Write(answer)
				}
			}()
		}
	}()
	return Options{Network: network, Address: l.Addr().String()}
}

func benchExchange() *muru.Exchange {
	x := request("GET", "/orders/1?full=yes", nullAnswer{})
	for _, name := range []string{"User-Agent", "Accept-Language", "Cookie", "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto"} {
		x.Header = append(x.Header, muru.Field{Name: name, Value: "a value of some thirty characters"})
	}
	return x
}

func BenchmarkRequest(b *testing.B) {
	for _, network := range []string{"unix", "tcp"} {
		opt := benchServer(b, network)
		b.Run(network+"/Client", func(b *testing.B) {
			c := client(b, opt)
			x := benchExchange()
			b.ReportAllocs()
			for b.Loop() {
				// As a server's: every request has its own.
				ctx, cancel := context.WithCancel(context.Background())
				if err := c.Do(ctx, x, Hooks{}); err != nil {
					b.Fatal(err)
				}
				cancel()
			}
		})
		b.Run(network+"/http.Transport", func(b *testing.B) {
			t := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, opt.Network, opt.Address)
			}}
			defer t.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				r, _ := http.NewRequestWithContext(ctx, "GET", "http://shop.example/orders/1?full=yes", nil)
				for _, f := range benchExchange().Header {
					r.Header[f.Name] = []string{f.Value}
				}
				res, err := t.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				cancel()
			}
		})
	}
}
