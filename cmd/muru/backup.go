package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"muru"
	"muru/control"
)

// newBackupCommand is `muru backup FILE`.
func newBackupCommand(c *cli) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "writes a copy of the state file while everything goes on",
		Long: `Writes the state of the muru that serves, as it is at one moment, to FILE:
apps, routes, releases, rollouts and events. The copy is a state file: to go
back to it, stop muru, put it in the place of muru.db, and start muru.

Sources of releases, logs and the files of secrets are not in it; what releases
were given as env is, secrets too, so FILE is readable by its owner only. A FILE
that exists is replaced when the copy is whole.`,
		Args: wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			size, err := backup(cmd.Context(), m, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Stdout, "muru: the state is in %s: %d bytes\n", args[0], size)
			return err
		},
	}
	addStateFlag(cmd, &state)
	return cmd
}

// backup writes the state of m to a file, all of it or nothing, and returns
// its size.
func backup(ctx context.Context, m control.Muru, path string) (size int64, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return 0, muru.Errorf(muru.KindUsage, "%s is there and is not a file", path)
	}
	dir := filepath.Dir(path)
	part, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-")
	if err != nil {
		return 0, backupError(path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	err = m.Backup(ctx, part)
	if err == nil {
		err = part.Sync()
	}
	info, statErr := part.Stat()
	if err = errors.Join(err, statErr, part.Close()); err != nil {
		return 0, backupError(path, err)
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return 0, backupError(path, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return info.Size(), nil // a directory that may be written and not read
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems sync no directories
		return 0, backupError(path, err)
	}
	return info.Size(), nil
}

// backupError words an error of the file; those of muru pass.
func backupError(path string, err error) error {
	if on, ok := errors.AsType[*fs.PathError](err); ok {
		return muru.Errorf(muru.KindFailed, "write %s: %w", path, on.Err)
	}
	if on, ok := errors.AsType[*os.LinkError](err); ok {
		return muru.Errorf(muru.KindFailed, "write %s: %w", path, on.Err)
	}
	return err
}
