package wire

import (
	"testing"

	"muru"
)

// discard takes an answer and forgets it.
type discard struct{}

func (discard) Head(int, []muru.Field, int64) error { return nil }
func (discard) Body([]byte) error                   { return nil }

// BenchmarkHello is one small request through one thread of a worker, there
// and back.
func BenchmarkHello(b *testing.B) {
	l := start(b, "basic:hello").link
	x := request("GET", "/orders/3?full=yes")
	for _, f := range [][2]string{
		{"Accept", "text/html,application/xhtml+xml"}, {"Accept-Encoding", "gzip, deflate, br"}, {"Accept-Language", "en"},
		{"Cookie", "muru_id=01M8V4Q7J2W3N5X6Y8Z9A0B1C2; session=abcdef"}, {"User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"},
		{"X-Forwarded-For", "192.0.2.7"}, {"X-Forwarded-Proto", "http"}, {"Cache-Control", "no-cache"},
	} {
		x.Header = append(x.Header, muru.Field{Name: f[0], Value: f[1]})
	}
	b.ReportAllocs()
	id := uint32(0)
	for b.Loop() {
		id++
		if err := l.Send(x, id); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Receive(id, discard{}); err != nil {
			b.Fatal(err)
		}
	}
}
