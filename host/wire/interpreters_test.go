package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// interpreters returns every Python that tests run with: python3 on PATH and
// the system's, if it is another one.
func interpreters(t testing.TB) []string {
	t.Helper()
	first, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{first}
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err == nil && !sameFile(first, system) {
		all = append(all, system)
	}
	return all
}

func sameFile(a, b string) bool {
	realA, errA := filepath.EvalSymlinks(a)
	realB, errB := filepath.EvalSymlinks(b)
	return errA == nil && errB == nil && realA == realB
}
