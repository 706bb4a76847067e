package control

import (
	"os"
	"path/filepath"

	"muru"
)

// SocketName is the socket's name in the state directory.
const SocketName = "muru.sock"

// Find returns the path of the socket: $MURU_CONTROL, else muru.sock in the
// state directory, which for "" is [DefaultStateDir]. It does not look
// whether somebody answers there. The error is that of DefaultStateDir.
func Find(stateDir string) (string, error) {
	if path := os.Getenv("MURU_CONTROL"); path != "" {
		return path, nil
	}
	if stateDir == "" {
		dir, err := DefaultStateDir()
		if err != nil {
			return "", err
		}
		stateDir = dir
	}
	return filepath.Join(stateDir, SocketName), nil
}

// DefaultStateDir returns where the state of this user's muru is kept unless
// somebody says otherwise: /var/lib/muru for root, else muru in
// $XDG_STATE_HOME, else ~/.local/state/muru. It makes nothing. The error is of
// kind usage: there is no home directory.
func DefaultStateDir() (string, error) {
	home, _ := os.UserHomeDir() // none is an error only if it is needed
	return stateDir(os.Geteuid() == 0, os.Getenv("XDG_STATE_HOME"), home)
}

func stateDir(root bool, xdg, home string) (string, error) {
	switch {
	case root:
		return "/var/lib/muru", nil
	case filepath.IsAbs(xdg): // the XDG specification has relative paths ignored
		return filepath.Join(xdg, "muru"), nil
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local", "state", "muru"), nil
	}
	return "", muru.Errorf(muru.KindUsage, "there is no home directory to keep muru's state in").
		WithHint("set HOME, or name a directory: --state DIR")
}
