package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muru"
)

// secretDirs are the directories of secrets: the one systemd provides, then
// the state directory's.
func secretDirs(state string) []string {
	var dirs []string
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		dirs = append(dirs, dir)
	}
	if state != "" {
		dirs = append(dirs, filepath.Join(state, "secrets"))
	}
	return dirs
}

// maxSecret bounds a secret, in bytes.
const maxSecret = 64 << 10

// readSecret returns a func that reads a secret from the first of dirs that
// has it.
func readSecret(dirs ...string) func(name string) (string, error) {
	return func(name string) (string, error) {
		var tried []string
		for _, dir := range dirs {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				tried = append(tried, path)
				continue
			}
			if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecret) {
				return "", muru.Errorf(muru.KindRefused, "%s is not a file of at most %d KiB", path, maxSecret>>10)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("read the secret %s: %w", name, err)
			}
			return string(text), nil
		}
		e := muru.Errorf(muru.KindNotFound, "there is no secret %s", name)
		if len(tried) > 0 {
			e = e.WithHint("looked for %s", strings.Join(tried, " and "))
		}
		return "", e
	}
}
