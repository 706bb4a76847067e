package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muru/cmd/muru/person"
	"muru/control"
	script "muru/starlark"
)

// converse talks with a person until they leave.
func (r *repl) converse(ctx context.Context) (err error) {
	if r.history, err = openHistory(historyPath()); err != nil {
		r.complain(fmt.Errorf("what you type is not kept: %w", err))
	}
	defer r.history.Close()
	ctx, giveBack := r.takeSignals(ctx)
	defer giveBack()
	r.news.begin(r.state)
	r.tell("%s", r.greeting())
	for {
		r.showNews(ctx)
		r.recall()
		block, err := r.read(ctx)
		switch {
		case errors.Is(err, errCleared):
			continue
		case errors.Is(err, io.EOF):
			if leave, err := r.leave(ctx); leave || err != nil {
				return err
			}
			continue
		case err != nil:
			return ended(err)
		}
		if strings.TrimSpace(block) == "" {
			continue
		}
		if err := r.history.add(block); err != nil {
			r.complain(fmt.Errorf("this is not kept: %w", err))
		}
		err = r.do(ctx, block)
		if err == nil {
			continue
		}
		r.complain(err)
		if sig, ok := errors.AsType[person.InterruptedError](err); ok && sig.Signal != os.Interrupt || ctx.Err() != nil {
			return ended(err)
		}
		if _, ok := errors.AsType[person.InterruptedError](err); ok {
			if err := r.in.forget(); err != nil {
				return err
			}
		}
	}
}

// ended is the error of a session that a signal ended: the status says it.
func ended(err error) error {
	if _, ok := errors.AsType[person.InterruptedError](err); ok {
		return &person.ExitError{Status: person.StatusInterrupted, Told: true, Err: err}
	}
	return err
}

// recall makes what was typed, here and in other sessions, available.
func (r *repl) recall() {
	entries, err := r.history.news()
	if err != nil {
		r.complain(err)
	}
	r.in.recall(entries)
}

// read reads a block: lines until it is complete. A line that begins with
// white space gives its margin to the block, which is taken off.
func (r *repl) read(ctx context.Context) (string, error) {
	prompt := "muru " + shortHost(r.state.Host) + "> "
	block, err := r.prompt(ctx, prompt, "")
	if err != nil {
		return "", err
	}
	if isCommand(block) {
		return block, nil
	}
	if strings.Contains(block, "\n") {
		block += "\n" // one that was recalled is whole
	}
	for script.Incomplete(block) {
		line, err := r.prompt(ctx, "... ", block)
		if errors.Is(err, io.EOF) {
			return "", errCleared
		}
		if err != nil {
			return "", err
		}
		block += "\n" + line
	}
	return block, nil
}

// prompt asks for a line. Ctrl-C clears it, also where the system and not the
// line editor notices.
func (r *repl) prompt(ctx context.Context, prompt, block string) (string, error) {
	ctx, done := r.interrupts.during(ctx, errCleared)
	defer done()
	return r.in.line(ctx, prompt, block)
}

// do evaluates a block or carries out a command.
func (r *repl) do(ctx context.Context, block string) error {
	ctx, done := r.interrupts.during(ctx, person.InterruptedError{Signal: os.Interrupt})
	defer done()
	r.news.inputBegins(time.Now())
	defer func() { r.news.inputEnds(time.Now()) }()
	if isCommand(block) {
		return r.command(ctx, block)
	}
	return r.eval(ctx, block)
}

// eval evaluates a block and shows what it says and returns.
func (r *repl) eval(ctx context.Context, block string) error {
	block = dedent(block, marginOf(block))
	r.remember(block)
	return r.show(ctx, func(ctx context.Context, out func(control.Message)) error {
		return r.evaluate(ctx, block, out)
	})
}

// evaluate has the session evaluate a block, and counts it as the session
// does, for the positions in errors.
func (r *repl) evaluate(ctx context.Context, block string, out func(control.Message)) error {
	r.inputs++
	if !r.interactive {
		r.starts[r.inputs] = r.line
	}
	return r.session.Eval(ctx, block, out)
}

// show shows what is evaluated, until it ends or the person has left it.
func (r *repl) show(ctx context.Context, s person.Stream) error {
	w := r.watch()
	err := w.Show(ctx, func(ctx context.Context, out func(control.Message)) error {
		return s(ctx, func(m control.Message) {
			r.news.heard(m)
			out(m)
		})
	})
	if value, _ := w.Printer.Result(); value != nil && value.Text != "" && err == nil {
		fmt.Fprintln(r.person.Stdout, value.Text)
	}
	if errors.Is(err, control.ErrSessionGone) {
		err = r.sessionGone(ctx)
	}
	return err
}
