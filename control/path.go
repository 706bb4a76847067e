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
	if os.Geteuid() == 0 {
		return "/var/lib/muru", nil
	}
	// The XDG base directory specification has relative paths ignored.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "muru"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", muru.Errorf(muru.KindUsage, "there is no home directory to keep muru's state in").
			WithHint("set HOME, or name a directory: --state DIR")
	}
	return filepath.Join(home, ".local", "state", "muru"), nil
}
