package builtins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
)

// digest identifies the state of a directory by the names, sizes and times of
// change of its files. What Python and git write there themselves does not
// count, nor does an environment inside.
func digest(ctx context.Context, dir string) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "__pycache__", ".venv", "venv", "node_modules":
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q %d %d\n", rel, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read %s: %w", dir, err)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}
