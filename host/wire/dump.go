package wire

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Dump makes a worker print its stacks to file (its [Spec].StacksFile) by
// [DumpSignal], which signal sends it, and reads them. It works while C code
// holds the interpreter. Files inside source are relative to it. It returns
// [ErrUnresponsive] when nothing came before ctx ended. One Dump of a worker
// runs at a time.
func Dump(ctx context.Context, file, source string, signal func() error) ([]ThreadStack, error) {
	// The worker appends, so an empty file stays without a hole.
	if err := os.Truncate(file, 0); err != nil {
		return nil, fmt.Errorf("dump the stacks of a worker: %w", err)
	}
	if err := signal(); err != nil {
		return nil, fmt.Errorf("dump the stacks of a worker: %w", err)
	}
	text, err := readSettled(ctx, file)
	if err != nil {
		return nil, err
	}
	stacks := ParseFaulthandler(text)
	for i := range stacks {
		for j := range stacks[i].Frames {
			f := &stacks[i].Frames[j]
			f.File = relativeFile(f.File, source)
		}
	}
	return stacks, nil
}

// readSettled reads file once it has something in it and has not grown for a
// moment: the end of a dump has no mark of its own.
func readSettled(ctx context.Context, file string) ([]byte, error) {
	const pause, calm = 5 * time.Millisecond, 4
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var before []byte
	for same := 0; ; {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the stacks of a worker: %w", err)
		}
		if len(text) > 0 && bytes.Equal(text, before) {
			if same++; same == calm {
				return text, nil
			}
		} else {
			before, same = text, 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if len(before) > 0 {
				return before, nil // part of it is better than nothing
			}
			return nil, ErrUnresponsive
		}
	}
}

// relativeFile shortens files of the release and of the worker's own code.
func relativeFile(file, source string) string {
	if inside, ok := strings.CutPrefix(file, strings.TrimRight(source, "/")+"/"); ok && source != "" {
		return inside
	}
	if i := strings.LastIndex(file, "/"+packageName+"/"); i >= 0 {
		return file[i+1:]
	}
	return file
}
