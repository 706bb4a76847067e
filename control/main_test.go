package control_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muru/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// socketPath returns a path in a directory of the test's own, which
// t.TempDir makes too long.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "muru")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // others fail at the socket
		t.Fatal(err)
	}
	return filepath.Join(dir, "muru.sock")
}

// A world is a server of the test's and a client of it.
type world struct {
	*control.Client
	server *control.Server
	path   string
}

func serve(t *testing.T, m control.Muru, options ...func(*control.Options)) *world {
	t.Helper()
	return serveAt(t, socketPath(t), "", m, options...)
}

func serveAt(t *testing.T, path, group string, m control.Muru, options ...func(*control.Options)) *world {
	t.Helper()
	o := control.Options{Muru: m, Version: "1.2.3"}
	for _, set := range options {
		set(&o)
	}
	l, err := control.Listen(path, group)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Client: control.NewClient(path, "1.2.3"), server: control.NewServer(o), path: path}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(l) }()
	t.Cleanup(func() {
		if err := w.server.Close(deadline(t)); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

// deadline returns a context that ends when the test must not wait longer.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// raw returns an HTTP client of the world's socket that knows nothing of
// muru, as curl.
func (w *world) raw(t *testing.T) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}
