package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

func TestReadinessIsWhatTheServerAnswers(t *testing.T) {
	opt := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/up", "/":
			io.WriteString(w, "ok")
		case "/moved":
			http.Redirect(w, r, "/up", http.StatusFound)
		case "/html":
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, "<html>\nno")
		default:
			http.Error(w, "database not migrated\nmore", http.StatusServiceUnavailable)
		}
	})
	for path, want := range map[string]string{
		"":           "",
		"/":          "",
		"/up":        "",
		"/moved":     "",
		"/html":      "GET /html answered 500",
		"/up?deep=1": "",
		"/deep":      "GET /deep answered 503: database not migrated",
	} {
		err := Ready(within(t), opt.Network, opt.Address, path)
		if got := errText(err); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestServerThatIsNotThereIsNotReady(t *testing.T) {
	for _, path := range []string{"", "/up"} {
		if err := Ready(within(t), "unix", filepath.Join(t.TempDir(), "none"), path); !errors.Is(err, ErrConnect) {
			t.Errorf("%q: got %v, want ErrConnect", path, err)
		}
	}
}

func TestServerThatNeverAnswersIsNotReady(t *testing.T) {
	hold, inside := make(chan struct{}), make(chan struct{})
	opt := serveRaw(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		r.Peek(1)
		close(inside)
		<-hold
	})
	defer close(hold)
	ctx, cancel := context.WithCancelCause(within(t))
	late := errors.New("late")
	go func() { <-inside; cancel(late) }()
	if err := Ready(ctx, opt.Network, opt.Address, "/up"); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
}
