package main

import (
	"path/filepath"

	"muru"
	"muru/control"
)

// connect returns the muru that serves on a state directory: the one named
// with --state, else that of $MURU_CONTROL, else the person's own. Nothing is
// asked yet: that nobody answers is an error of what is asked first.
func connect(stateDir string) (control.Muru, error) {
	path, err := socketPath(stateDir)
	if err != nil {
		return nil, err
	}
	return control.NewClient(path, version), nil
}

// socketPath is where the muru of a state directory answers. A directory
// that is named wins over the environment.
func socketPath(stateDir string) (string, error) {
	if stateDir == "" {
		return control.Find("")
	}
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return "", muru.Errorf(muru.KindFailed, "find the state directory: %w", err)
	}
	return filepath.Join(dir, control.SocketName), nil
}
