package daemon

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"

	"muru/cmd/muru/visitortest"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// These tests wait more than they work: for holds, drains and processes.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"talker": talker})
}

// openTestHouse opens a house on a port of its own and closes it at the end.
func openTestHouse(t *testing.T) *House {
	t.Helper()
	h, err := Open(t.Context(), Options{State: visitortest.ShortDir(t)}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}
