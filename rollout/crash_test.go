package rollout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/rollout/rollouttest"
	"muru/store"
	"muru/store/storetest"
)

// A faultyStore does as its file does, until it is told otherwise.
type faultyStore struct {
	store.Store
	full  atomic.Bool  // every transaction fails: the disk is full
	seen  atomic.Int64 // transactions asked for
	limit int64        // after so many it is as if the process were gone; 0: never
	after bool         // the one at the limit still reaches the disk
}

func (f *faultyStore) Txn(ctx context.Context, cmps []store.Cmp, then, els []store.Op) (store.TxnResult, error) {
	n := f.seen.Add(1)
	switch {
	case f.full.Load():
		err := &muru.Error{Kind: muru.KindFailed, Message: "the state file cannot be written: no space left on device", Hint: "make room"}
		err.Err = errors.Join(store.ErrUnavailable, syscall.ENOSPC)
		return store.TxnResult{}, err
	case f.limit != 0 && n == f.limit && f.after:
		if _, err := f.Store.Txn(ctx, cmps, then, els); err != nil {
			return store.TxnResult{}, err
		}
		fallthrough
	case f.limit != 0 && n >= f.limit:
		return store.TxnResult{}, fmt.Errorf("killed: %w", store.ErrUnavailable)
	}
	return f.Store.Txn(ctx, cmps, then, els)
}

// story is a life with everything in it: what it did last that it was told is
// done is what must be there after a crash.
func story(w *world, told func(what string)) {
	report := func(what string, err error) bool {
		if err == nil {
			told(what)
		}
		return err == nil
	}
	deploy := func(hold bool) bool {
		r, _, err := w.e.Deploy(w.ctx, DeployRequest{Caller: ana, App: "shop", Hold: hold})
		return report("deploy "+r.ID.String(), err)
	}
	if !deploy(false) || !deploy(true) {
		return
	}
	if _, _, err := w.e.Canary(w.ctx, plan(func(q *CanaryRequest) {
		q.MinRequests = 10
		q.Steps = []muru.Step{{Share: 1000, Hold: 2 * time.Second}, {Share: 5000, Hold: 2 * time.Second}}
	})); !report("canary", err) {
		return
	}
	time.Sleep(500 * time.Millisecond)
	w.good(20)
	time.Sleep(3 * time.Second) // step 2
	synctest.Wait()
	w.good(20)
	time.Sleep(3 * time.Second) // promoted
	if r, err := w.e.Rollout(1); err == nil && r.State == muru.Promoted && w.e.log.failure() == nil {
		told("promoted")
	}
	_, _, err := w.e.Rollback(w.ctx, RollbackRequest{Caller: ana, App: "shop"})
	report("rollback", err)
}

// TestKilledAtEveryTransactionComesBackAsCommitted kills muru before and after
// each transaction of a whole life: afterwards the split is one that was
// committed, never more than that, and what people were told is there.
func TestKilledAtEveryTransactionComesBackAsCommitted(t *testing.T) {
	whole := func(limit int64, after bool) (transactions int64) {
		faulty := &faultyStore{limit: limit, after: after}
		path := filepath.Join(fastDir(t), "muru.db")
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, ctx: t.Context(), path: path, host: &rollouttest.Host{}, wraps: func(s store.Store) store.Store {
				faulty.Store = s
				return faulty
			}}
			w.start()
			var done []string
			story(w, func(what string) { done = append(done, what) })
			synctest.Wait()
			// The process is gone: nothing is written any more, the file is as it is.
			transactions = faulty.seen.Load()
			w.e.Close(context.Background())
			w.log.Close(context.Background())
			w.bolt.Close()
			committed := committedSplit(t, path)
			w.wraps = nil
			w.start()
			synctest.Wait()
			defer w.stop()
			w.invariants()
			checkTold(w, fmt.Sprintf("killed at %d, after %t", limit, after), done, committed)
		})
		return transactions
	}
	n := whole(0, false)
	if n < 12 {
		t.Fatalf("the life has %d transactions only", n)
	}
	for limit := int64(1); limit <= n; limit++ {
		whole(limit, false)
		whole(limit, true)
	}
}

// committedSplit reads what the file says of the split.
func committedSplit(t *testing.T, path string) string {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kv, _, err := s.Get(t.Context(), appKey("shop"))
	if err != nil {
		return ""
	}
	var r appRecord
	if err := decode(kv.Value, &r); err != nil {
		t.Fatal(err)
	}
	split, err := r.Split.split("shop")
	if err != nil {
		t.Fatal(err)
	}
	return split.String()
}

func checkTold(w *world, when string, told []string, committed string) {
	w.t.Helper()
	split := ""
	if app, err := w.e.AppNamed("shop"); err == nil {
		split = app.Split.String()
	}
	if split != committed {
		w.t.Errorf("%s: the split is %q, committed was %q", when, split, committed)
	}
	all := strings.Join(told, ", ")
	want := map[string]string{
		"deploy shop@r1": "r1 100%", "deploy shop@r2": "r1 100%", "promoted": "r2 100%", "rollback": "r1 100%",
	}
	for _, what := range told {
		if what == "canary" {
			if _, err := w.e.Rollout(1); err != nil {
				w.t.Errorf("%s: told of %s: %v", when, all, err)
			}
		}
	}
	if last := told[max(0, len(told)-1):]; len(last) == 1 && want[last[0]] != "" && want[last[0]] != committed {
		// What came after it may have been committed without being told of.
		next := map[string]string{"deploy shop@r2": "r1 90%, r2 10%", "promoted": "r1 100%"}
		if next[last[0]] != committed {
			w.t.Errorf("%s: told of %s, the split is %q", when, all, committed)
		}
	}
	events := w.e.Events(EventQuery{})
	for i := 1; i < len(events); i++ {
		if events[i].Seq <= events[i-1].Seq {
			w.t.Errorf("%s: event %d after %d", when, events[i].Seq, events[i-1].Seq)
		}
	}
}

func TestLostAnswersOfTheStoreChangeNothing(t *testing.T) {
	for _, when := range []storetest.Moment{storetest.BeforeCommit, storetest.AfterCommit} {
		inWrappedWorld(t, func(s store.Store) store.Store { return storetest.Unsure(s, when) }, func(w *world) {
			var done []string
			story(w, func(what string) { done = append(done, what) })
			if got := strings.Join(done, ", "); got != "deploy shop@r1, deploy shop@r2, canary, promoted, rollback" {
				t.Errorf("told of %s", got)
			}
			events := fmt.Sprint(w.e.Events(EventQuery{}))
			w.restart()
			checkTold(w, "lost answers", done, "r1 100%")
			if got := fmt.Sprint(w.e.Events(EventQuery{})); got != events {
				t.Errorf("the events were\n%s\nare\n%s", events, got)
			}
		})
	}
}

// TestStoreThatNeverAnswersRefusesChanges: every try was lost after it was
// done, so nobody knows.
func TestStoreThatNeverAnswersRefusesChanges(t *testing.T) {
	faulty := &lostStore{}
	inWrappedWorld(t, func(s store.Store) store.Store { faulty.Store = s; return faulty }, func(w *world) {
		w.baseAndCandidate()
		faulty.lost.Store(true)
		_, _, err := w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)})
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("error is %v", err)
		}
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r1 100%" {
			t.Errorf("refused, and the split is %s", app.Split)
		}
		w.invariants()
		faulty.lost.Store(false)
		time.Sleep(2 * time.Second)
		must[muru.Release](t)(w.e.Promote(w.ctx, ReleaseRequest{Caller: ana, Release: rel(2)}))
		w.restart()
		if app, _ := w.e.AppNamed("shop"); app.Split.String() != "r2 100%" {
			t.Errorf("the split is %s", app.Split)
		}
	})
}

// lostStore does everything and says of nothing that it did, while lost.
type lostStore struct {
	store.Store
	lost atomic.Bool
}

func (l *lostStore) Txn(ctx context.Context, cmps []store.Cmp, then, els []store.Op) (store.TxnResult, error) {
	r, err := l.Store.Txn(ctx, cmps, then, els)
	if l.lost.Load() {
		return store.TxnResult{}, store.ErrUnknown
	}
	return r, err
}
