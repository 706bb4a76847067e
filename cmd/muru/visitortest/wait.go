package visitortest

import (
	"os"
	"testing"
	"time"
)

// Within waits until ok is true, for at most d, and reports whether it was.
func Within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Eventually ends the test unless ok is true within 10 seconds; what says what
// was waited for.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !Within(10*time.Second, ok) {
		t.Fatalf("%s: not within 10 s", what)
	}
}

// ShortDir returns a directory whose path leaves room for the name of a unix
// socket, which t.TempDir's may not. It is removed when the test ends.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
