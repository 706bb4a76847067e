package rollout

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muru"
)

// TestEveryCommandInEveryStateOfARollout is the table of what each command
// does in each state: the rollout's state afterwards, or an error's kind.
func TestEveryCommandInEveryStateOfARollout(t *testing.T) {
	states := []struct {
		name  string
		state muru.RolloutState
		enter func(w *world)
	}{
		{"running", muru.Running, func(w *world) { w.canary() }},
		{"dark", muru.Running, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.Steps = []muru.Step{{Share: 0, Hold: time.Hour}} })
		}},
		{"paused", muru.Paused, func(w *world) {
			w.canary()
			w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		}},
		{"awaiting", muru.AwaitingApproval, func(w *world) {
			w.canary(func(q *CanaryRequest) { q.Approve = muru.ApproveAll })
			w.good(100)
			time.Sleep(31 * time.Second)
		}},
		{"not ready", muru.Running, func(w *world) {
			w.host.ReadyFunc = func(id muru.ReleaseID) bool { return id != rel(2) }
			w.canary()
		}},
		{"promoted", muru.Promoted, func(w *world) {
			w.canary()
			w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
		}},
		{"rolled back", muru.RolledBack, func(w *world) {
			w.canary()
			w.e.Harm(rel(2), muru.HarmCrash)
		}},
		{"aborted", muru.Aborted, func(w *world) {
			w.canary()
			w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		}},
	}
	commands := []struct {
		name string
		run  func(w *world) error
		want map[string]string // by state; "" is all others: the state stays, no error
	}{
		{"pause", func(w *world) error {
			_, _, err := w.e.Pause(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
			return err
		}, map[string]string{"running": "paused", "dark": "paused", "not ready": "paused", "awaiting": "refused", "promoted": "refused"}},
		{"resume", func(w *world) error {
			_, _, err := w.e.Resume(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
			return err
		}, map[string]string{"": "refused", "paused": "running", "awaiting": "running"}},
		{"abort", func(w *world) error {
			_, _, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
			return err
		}, map[string]string{"running": "aborted", "dark": "aborted", "paused": "aborted", "awaiting": "aborted", "not ready": "aborted", "promoted": "refused"}},
		{"promote candidate", func(w *world) error {
			_, _, err := w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
			return err
		}, map[string]string{"running": "promoted", "dark": "promoted", "paused": "promoted", "awaiting": "promoted", "not ready": "promoted"}},
		{"promote another", func(w *world) error {
			_, _, err := w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(3)})
			return err
		}, map[string]string{"running": "refused", "dark": "refused", "paused": "refused", "awaiting": "refused", "not ready": "refused"}},
		{"rollback app", func(w *world) error {
			_, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"})
			return err
		}, map[string]string{"running": "aborted", "dark": "aborted", "paused": "aborted", "awaiting": "aborted", "not ready": "aborted",
			"rolled back": "refused", "aborted": "refused"}}, // nothing served before r1
		{"rollback candidate", func(w *world) error {
			_, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, Release: rel(2)})
			return err
		}, map[string]string{"running": "aborted", "dark": "aborted", "paused": "aborted", "awaiting": "aborted", "not ready": "aborted"}},
		{"stop candidate", func(w *world) error {
			_, _, err := w.e.StopRelease(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
			return err
		}, map[string]string{"running": "refused", "dark": "refused", "paused": "refused", "awaiting": "refused", "not ready": "refused", "promoted": "refused"}},
		{"stop app", func(w *world) error {
			_, _, err := w.e.StopApp(w.ctx, ana, "shop")
			return err
		}, map[string]string{"running": "aborted", "dark": "aborted", "paused": "aborted", "awaiting": "aborted", "not ready": "aborted"}},
		{"split", func(w *world) error {
			_, _, err := w.e.Split(w.ctx, SplitRequest{Caller: ana, App: "shop", Shares: []muru.SplitArm{{Release: rel(3), Share: 1000}}})
			return err
		}, map[string]string{"running": "refused", "dark": "refused", "paused": "refused", "awaiting": "refused", "not ready": "refused"}},
		{"deploy", func(w *world) error {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
			return err
		}, map[string]string{"running": "refused", "dark": "refused", "paused": "refused", "awaiting": "refused", "not ready": "refused"}},
		{"deploy held", func(w *world) error {
			_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: true})
			return err
		}, nil},
		{"canary of another", func(w *world) error {
			_, _, err := w.e.Canary(w.ctx, plan(func(q *CanaryRequest) { q.Release = rel(3) }))
			return err
		}, map[string]string{"running": "refused", "dark": "refused", "paused": "refused", "awaiting": "refused", "not ready": "refused"}},
		{"observe", func(w *world) error {
			_, err := w.e.Observe(w.ctx, ObserveRequest{Caller: ana, Release: rel(1), Hold: time.Second, Deadline: time.Second}, nil)
			if muru.KindOf(err) == muru.KindNoData {
				return nil
			}
			return err
		}, nil},
	}
	for _, s := range states {
		for _, c := range commands {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.baseAndCandidate()
					w.deploy(true)
					s.enter(w)
					if got := w.rollout(1).State; got != s.state {
						t.Fatalf("could not enter %s: %s", s.state, got)
					}
					got := ""
					if err := c.run(w); err != nil {
						got = muru.KindOf(err).String()
						if state := w.rollout(1).State; state != s.state {
							t.Errorf("an error (%v) changed the state to %s", err, state)
						}
					} else if state := w.rollout(1).State; state != s.state {
						got = state.String()
					}
					want, ok := c.want[s.name]
					if !ok {
						want = c.want[""]
					}
					if got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					w.invariants()
				})
			})
		}
	}
}

func TestRefusalNamesTheLiveRollout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		_, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop"})
		expectError(t, err, muru.KindRefused, "shop has rollout 1 live (r2 at 10%): refused")
		if e := err.(*muru.Error); e.Hint != "muru rollout abort shop, or --on-conflict supersede" {
			t.Errorf("hint %q", e.Hint)
		}
		w.deploy(true)
		_, _, err = w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(3)})
		expectError(t, err, muru.KindRefused, "shop has rollout 1 live (r2 at 10%): refused")
		if e := err.(*muru.Error); e.Hint != "muru rollout abort shop" { // promote cannot supersede
			t.Errorf("hint %q", e.Hint)
		}
	})
}

func TestReasonOfAPromotionIsKeptInItsEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		must[muru.Release](t)(w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2), Reason: "the fair opens"}))
		if got := w.events("release.promoted"); len(got) != 2 || got[1] != "shop@r2 100% of shop by ana, r1 is kept warm: the fair opens" {
			t.Errorf("%q", got)
		}
	})
}

func TestReportsOfAbortAndPromote(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		_, report, err := w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1, Reason: "r1 itself is bad"})
		if err != nil || report != "rollout 1 aborted: by ana at 10%: r1 itself is bad" {
			t.Error(report, err)
		}
		_, report, err = w.e.Abort(w.ctx, RolloutRequest{Caller: ana, Rollout: 1})
		if err != nil || report != "rollout 1 is aborted already: by ana at 10%: r1 itself is bad" {
			t.Error(report, err)
		}
		w.canary()
		_, report, err = w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2), Reason: "hurry"})
		if err != nil || report != "rollout 2 promoted: by ana at 10% in step 1 of 2: hurry" {
			t.Error(report, err)
		}
		_, report, err = w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
		if err != nil || report != "shop@r2 serves 100% of shop already" {
			t.Error(report, err)
		}
		w.expectEvents("rollout.aborted", "shop@r2 rollout 1: by ana at 10%: r1 itself is bad")
	})
}

func TestCallIsMadeOnceForEachKey(t *testing.T) {
	inWorld(t, func(w *world) {
		by := func(key string) Caller { return Caller{Run: 1, Key: key, By: "run 1"} }
		w.deploy(false)
		for range 2 {
			r, report, err := w.e.Deploy(w.ctx, DeployRequest{Caller: by("1/0/1"), App: "shop", Hold: true})
			if err != nil || r.ID != rel(2) || report != "release shop@r2 is ready and held: not serving" {
				t.Fatal(r, report, err)
			}
		}
		for range 2 {
			r, _, err := w.e.Canary(w.ctx, plan(func(q *CanaryRequest) { q.Caller = by("1/0/2") }))
			if err != nil || r.Number != 1 {
				t.Fatal(r, err)
			}
		}
		for range 2 {
			_, report, err := w.e.Abort(w.ctx, RolloutRequest{Caller: by("1/0/3"), Rollout: 1})
			if err != nil || report != "rollout 1 aborted: by run 1 at 10%" {
				t.Error(report, err)
			}
		}
		w.expectEvents("rollout.aborted", "shop@r2 rollout 1: by run 1 at 10%")
		if got := fmt.Sprint(w.state(2)); got != "held" {
			t.Error(got)
		}
	})
}

func TestClosingTheEngineEndsCallsThatWait(t *testing.T) {
	inWorld(t, func(w *world) {
		w.baseAndCandidate()
		w.canary()
		done := make(chan error)
		go func() {
			_, err := w.e.WaitRollout(w.ctx, 1, nil)
			done <- err
		}()
		synctest.Wait()
		w.e.Close(w.ctx)
		expectError(t, <-done, muru.KindRefused, "muru is stopping")
	})
}
