package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"muru/cmd/muru/person"
	"muru/control"
	script "muru/starlark"
)

// runPiped evaluates what is piped in. The first error ends it.
func (r *repl) runPiped(ctx context.Context) error {
	number := 0 // of the line that was read last
	for {
		first := number + 1
		block, err := r.readPiped(ctx, &number)
		if block != "" {
			r.line = first
			if err := r.do(ctx, block); err != nil {
				return r.atLine(err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readPiped reads a block and counts its lines; "" is a blank line. The end
// of the input is the end of its last block, too.
func (r *repl) readPiped(ctx context.Context, number *int) (string, error) {
	line, err := r.pipedLine(ctx, number)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(line) == "" || isCommand(line) {
		return strings.TrimSpace(line), nil
	}
	var b pipedBlock
	for {
		goesOn := b.add(line)
		if !goesOn && len(b.lines) > 1 && strings.TrimSpace(line) == "" {
			if goesOn, err = r.bodyGoesOn(ctx, number); err != nil {
				return "", err
			}
		}
		if !goesOn {
			return b.text(), nil
		}
		if line, err = r.pipedLine(ctx, number); errors.Is(err, io.EOF) {
			return b.text() + "\n", err
		}
		if err != nil {
			return "", err
		}
	}
}

// pipedLine reads a line and counts it.
func (r *repl) pipedLine(ctx context.Context, number *int) (string, error) {
	if len(r.ahead) > 0 {
		line := r.ahead[0]
		r.ahead = r.ahead[1:]
		*number++
		return line, nil
	}
	line, err := r.in.line(ctx, "", "")
	if err == nil {
		*number++
	}
	return line, err
}

// otherBranch begins a line that belongs to the if before it.
var otherBranch = regexp.MustCompile(`^(else|elif)\b`)

// bodyGoesOn reports whether a body goes on behind an empty line. For a
// person it does not; what is piped in was written as a file, where a body
// has empty lines, so the next line decides: one that is indented, or another
// branch, goes on.
func (r *repl) bodyGoesOn(ctx context.Context, number *int) (bool, error) {
	var ahead []string
	for {
		line, err := r.pipedLine(ctx, number)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if err == nil {
			ahead = append(ahead, line)
			if strings.TrimSpace(line) == "" {
				continue
			}
		}
		r.ahead = append(ahead, r.ahead...)
		*number -= len(ahead)
		return err == nil && (marginOf(line) != "" || otherBranch.MatchString(line)), nil
	}
}

// inputPosition is where in which input an error is.
var inputPosition = regexp.MustCompile(`<input (\d+)>:(\d+):(\d+)`)

// atLine words the error of a block that begins at a line of what is piped
// in: `muru: line 7: …`, with positions in those lines. It has status 1,
// whatever its kind, unless a person interrupted it.
func (r *repl) atLine(err error) error {
	if e, ok := errors.AsType[*person.ExitError](err); ok {
		return e
	}
	text := inputPosition.ReplaceAllStringFunc(control.ErrorText(err), func(position string) string {
		m := inputPosition.FindStringSubmatch(position)
		input, _ := strconv.Atoi(m[1])
		line, _ := strconv.Atoi(m[2])
		if r.starts[input] == 0 {
			return position
		}
		return fmt.Sprintf("line %d:%s", r.starts[input]+line-1, m[3])
	})
	if !strings.HasPrefix(text, "line ") {
		text = fmt.Sprintf("line %d: %s", r.line, text)
	}
	fmt.Fprintln(r.person.Stderr, "muru: "+text)
	return &person.ExitError{Status: person.StatusFailed, Told: true, Err: err}
}

// A pipedBlock gathers the lines of a block and tells when it is whole, as
// [script.Incomplete] does, without looking through all of it for every line:
// data by the megabyte is piped in. The zero value is an empty block.
type pipedBlock struct {
	lines []string
	open  int    // brackets
	quote string // of the triple-quoted text that is open
	lost  bool   // only script.Incomplete knows
}

func (b *pipedBlock) text() string { return strings.Join(b.lines, "\n") }

// add adds a line and reports whether the block goes on.
func (b *pipedBlock) add(line string) bool {
	outside := len(b.lines) > 0 && !b.isOpen()
	b.lines = append(b.lines, line)
	b.look(line)
	switch {
	case b.lost:
	case b.isOpen():
		return true
	case outside && strings.TrimSpace(line) != "" && marginOf(line) != "":
		return true // it went on before this line of a body, which changes nothing
	}
	return script.Incomplete(b.text())
}

func (b *pipedBlock) isOpen() bool { return b.open > 0 || b.quote != "" }

// look follows brackets and texts through a line.
func (b *pipedBlock) look(line string) {
	for i := 0; i < len(line) && !b.lost; i++ {
		switch c := line[i]; {
		case c == '\\':
			b.lost = b.quote == "" // the line goes on in the next one
			i++
		case b.quote != "":
			if strings.HasPrefix(line[i:], b.quote) {
				i += len(b.quote) - 1
				b.quote = ""
			}
		case c == '#':
			return
		case c == '(' || c == '[' || c == '{':
			b.open++
		case c == ')' || c == ']' || c == '}':
			b.open--
			b.lost = b.open < 0
		case strings.HasPrefix(line[i:], `"""`) || strings.HasPrefix(line[i:], "'''"):
			b.quote = line[i : i+3]
			i += 2
		case c == '"' || c == '\'':
			end := i + 1
			for end < len(line) && line[end] != c {
				if line[end] == '\\' {
					end++
				}
				end++
			}
			b.lost = end >= len(line)
			i = end
		}
	}
}
