package edge

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

func TestAClientThatTakesNothingIsGoneAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := newConn(ours)
		defer c.Close()
		for range 3 { // after whatever pause, and after net/http reset what it thinks is its deadline
			began := time.Now()
			if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			if took := time.Since(began); took > writeStall || took < writeStall*7/8 {
				t.Errorf("gave up after %v", took)
			}
			time.Sleep(time.Hour)
			if err := c.SetDeadline(time.Time{}); err != nil {
				t.Error(err)
			}
		}
		go func() { _, _ = theirs.Read(make([]byte, 1)) }()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("a client that reads again: %v", err)
		}
	})
}

// silent is a body whose client sends nothing more.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestAClientThatSendsNothingIsGone(t *testing.T) {
	b := body{from: silent{}, control: http.NewResponseController(httptest.NewRecorder())}
	for range 2 {
		if _, err := b.Read(make([]byte, 8)); !errors.Is(err, muru.ErrClientGone) || b.fault() != muru.ErrClientGone {
			t.Errorf("%v", err)
		}
	}
}
