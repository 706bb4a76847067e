package person

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"muru"
	"muru/control"
)

// AttachRun watches a run until it ends, and returns how it did: its own
// failure is an [ExitError]. hear gets each message before it is shown; nil
// hears none.
func (p *Person) AttachRun(ctx context.Context, m Watched, number int, hear func(control.Message)) error {
	w := &Watch{Person: p, Muru: m, Printer: NewPrinter(p.Stdout, p.Stderr, false), Run: number}
	err := w.Show(ctx, func(ctx context.Context, out func(control.Message)) error {
		return m.Attach(ctx, number, func(msg control.Message) {
			if hear != nil {
				hear(msg)
			}
			out(msg)
		})
	})
	if _, ok := errors.AsType[*ExitError](err); ok || err == nil {
		return err
	}
	return endOfRun(ctx, m, number, err)
}

// endOfRun tells the run's own failure from a failure to watch it.
func endOfRun(ctx context.Context, m Watched, number int, err error) error {
	runs, look := m.Runs(ctx)
	if look != nil {
		return err // nobody is there to ask: what ended the stream says more
	}
	i := slices.IndexFunc(runs, func(r control.RunInfo) bool { return r.Number == number })
	if i < 0 {
		return err
	}
	switch runs[i].State {
	case control.RunCancelled:
		return &ExitError{Status: StatusInterrupted, Err: err}
	case control.RunFailed:
		return &ExitError{Status: StatusFailed, Err: err}
	}
	return err
}

// PrintRuns prints runs as a table.
func PrintRuns(out io.Writer, runs []control.RunInfo) {
	var rows [][]string
	for _, r := range runs {
		took := time.Since(r.Started)
		if r.Ended != nil {
			took = r.Ended.Sub(r.Started)
		}
		rows = append(rows, []string{
			strconv.Itoa(r.Number), r.State, r.Started.Local().Format(time.DateTime), muru.FormatMeasured(max(took, 0)),
			r.By, strings.Join(append([]string{r.File}, r.Args...), " "), r.Error,
		})
	}
	PrintTable(out, []string{"RUN", "STATE", "STARTED", "TOOK", "BY", "RECIPE", "MESSAGE"}, rows)
}

// ParseRun reads the number of a run: 3, or run 3.
func ParseRun(word string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, "run "))
	if err != nil || n < 1 {
		return 0, muru.Errorf(muru.KindUsage, "%q is not the number of a run", word).WithHint("muru runs lists them")
	}
	return n, nil
}
