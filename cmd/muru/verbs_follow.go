package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// followStream prints events or lines of logs, and those that come, until a
// signal ends ctx.
func (v *command) followStream(ctx context.Context, m control.Muru) error {
	var err error
	switch v.spec.Name {
	case "events":
		err = v.followEvents(ctx, m)
	case "logs":
		err = v.followLogs(ctx, m)
	default:
		panic("BUG: nothing to follow in " + v.spec.Name)
	}
	if sig, ok := errors.AsType[person.InterruptedError](context.Cause(ctx)); ok {
		return &person.ExitError{Status: person.StatusInterrupted, Told: true, Err: sig}
	}
	return err
}

func (v *command) followEvents(ctx context.Context, m control.Muru) error {
	q := control.EventRequest{Target: v.word("target"), Kind: v.word("kind"), Follow: true}
	var err error
	if q.Since, err = v.since(time.Now()); err != nil {
		return err
	}
	if q.Limit, err = v.number("limit"); err != nil {
		return err
	}
	if level := v.word("level"); level != "" {
		if q.Level, err = muru.ParseLevel(level); err != nil {
			return v.usagef("level: %w", err).WithHint("%s", hintOf(err))
		}
	}
	return m.Events(ctx, q, func(e muru.Event) {
		if v.json {
			printJSON(v.cli.Stdout, control.EventJSONOf(e))
			return
		}
		fmt.Fprintln(v.cli.Stdout, e.Line(time.Now(), time.Local))
	})
}

func (v *command) followLogs(ctx context.Context, m control.Muru) error {
	q := control.LogRequest{Target: v.word("target"), Grep: v.word("grep"), Request: v.word("request"), Follow: true}
	var err error
	if q.Since, err = v.since(time.Now()); err != nil {
		return err
	}
	if q.Lines, err = v.number("lines"); err != nil {
		return err
	}
	if v.word("worker") != "" {
		worker, err := v.number("worker")
		if err != nil {
			return err
		}
		q.Worker = &worker
	}
	return m.Logs(ctx, q, func(line string) {
		if v.json {
			printJSON(v.cli.Stdout, line)
			return
		}
		fmt.Fprintln(v.cli.Stdout, line)
	})
}

// word returns the argument called name as it was typed, or its default,
// empty if it has none.
func (v *command) word(name string) string {
	a, ok := v.arguments[name]
	switch {
	case !ok:
		return ""
	case a.word != "":
		return a.word
	}
	return defaultOf(a.param)
}

func (v *command) number(name string) (int, error) {
	n, err := strconv.Atoi(v.word(name))
	if err != nil || n < 0 {
		return 0, v.usagef("%s: %q is not a whole number", name, v.word(name))
	}
	return n, nil
}

// since is a point in time: RFC 3339, or a duration meaning that long ago.
func (v *command) since(now time.Time) (time.Time, error) {
	word := v.word("since")
	if word == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, word); err == nil {
		return t, nil
	}
	d, err := muru.ParseDuration(word)
	if err != nil {
		return time.Time{}, v.usagef("since: %q is not a point in time", word).
			WithHint(`write 10m for ten minutes ago, or a time like 2026-11-07T07:20:00Z`)
	}
	return now.Add(-d), nil
}
