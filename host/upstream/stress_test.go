package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"muru"
)

// Requests of every kind share a few connections while some are cut and some
// clients leave: whoever gets an answer gets its own.
func TestAnswersNeverReachAnotherRequest(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		size := len(r.URL.Path) * 997 % 20_000
		if r.URL.Query().Get("as") == "length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(r.URL.Path)+len(body)+size))
		}
		io.WriteString(w, r.URL.Path)
		if r.URL.Query().Get("as") == "stream" {
			w.(http.Flusher).Flush()
		}
		w.Write(body)
		io.WriteString(w, strings.Repeat(".", size))
	})
	c := client(t, opt)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := range 60 {
				path := fmt.Sprintf("/%d/%d/%s", worker, i, strings.Repeat("p", rnd.IntN(50)))
				if err := oneOfMany(within(t), c, rnd, path); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	wg.Wait()
}

func oneOfMany(ctx context.Context, c *Client, rnd *rand.Rand, path string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &recorder{}
	x := request("GET", path+"?as="+[]string{"length", "stream", "any"}[rnd.IntN(3)], a)
	body := ""
	if rnd.IntN(3) == 0 {
		body = strings.Repeat(path, 1+rnd.IntN(2000))
		x.Method, x.Body, x.Length = "POST", strings.NewReader(body), int64(len(body))
		if rnd.IntN(2) == 0 {
			x.Length = -1
		}
	}
	want := path + body + strings.Repeat(".", len(path)*997%20_000)
	cut := rnd.IntN(6)
	switch cut {
	case 0:
		h := Hooks{Sent: func() { go cancel(muru.ErrHardTimeout) }}
		if err := c.Do(ctx, x, h); err != nil && !errors.Is(err, muru.ErrHardTimeout) {
			return fmt.Errorf("cut: %w", err)
		} else if err != nil {
			return nil
		}
	case 1:
		a.fail = func(string) error { return muru.ErrClientGone }
		if err := c.Do(ctx, x, Hooks{}); !errors.Is(err, muru.ErrClientGone) {
			return fmt.Errorf("client left: %w", err)
		}
		return nil
	default:
		if err := c.Do(ctx, x, Hooks{}); err != nil {
			return err
		}
	}
	if a.status != 200 || string(a.body) != want {
		return fmt.Errorf("got %d and %d bytes beginning %.40q, want %d bytes", a.status, len(a.body), a.body, len(want))
	}
	return nil
}

// A quietConn is a server that answers every write without an allocation.
type quietConn struct {
	bytesConn
	answer []byte
}

func (c *quietConn) Write(p []byte) (int, error) { c.data = c.answer; return len(p), nil }

// An ownContext knows how to call back without an allocation.
type ownContext struct{ context.Context }

func (ownContext) AfterFunc(func()) func() bool { return stopped }

func stopped() bool { return true }

func TestRequestAllocatesOneStringBesidesItsContext(t *testing.T) {
	c := client(t, Options{})
	c.put(newConn(&quietConn{bytesConn: bytesConn{piece: 4096}, answer: []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nDate: x\r\nContent-Length: 2\r\n\r\nhi")}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x := benchExchange()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		most float64
	}{
		{"no end", context.Background(), 1},
		{"an AfterFunc of its own", ownContext{ctx}, 1},
		{"any other", ctx, 5},
	} {
		got := testing.AllocsPerRun(100, func() {
			if err := c.Do(tt.ctx, x, Hooks{}); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.most {
			t.Errorf("context with %s: %v allocations a request, want at most %v", tt.name, got, tt.most)
		}
	}
}
