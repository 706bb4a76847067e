package host

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// BenchmarkHTTPRequest is a request to an external server over a real socket
// and back, one at a time, each with a context of its own as the edge's have.
// cpu-ns/op is the processor time of all of it, the server included.
func BenchmarkHTTPRequest(b *testing.B) {
	for _, size := range []int{100, 10 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			dir, err := os.MkdirTemp("", "muru")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			h := New(Options{StateDir: dir, Reporter: &recorder{}})
			if err := h.Open(context.Background()); err != nil {
				b.Fatal(err)
			}
			defer h.Close(context.Background())
			plan := muru.ReleasePlan{Kind: muru.External, Upstream: plainServer(b, size), Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits()}
			backend, err := h.Start(context.Background(), muru.Release{ID: shop, ReleasePlan: plan})
			if err != nil {
				b.Fatal(err)
			}
			a := &nowhere{}
			x := get("/", &a.answer)
			x.Answer = a
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				if out := backend.Do(ctx, x); out.Err != nil {
					b.Fatal(out.Err)
				}
				cancel()
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// plainServer answers whatever ends a request's head with size bytes, as
// cheaply as can be.
func plainServer(b *testing.B, size int) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n" + strings.Repeat("x", size))
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
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
