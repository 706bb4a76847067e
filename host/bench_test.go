package host

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"

	"muru"
)

// nowhere is a client that takes everything.
type nowhere struct{ answer }

func (*nowhere) Head(int, []muru.Field, int64) error { return nil }
func (*nowhere) Write(p []byte) (int, error)         { return len(p), nil }

// BenchmarkPythonRequest is a request through the queue to a thread of a
// Python worker and back, 8 at once over 4 threads.
func BenchmarkPythonRequest(b *testing.B) {
	dir, err := os.MkdirTemp("", "muru")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	h := New(Options{StateDir: dir, Reporter: &recorder{}, Log: slog.New(slog.DiscardHandler)})
	if err := h.Open(context.Background()); err != nil {
		b.Fatal(err)
	}
	defer h.Close(context.Background())
	backend, err := h.Start(context.Background(), muru.Release{ID: shop, ReleasePlan: muru.ReleasePlan{
		Kind: muru.Python, Source: "testdata/app", Entry: "app:application", Workers: 1, Threads: 4,
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var clients sync.WaitGroup
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	for range 8 {
		clients.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for range left {
				a := &nowhere{}
				x := get("/", &a.answer)
				x.Answer = a
				if out := backend.Do(ctx, x); out.Err != nil {
					b.Error(out.Err)
				}
			}
		})
	}
	clients.Wait()
}
