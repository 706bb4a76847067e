package rollout

import (
	"context"
	"errors"
	"testing"

	"muru"
)

func TestLookingAtWhatDoesNotExist(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.e.AppNamed("shop")
		expectError(t, err, muru.KindNotFound, `no app is called "shop"`)
		_, err = w.e.Rollout(1)
		expectError(t, err, muru.KindNotFound, "there is no rollout 1")
		w.deploy(false)
		_, err = w.e.LiveOrLatest("shop")
		expectError(t, err, muru.KindNotFound, "shop has had no rollout")
		_, err = w.e.Release(rel(7))
		expectError(t, err, muru.KindNotFound, "shop has no release r7")
		_, err = w.e.Workers(rel(7))
		expectError(t, err, muru.KindNotFound, "shop has no release r7")
	})
}

func TestLogsStacksAndWorkersComeFromTheHost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.LogsFunc = func(context.Context, muru.ReleaseID, muru.LogQuery) ([]string, error) {
			return []string{"a line"}, nil
		}
		broken := errors.New("gone")
		w.host.StacksFunc = func(context.Context, muru.ReleaseID, int) ([]muru.Stack, error) { return nil, broken }
		w.deploy(false)
		if lines, err := w.e.Logs(w.ctx, rel(1), muru.LogQuery{}); err != nil || len(lines) != 1 {
			t.Error(lines, err)
		}
		if _, err := w.e.Stacks(w.ctx, rel(1), -1); !errors.Is(err, broken) || err.Error() != "read the stacks of shop@r1: gone" {
			t.Error(err)
		}
		if workers, err := w.e.Workers(rel(1)); err != nil || len(workers) != 1 {
			t.Error(workers, err)
		}
	})
}

func TestReporterHandsHarmToTheEngine(t *testing.T) {
	inWorld(t, func(w *world) {
		r := NewReporter(w.log)
		r.Harm(rel(2), muru.HarmCrash) // before there is an engine: nothing to count in
		r.Attach(w.e)
		w.baseAndCandidate()
		w.canary()
		r.Report(muru.Event{Kind: muru.WorkerCrashed, Subject: "shop@r2", Message: "worker 0 died"})
		r.Harm(rel(2), muru.HarmCrash)
		w.expect(1, muru.RolledBack, "gate failed at 10%: 1 worker crashes and timeout kills, over the limit of 0 (baseline 0)")
		w.expectEvents("worker.*", "shop@r2 worker 0 died")
	})
}

func TestSnapshotsOfAnApp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.deploy(true)
		w.canary()
		app, err := w.e.AppNamed("shop")
		if err != nil || app.URL != "http://edge/" || app.Baseline != 1 || app.Candidate != 2 || app.Rollout != 1 ||
			len(app.Held) != 1 || app.Held[0] != 3 || app.Split.String() != "r1 90%, r2 10%" {
			t.Errorf("%+v, %v", app, err)
		}
		releases, _ := w.e.Releases("")
		if len(releases) != 3 || releases[1].Share != 1000 || releases[0].Share != 9000 || releases[2].Share != 0 {
			t.Errorf("%+v", releases)
		}
	})
}
