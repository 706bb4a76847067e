package repl

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// A replCommand is a % command.
type replCommand struct {
	name    string
	args    string // what follows, for people
	summary string
	run     func(r *repl, ctx context.Context, rest string) error
}

// replCommands are the % commands, as %help lists them. It is a func because
// one of them lists them.
func replCommands() []replCommand {
	return []replCommand{
		{"run", "FILE [ARG...]", "runs a recipe and shows what it says", (*repl).runFile},
		{"edit", "[NAME]", "edits a function, or the last input, in $EDITOR and evaluates it", (*repl).edit},
		{"time", "CALL", "evaluates and says how long it took", (*repl).time},
		{"watch", "[5s] CALL", "evaluates again and again until Ctrl-C", (*repl).repeat},
		{"save", "FILE", "writes the calls of this session that changed something as a recipe", (*repl).save},
		{"runs", "", "lists the runs of recipes", (*repl).listRuns},
		{"attach", "N", "shows what a run says", (*repl).attachRun},
		{"cancel", "N", "cancels a run", (*repl).cancelRun},
		{"help", "", "this list", (*repl).help},
	}
}

// isCommand reports whether an input is a % command: no expression begins
// like that.
func isCommand(input string) bool { return strings.HasPrefix(strings.TrimSpace(input), "%") }

// command carries out a % command.
func (r *repl) command(ctx context.Context, input string) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(input), "%"), " ")
	var names []string
	for _, c := range replCommands() {
		if c.name == name {
			return c.run(r, ctx, strings.TrimSpace(rest))
		}
		names = append(names, c.name)
	}
	err := muru.Errorf(muru.KindUsage, "there is no command %%%s", name)
	if near := muru.Suggest(name, names); near != "" {
		return err.WithHint("did you mean %%%s?", near)
	}
	return err.WithHint("%%help lists the commands")
}

// needs is the error for a command without what must follow it.
func needs(name, args string) error {
	return muru.Errorf(muru.KindUsage, "%%%s needs %s", name, args)
}

func (r *repl) help(context.Context, string) error {
	var rows [][]string
	for _, c := range replCommands() {
		rows = append(rows, []string{strings.TrimSpace("%" + c.name + " " + c.args), c.summary})
	}
	person.PrintTable(r.person.Stdout, []string{"COMMAND", "WHAT IT DOES"}, append(rows,
		[]string{"NAME?", "as help(NAME)"},
		[]string{"_", "the last value"},
		[]string{"Tab", "completes names, keywords, attributes, and apps and releases in texts"},
		[]string{"Ctrl-C", "clears the line; while a call works: stops watching, and asks"},
		[]string{"Ctrl-D", "leaves"},
	))
	return nil
}

func (r *repl) runFile(ctx context.Context, rest string) error {
	words, err := splitWords(rest)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return needs("run", "a recipe")
	}
	number, err := r.muru.StartRun(ctx, control.Run{File: words[0], Args: words[1:], Dir: r.dir})
	if err != nil {
		return err
	}
	return r.watchRun(ctx, number)
}

func (r *repl) attachRun(ctx context.Context, rest string) error {
	if rest == "" {
		return needs("attach", "the number of a run")
	}
	number, err := person.ParseRun(rest)
	if err != nil {
		return err
	}
	return r.watchRun(ctx, number)
}

// watchRun shows a run until it ends. What it does is no news then.
func (r *repl) watchRun(ctx context.Context, number int) error {
	r.news.run = fmt.Sprintf("run %d", number)
	return r.person.AttachRun(ctx, r.muru, number, r.news.heard)
}

func (r *repl) listRuns(ctx context.Context, _ string) error {
	runs, err := r.muru.Runs(ctx)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		r.tell("no runs")
		return nil
	}
	person.PrintRuns(r.person.Stdout, runs)
	return nil
}

func (r *repl) cancelRun(ctx context.Context, rest string) error {
	if rest == "" {
		return needs("cancel", "the number of a run")
	}
	number, err := person.ParseRun(rest)
	if err != nil {
		return err
	}
	if err := r.muru.CancelRun(ctx, number); err != nil {
		return err
	}
	r.tell("run %d cancelled", number)
	return nil
}

// splitWords splits the words behind a command, as a shell does: quotes keep
// spaces together, a backslash keeps what follows it.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	begun, slash := false, false
	for _, c := range text {
		switch {
		case slash:
			word.WriteRune(c)
			slash = false
		case c == '\\' && quote != '\'':
			slash, begun = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || slash {
		return nil, muru.Errorf(muru.KindUsage, "the last word does not end: %s", strconv.Quote(word.String()))
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// completeCommand completes a line that begins with %: names of commands,
// files behind those that take one, and source by source.
func completeCommand(line string, pos int, source func(string, int) (string, []string, string)) (head string, candidates []string, tail string) {
	before, tail := line[:pos], line[pos:]
	name, rest, args := strings.Cut(before, " ")
	if !args {
		for _, c := range replCommands() {
			if strings.HasPrefix("%"+c.name, name) {
				candidates = append(candidates, "%"+c.name)
			}
		}
		slices.Sort(candidates)
		return "", candidates, tail
	}
	start := len(before) - len(rest)
	switch name {
	case "%run", "%save":
		word := rest[strings.LastIndexByte(rest, ' ')+1:]
		found, _ := filepath.Glob(escapeGlob(word) + "*")
		return before[:len(before)-len(word)], found, tail
	case "%time", "%watch", "%edit":
		var inner string
		inner, candidates, tail = source(line[start:], pos-start)
		return line[:start] + inner, candidates, tail
	}
	return "", nil, ""
}

func escapeGlob(word string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(word)
}

// time is %time.
func (r *repl) time(ctx context.Context, rest string) error {
	if rest == "" {
		return needs("time", "a call")
	}
	begun := time.Now()
	err := r.eval(ctx, rest)
	took := muru.FormatMeasured(time.Since(begun))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.person.Stdout, "took %s\n", took)
	return err
}
