package person

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A Person is whoever started this process: their streams and their signals.
// All of it is needed by what asks them something; what only shows something
// needs no Stdin. It is not changed after it was made.
type Person struct {
	Stdin   io.Reader
	Stdout  io.Writer // results
	Stderr  io.Writer // progress, questions and errors
	Signals *Signals
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
