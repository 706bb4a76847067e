package daemon

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"muru"
	"muru/builtins"
	"muru/control"
	"muru/rollout"
)

// Events gives the events that q selects and, if asked, those that come.
func (r *Runner) Events(ctx context.Context, q control.EventRequest, out func(muru.Event)) error {
	query, err := r.eventQuery(q)
	if err != nil {
		return err
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	var coming <-chan muru.Event
	if q.Follow {
		coming = r.o.Events.Subscribe(watch) // before looking: nothing is missed between
	}
	query.After = q.After
	give := func() error {
		events, err := r.o.Engine.FindEvents(ctx, query)
		if err != nil {
			return err
		}
		for _, e := range events {
			query.After = e.Seq
			out(e)
		}
		return nil
	}
	if err := give(); err != nil {
		return err
	}
	query.Limit = 0
	for q.Follow && ctx.Err() == nil {
		e, ok := <-coming
		if !ok { // ctx ended, or we were too slow for the subscription
			coming = r.o.Events.Subscribe(watch)
		} else if e.Seq <= query.After {
			continue
		}
		if err := give(); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// eventQuery is q for the engine. A target that is not there is not_found.
func (r *Runner) eventQuery(q control.EventRequest) (rollout.EventQuery, error) {
	if q.Kind != "" {
		if err := builtins.CheckEventKind(q.Kind); err != nil {
			return rollout.EventQuery{}, err
		}
	}
	query := rollout.EventQuery{Run: q.Run, Since: q.Since, Kind: q.Kind, Limit: q.Limit}
	if q.Level != muru.LevelNotice {
		query.Level = &q.Level
	}
	if n, err := strconv.Atoi(q.Target); err == nil {
		query.Rollout = n
		_, err := r.o.Engine.Rollout(n)
		return query, err
	}
	var err error
	query.App, query.Release, err = r.appOrRelease(q.Target)
	return query, err
}

// appOrRelease finds what a name names; "" is nothing.
func (r *Runner) appOrRelease(name string) (app string, id muru.ReleaseID, err error) {
	switch {
	case name == "":
		return "", id, nil
	case strings.Contains(name, "@"):
		if id, err = muru.ParseReleaseID(name, ""); err != nil {
			return "", id, err
		}
		_, err = r.o.Engine.Release(id)
		return "", id, err
	}
	_, err = r.o.Engine.AppNamed(name)
	return name, id, err
}

// logPeriod is how often a followed log is looked at.
const logPeriod = 200 * time.Millisecond

// Logs gives lines of logs and, if asked, those that come.
func (r *Runner) Logs(ctx context.Context, q control.LogRequest, out func(line string)) error {
	app, id, err := r.appOrRelease(q.Target)
	if err != nil {
		return err
	}
	if q.Target == "" {
		return muru.Errorf(muru.KindUsage, "an app or a release is needed")
	}
	query := muru.LogQuery{Lines: q.Lines, Since: q.Since, Match: q.Grep, Request: q.Request}
	if q.Worker != nil {
		query.OneWorker, query.Worker = true, *q.Worker
	}
	f := logFollower{runner: r, app: app, release: id, query: query, cursors: make(map[muru.ReleaseID]*logCursor)}
	lines, err := f.next(ctx)
	if err != nil {
		return err
	}
	if q.Lines > 0 {
		lines = lines[max(0, len(lines)-q.Lines):]
	}
	ticker := time.NewTicker(logPeriod)
	defer ticker.Stop()
	for {
		for _, line := range lines {
			out(line)
		}
		if !q.Follow {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if lines, err = f.next(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// A logFollower reads the logs of a release, or of all live releases of an
// app, from where it has read to. It is used by one goroutine.
type logFollower struct {
	runner  *Runner
	app     string
	release muru.ReleaseID
	query   muru.LogQuery
	cursors map[muru.ReleaseID]*logCursor
}

// A logCursor is how far a log was read: to the lines of a moment.
type logCursor struct {
	stamp string // with which the last line begins
	seen  int    // lines with that stamp
}

// next returns the lines that are new, by time.
func (f *logFollower) next(ctx context.Context) ([]string, error) {
	ids := []muru.ReleaseID{f.release}
	if f.app != "" {
		releases, err := f.runner.o.Engine.Releases(f.app)
		if err != nil {
			return nil, err
		}
		ids = nil
		for _, r := range releases {
			if r.State.Live() && r.Kind != muru.External {
				ids = append(ids, r.ID)
			}
		}
	}
	var all []string
	for _, id := range ids {
		lines, err := f.nextOf(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	if len(ids) > 1 {
		slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(stampOf(a), stampOf(b)) })
	}
	return all, nil
}

// nextOf returns the new lines of one log. A log is asked for everything from
// its last line's moment on, and the lines of that moment that were seen are
// left out.
func (f *logFollower) nextOf(ctx context.Context, id muru.ReleaseID) ([]string, error) {
	query, cursor := f.query, f.cursors[id]
	if cursor == nil {
		cursor = new(logCursor)
		f.cursors[id] = cursor
	}
	if at, err := time.Parse(time.RFC3339, cursor.stamp); err == nil {
		query.Since, query.Lines = at, 0
	}
	lines, err := f.runner.o.Engine.Logs(ctx, id, query)
	if err != nil {
		return nil, err
	}
	seen := 0
	for seen < len(lines) && seen < cursor.seen && stampOf(lines[seen]) == cursor.stamp {
		seen++
	}
	for _, line := range lines[seen:] {
		if stamp := stampOf(line); stamp != cursor.stamp {
			cursor.stamp, cursor.seen = stamp, 0
		}
		cursor.seen++
	}
	return lines[seen:], nil
}

// stampOf is the time a log line begins with; it sorts as text.
func stampOf(line string) string {
	stamp, _, _ := strings.Cut(line, " ")
	return stamp
}
