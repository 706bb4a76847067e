package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// nothingDeployed is what muru status says of an empty muru.
const nothingDeployed = "muru: nothing is deployed yet: muru deploy NAME DIRECTORY, or muru run recipes/quickstart.star"

// carryOut does what the command line asks for.
func (v *command) carryOut(ctx context.Context) error {
	if v.printCall {
		_, err := fmt.Fprintln(v.cli.Stdout, v.source())
		return err
	}
	m, err := v.cli.connect(v.state)
	if err != nil {
		return err
	}
	if v.follow {
		return v.followStream(ctx, m)
	}
	return v.call(ctx, m)
}

// call makes the call and shows what it says and returns.
func (v *command) call(ctx context.Context, m control.Muru) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	w := &person.Watch{
		Person: &v.cli.Person, Muru: m, Printer: person.NewPrinter(v.cli.Stdout, v.cli.Stderr, v.json), Call: v.brief(),
	}
	if returnsHandle[v.spec.Name] {
		w.Limit = v.timeout
	}
	err = w.Show(ctx, func(ctx context.Context, out func(control.Message)) error {
		return m.Call(ctx, control.Call{Source: v.source(), Dir: dir}, out)
	})
	value, lastSay := w.Printer.Result()
	if err != nil {
		return v.ended(&hinted{v.spec.Params, err}, lastSay)
	}
	return v.printValue(value, lastSay)
}

// A refusal is what muru refuses a verb with, or why a release does not start.
// In a recipe the builtin's name says which of many calls that was; here it
// would say once more what the person has just typed.
type refusal struct {
	builtin string
	err     error
}

func (e *refusal) Error() string { return strings.TrimPrefix(e.err.Error(), e.builtin+": ") }

// Text is [control.ErrorText] of it.
func (e *refusal) Text() string { return strings.TrimPrefix(control.ErrorText(e.err), e.builtin+": ") }

func (e *refusal) Unwrap() error { return e.err }

// ended is the error of a call that failed: a rollout that was waited for
// has said itself how it ended.
func (v *command) ended(err error, lastSay string) error {
	kind := control.KindOf(err)
	if _, ok := errors.AsType[*person.ExitError](err); ok {
		return err
	}
	if kind == muru.KindRefused || kind == muru.KindNotReady {
		return &refusal{builtin: v.spec.Name, err: err}
	}
	if !v.wait {
		return err
	}
	if kind == muru.KindTimeout && v.timeout > 0 {
		return &person.ExitError{Status: person.StatusTimeout, Err: err}
	}
	if slices.Contains([]muru.ErrorKind{muru.KindRolledBack, muru.KindAborted, muru.KindSuperseded}, kind) && lastSay != "" {
		return &person.ExitError{Status: person.StatusFailed, Told: true, Err: err}
	}
	return err
}

// printValue prints what the call returned: as JSON if that is asked for,
// else unless the call has reported what it did.
func (v *command) printValue(value *control.Message, lastSay string) error {
	out := v.cli.Stdout
	if v.json {
		text := json.RawMessage("null")
		if value != nil && len(value.Value) > 0 {
			text = value.Value
		}
		return printJSON(out, text)
	}
	switch {
	case value == nil || value.Text == "" || lastSay != "":
		return nil
	case isEmptyList(value.Value) && v.spec.Name == "status":
		_, err := fmt.Fprintln(out, nothingDeployed)
		return err
	case isEmptyList(value.Value):
		// Not on stdout, where programs count lines.
		fmt.Fprintln(v.cli.Stderr, "muru: no "+v.spec.Name)
		if v.spec.Name == "stacks" {
			fmt.Fprintln(v.cli.Stderr, "hint: those of a worker that was replaced are in its log: muru logs RELEASE")
		}
		return nil
	}
	_, err := fmt.Fprintln(out, value.Text)
	return err
}

func isEmptyList(value json.RawMessage) bool { return strings.TrimSpace(string(value)) == "[]" }
