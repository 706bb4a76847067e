package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"muru/cmd/muru/person"
)

// settle is how long bytes are waited for that decide what the last ones
// mean: a tab is a key if nothing follows, an escape byte may begin a
// sequence. Nobody types that fast, and nobody notices the delay.
const settle = 15 * time.Millisecond

// Bracketed paste: what a terminal is told, and how it marks what is pasted.
const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Keys are what is typed or pasted at a terminal, on their way to the line
// editor. The editor takes every tab for the key that completes and shows no
// tab in a line, so those that were pasted become [shownTab] here. Pasted is
// what the terminal marks so; where it marks nothing, a tab with more behind
// it in the same breath.
//
// Bytes are taken from the terminal only while pump runs, so that programs
// and questions between two prompts find their own. Keys are used by one
// goroutine at a time.
type keys struct {
	fd      int      // the terminal
	out     *os.File // the pipe that the editor reads
	pasting bool     // between pasteBegin and pasteEnd
	unsent  []byte   // decided, but the pipe was full
}

// pump passes on keys until ctx ends. It returns an error when the terminal
// is gone, and io.EOF at its end; what it did not get rid of it keeps.
func (k *keys) pump(ctx context.Context) error {
	if err := k.out.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("pass on keys: %w", err)
	}
	ended := make(chan struct{}) // closed when the deadline is set, which must not happen later
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = k.out.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-ended
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := k.out.Write(k.unsent)
		k.unsent = k.unsent[n:]
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pass on keys: %w", err)
		}
		got, err := k.read(ctx, buf)
		if ctx.Err() != nil && len(got) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		k.unsent = append(k.unsent, k.translate(got)...)
	}
}

// read reads what was typed at once, and more if that is needed to tell what
// it means.
func (k *keys) read(ctx context.Context, buf []byte) ([]byte, error) {
	if err := person.WaitReadable(ctx, k.fd); err != nil {
		return nil, err
	}
	n, err := readFD(k.fd, buf)
	if err != nil {
		return nil, err
	}
	got := buf[:n:n]
	for k.undecided(got) {
		soon, cancel := context.WithTimeout(ctx, settle)
		err := person.WaitReadable(soon, k.fd)
		cancel()
		if err != nil {
			break // nothing follows
		}
		more := make([]byte, len(buf))
		if n, err = readFD(k.fd, more); err != nil {
			break // it is found again by the next read
		}
		got = append(got, more[:n]...)
	}
	return got, nil
}

// undecided reports whether what follows decides what the end of b means.
func (k *keys) undecided(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	for n := 1; n < len(pasteBegin) && n <= len(b); n++ {
		end := string(b[len(b)-n:])
		if end == pasteBegin[:n] || end == pasteEnd[:n] {
			return true
		}
	}
	return b[len(b)-1] == '\t' && !k.pasting || !utf8.FullRune(lastRune(b))
}

// lastRune returns the bytes of the last rune, which may be cut.
func lastRune(b []byte) []byte {
	for n := 1; n <= utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			return b[len(b)-n:]
		}
	}
	return b[len(b)-1:]
}

// translate returns what the editor gets for b.
func (k *keys) translate(b []byte) []byte {
	var out []byte
	for len(b) > 0 {
		switch {
		case bytes.HasPrefix(b, []byte(pasteBegin)):
			k.pasting = true
			b = b[len(pasteBegin):]
			continue
		case bytes.HasPrefix(b, []byte(pasteEnd)):
			k.pasting = false
			b = b[len(pasteEnd):]
			continue
		}
		r, size := utf8.DecodeRune(b)
		switch rest := b[size:]; {
		case r == '\t' && (k.pasting || len(bytes.Trim(rest, "\t")) > 0):
			out = append(out, encodeLine("\t")...)
		case k.pasting && r < ' ' && r != '\n' && r != '\r':
			// A pasted control byte is nobody's wish.
		case r >= ' ' && r != utf8.RuneError:
			out = append(out, encodeLine(string(r))...)
		default:
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return out
}

// readFD reads from a file descriptor; its end, and that of a terminal that
// was hung up, is io.EOF.
func readFD(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EIO), err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, fmt.Errorf("read from the terminal: %w", err)
		default:
			return n, nil
		}
	}
}
