package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/peterh/liner"
)

// A completer completes a line at a byte: it becomes head + candidate + tail.
// It answers in time or with nothing. block is what the line goes on with.
type completer func(block, line string, pos int) (head string, candidates []string, tail string)

// An editor is the input of a terminal that can: lines are edited, completed
// and recalled. The terminal is in raw mode while a prompt stands, and else as
// it was found, so that whatever runs meanwhile has it as usual. Close leaves
// it as it was found.
//
// The library reads a pipe of ours, see [keys].
type editor struct {
	complete completer
	liner    *liner.State
	found    liner.ModeApplier // how the terminal was found
	raw      liner.ModeApplier
	keys     keys
	read     *os.File // where the library reads
	entries  []string // that can be recalled
	block    string   // that the line goes on with
}

func newEditor(complete completer) (*editor, error) {
	found, err := liner.TerminalMode()
	if err != nil {
		return nil, fmt.Errorf("ask for the mode of the terminal: %w", err)
	}
	e := &editor{complete: complete, found: found}
	return e, e.open()
}

// open makes the library's part.
func (e *editor) open() error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the keys: %w", err)
	}
	e.read, e.keys = read, keys{fd: 0, out: write}
	stdin := os.Stdin
	os.Stdin = read // which the library takes at this moment; the terminal's mode it sets on descriptor 0
	e.liner = liner.NewLiner()
	os.Stdin = stdin
	if e.raw, err = liner.TerminalMode(); err != nil {
		return errors.Join(fmt.Errorf("ask for the mode of the terminal: %w", err), e.Close())
	}
	e.liner.SetCtrlCAborts(true)
	e.liner.SetBeep(false)
	e.liner.SetTabCompletionStyle(liner.TabPrints)
	e.liner.SetWordCompleter(e.completeWord)
	for _, entry := range e.entries {
		e.liner.AppendHistory(encodeLine(entry))
	}
	return e.restore()
}

// restore puts the terminal into the mode it was found in.
func (e *editor) restore() error {
	if err := e.found.ApplyMode(); err != nil {
		return fmt.Errorf("restore the mode of the terminal: %w", err)
	}
	return nil
}

func (e *editor) line(ctx context.Context, prompt, block string) (line string, err error) {
	e.block = block
	if err := e.raw.ApplyMode(); err != nil {
		return "", fmt.Errorf("set the mode of the terminal: %w", err)
	}
	io.WriteString(os.Stdout, pasteOn)
	defer func() {
		io.WriteString(os.Stdout, pasteOff)
		if failed := e.restore(); err == nil {
			err = failed
		}
	}()
	pumpCtx, stop := context.WithCancel(ctx)
	pumped := make(chan error, 1)
	go func() { // ends with pumpCtx, or with the terminal
		err := e.keys.pump(pumpCtx)
		if err != nil || ctx.Err() != nil {
			e.keys.out.Close() // which the library takes for the end
		}
		pumped <- err
	}()
	line, err = e.liner.Prompt(prompt)
	stop()
	gone := <-pumped
	switch {
	case ctx.Err() != nil:
		fmt.Println()
		return "", errors.Join(context.Cause(ctx), e.forget())
	case errors.Is(err, liner.ErrPromptAborted):
		return "", errCleared
	case err == io.EOF:
		fmt.Println() // behind the prompt that Ctrl-D was typed at
		return "", io.EOF
	case err != nil:
		return "", fmt.Errorf("read a line: %w", errors.Join(err, gone))
	}
	return decodeLine(line), nil
}

func (e *editor) recall(entries []string) {
	e.entries = append(e.entries, entries...)
	e.entries = e.entries[max(0, len(e.entries)-liner.HistoryLimit):]
	for _, entry := range entries {
		e.liner.AppendHistory(encodeLine(entry))
	}
}

// forget drops what was pasted ahead: the library cannot, so it begins anew.
func (e *editor) forget() error {
	return errors.Join(e.Close(), e.open())
}

// Close leaves the terminal as it was found.
func (e *editor) Close() error {
	err := e.restore()
	e.keys.out.Close() // it may be closed already
	return errors.Join(err, e.read.Close(), e.liner.Close())
}

// indent is what Tab gives in the white space that a line of a block begins
// with.
const indent = "    "

// completeWord is [completer] for the library, which counts runes and knows
// no blocks.
func (e *editor) completeWord(shown string, runes int) (head string, candidates []string, tail string) {
	before, after := splitAtRune(shown, runes)
	if e.block != "" && strings.TrimSpace(decodeLine(before)) == "" {
		return before, []string{indent}, after
	}
	line := decodeLine(before)
	head, candidates, tail = e.complete(e.block, line+decodeLine(after), len(line))
	for i := range candidates {
		candidates[i] = encodeLine(candidates[i])
	}
	return encodeLine(head), candidates, encodeLine(tail)
}

func splitAtRune(s string, runes int) (before, after string) {
	at := 0
	for ; runes > 0 && at < len(s); runes-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s[:at], s[at:]
}

// completeFor bounds a completion: later, nothing is better.
const completeFor = 50 * time.Millisecond
