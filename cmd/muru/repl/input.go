package repl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/peterh/liner"
	"golang.org/x/term"

	"muru/cmd/muru/person"
)

// errCleared is returned by an input when Ctrl-C cleared the line.
var errCleared = errors.New("the line was cleared")

// An input gives the REPL its lines. It is used by one goroutine.
type input interface {
	// line shows a prompt and returns the next line without its line end; it
	// has several if it is a block that was recalled. block is what it goes
	// on with, for completion. The errors are errCleared, io.EOF and what ctx
	// ended for.
	line(ctx context.Context, prompt, block string) (string, error)

	// recall makes entries available to whoever asks for what was typed
	// before.
	recall(entries []string)

	// forget drops what was pasted behind the last line and not asked for yet.
	forget() error

	Close() error
}

// newInput returns the input for the streams of a process. The line editor
// writes escape sequences, so it is used only on a terminal that knows them
// and if NO_COLOR does not ask for none.
func newInput(stdin io.Reader, stdout, stderr io.Writer, complete completer) (input, error) {
	if !person.IsTerminal(stdin) {
		return &pipeInput{lines: bufio.NewReaderSize(stdin, 64<<10)}, nil
	}
	if os.Getenv("NO_COLOR") == "" && person.IsTerminal(stdout) && editable(stdin, stdout) {
		return newEditor(complete)
	}
	plain := &plainInput{fd: int(stdin.(*os.File).Fd()), out: stdout}
	if !person.IsTerminal(stdout) {
		plain.out = stderr // stdout gets results alone
	}
	return plain, nil
}

// A pipeInput reads a file or a pipe: no prompts, lines of any length.
type pipeInput struct{ lines *bufio.Reader }

func (p *pipeInput) line(ctx context.Context, _, _ string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // ends with a line, or with the process, whose end ctx is
		line, err := p.lines.ReadString('\n')
		got <- answer{line, err}
	}()
	select {
	case a := <-got:
		if a.err == io.EOF && a.line != "" {
			a.err = nil
		}
		if a.err != nil && a.err != io.EOF {
			a.err = fmt.Errorf("read the input: %w", a.err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(a.line, "\n"), "\r"), a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *pipeInput) recall([]string) {}
func (p *pipeInput) forget() error   { return nil }
func (p *pipeInput) Close() error    { return nil }

// echoesFor is how long the system may take to show a key.
const echoesFor = 10 * time.Millisecond

// A plainInput reads a terminal that gets no escape sequences: the line is
// edited by the system, as far as it can.
type plainInput struct {
	fd   int
	out  io.Writer
	rest []byte // behind the last line
}

func (p *plainInput) line(ctx context.Context, prompt, _ string) (string, error) {
	io.WriteString(p.out, prompt)
	buf := make([]byte, 4096)
	for {
		if line, rest, ok := bytes.Cut(p.rest, []byte("\n")); ok {
			p.rest = rest
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if err := person.WaitReadable(ctx, p.fd); err != nil {
			p.rest = nil            // of the line that Ctrl-C cleared
			<-time.After(echoesFor) // the system sends the signal first, then shows ^C
			fmt.Fprintln(p.out)
			return "", err
		}
		n, err := readFD(p.fd, buf)
		if err != nil {
			if err == io.EOF {
				fmt.Fprintln(p.out)
			}
			return "", err
		}
		p.rest = append(p.rest, buf[:n]...)
	}
}

func (p *plainInput) recall([]string) {}

func (p *plainInput) forget() error {
	p.rest = nil
	return nil
}

func (p *plainInput) Close() error { return nil }

// narrowest is how many columns the line editor needs.
const narrowest = 40

// editable reports whether the line editor can work: on a terminal with a
// name and some width, which is both the process's input and output.
func editable(stdin io.Reader, stdout io.Writer) bool {
	in, inOK := stdin.(*os.File)
	out, outOK := stdout.(*os.File)
	if !inOK || !outOK || in.Fd() != 0 || out.Fd() != 1 || !liner.TerminalSupported() {
		return false
	}
	width, _, err := term.GetSize(1)
	return err == nil && width >= narrowest
}
