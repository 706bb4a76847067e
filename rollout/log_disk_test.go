package rollout

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/store"
)

// openLog opens a log on a file.
func openLog(t testing.TB, path string, o LogOptions) (*Log, *store.Bolt) {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return l, s
}

func closeLog(t testing.TB, l *Log, s *store.Bolt) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// seqs returns "from-to (how many)" of some events, and fails if they are not
// in order.
func seqs(t *testing.T, events []muru.Event) string {
	t.Helper()
	if len(events) == 0 {
		return "none"
	}
	for i := 1; i < len(events); i++ {
		if events[i].Seq <= events[i-1].Seq {
			t.Errorf("event %d after %d", events[i].Seq, events[i-1].Seq)
		}
	}
	return fmt.Sprintf("%d-%d (%d)", events[0].Seq, events[len(events)-1].Seq, len(events))
}

func TestEventsAreOnDiskWithin50Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLog(t, filepath.Join(fastDir(t), "muru.db"), LogOptions{})
		defer closeLog(t, l, s)
		for range 3 {
			l.Append(muru.Event{Kind: "worker.ready", Subject: "shop@r1"})
		}
		time.Sleep(flushWithin)
		synctest.Wait()
		if status, _ := s.Status(t.Context()); status.Rev != 3 { // from 1: their numbers, then all of them
			t.Errorf("revision %d", status.Rev)
		}
		page, err := s.Range(t.Context(), keyEvents, eventKey(eventMax), store.RangeOpt{})
		if err != nil || len(page.KVs) != 3 {
			t.Errorf("%d events on disk, %v", len(page.KVs), err)
		}
	})
}

func TestNumbersGoOnWithoutAGapAfterAClose(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	for i := range 3 {
		l, s := openLog(t, path, LogOptions{})
		e := muru.Event{Kind: "daemon.started", Subject: "muru", Data: map[string]any{"run": i, "rollout": 3}}
		l.Append(e)
		time.AfterFunc(0, func() {}) // nothing waits for the writer: Close does
		closeLog(t, l, s)
	}
	l, s := openLog(t, path, LogOptions{})
	defer closeLog(t, l, s)
	if got := seqs(t, l.Query(EventQuery{})); got != "1-3 (3)" {
		t.Error(got)
	}
	if got := seqs(t, l.Query(EventQuery{Run: 2})); got != "3-3 (1)" {
		t.Error(got)
	}
	if got := seqs(t, l.Query(EventQuery{Rollout: 3})); got != "1-3 (3)" {
		t.Error(got)
	}
}

func TestNumbersThatPeopleHaveSeenAreNotGivenAgainAfterACrash(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		for range 5 {
			l, s := openLog(t, path, LogOptions{})
			for i := range 40 {
				e := l.Append(muru.Event{Kind: "worker.ready", Subject: "shop@r1"})
				if e.Seq != 0 && e.Seq <= seen {
					t.Fatalf("event %d after %d", e.Seq, seen)
				}
				seen = max(seen, e.Seq)
				if i == 20 {
					time.Sleep(time.Second)
				}
			}
			for _, e := range l.Query(EventQuery{}) {
				seen = max(seen, e.Seq)
			}
			s.Close() // the crash: what is not on disk never will be
			l.Close(context.Background())
		}
	})
}

func TestQueriesReachWhatMemoryDoesNotHold(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	l, s := openLog(t, path, LogOptions{})
	const n = 2500
	for i := range n {
		e := muru.Event{Kind: "worker.ready", Subject: "shop@r1"}
		if i == 10 {
			e.Kind = "release.failed"
		}
		l.Append(e)
	}
	closeLog(t, l, s)
	l, s = openLog(t, path, LogOptions{Max: 100})
	defer closeLog(t, l, s)
	for _, tt := range []struct {
		q    EventQuery
		want string
	}{
		{EventQuery{}, "1-2500 (2500)"},
		{EventQuery{Limit: 50}, "2451-2500 (50)"},
		{EventQuery{After: 2490}, "2491-2500 (10)"},
		{EventQuery{After: 5}, "6-2500 (2495)"},
		{EventQuery{Limit: 150}, "2351-2500 (150)"},
		{EventQuery{Limit: 1200}, "1301-2500 (1200)"},
		{EventQuery{Kind: "release.failed"}, "11-11 (1)"},
		{EventQuery{Kind: "run.*"}, "none"},
		{EventQuery{Since: time.Now().Add(time.Hour)}, "none"},
	} {
		if got := seqs(t, l.Query(tt.q)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.q, got, tt.want)
		}
	}
}

func TestOlderEventsAreReadIntoMemoryInTheBackground(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	l, s := openLog(t, path, LogOptions{})
	const n = 3 * pageSize
	for range n {
		l.Append(muru.Event{Kind: "worker.ready", Subject: "shop@r1"})
	}
	closeLog(t, l, s)
	l, s = openLog(t, path, LogOptions{})
	defer closeLog(t, l, s)
	l.Append(muru.Event{Kind: "daemon.started", Subject: "muru"})
	for deadline := time.Now().Add(10 * time.Second); ; {
		if got := seqs(t, l.Query(EventQuery{})); got != fmt.Sprintf("1-%d (%d)", n+1, n+1) {
			t.Fatal(got) // whether they are in memory or not
		}
		l.mu.Lock()
		held := len(l.events)
		l.mu.Unlock()
		if held == n+1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events in memory", held)
		}
	}
}

func TestEventsOfManyAreInOneOrderForAll(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	l, s := openLog(t, path, LogOptions{})
	sub := l.Subscribe(t.Context())
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			for i := range 50 {
				e := muru.Event{Kind: "worker.ready", Subject: "shop@r1", Data: map[string]any{"from": g, "i": i}}
				if g%2 == 0 {
					l.Append(e)
				} else if _, err := l.commit(nil, []muru.Event{e}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	last := map[any]int{0: -1, 1: -1, 2: -1, 3: -1}
	for i := range 200 {
		e := <-sub
		if e.Seq != i+1 {
			t.Fatalf("event %d is the %dth", e.Seq, i+1)
		}
		if n := e.Data["i"].(int); n != last[e.Data["from"]]+1 {
			t.Fatalf("%v's %d after %d", e.Data["from"], n, last[e.Data["from"]])
		}
		last[e.Data["from"]]++
	}
	want := fmt.Sprint(l.Query(EventQuery{}))
	closeLog(t, l, s)
	l, s = openLog(t, path, LogOptions{})
	defer closeLog(t, l, s)
	if got := fmt.Sprint(l.Query(EventQuery{})); got != want {
		t.Error("on disk they are others")
	}
}

func TestHugeEventIsKeptWithoutItsData(t *testing.T) {
	path := filepath.Join(fastDir(t), "muru.db")
	l, s := openLog(t, path, LogOptions{})
	huge := string(make([]byte, 300<<10))
	l.Append(muru.Event{Kind: "worker.crashed", Subject: "shop@r1", Message: huge, Data: map[string]any{"x": huge}})
	closeLog(t, l, s)
	l, s = openLog(t, path, LogOptions{})
	defer closeLog(t, l, s)
	if got := l.Query(EventQuery{}); len(got) != 1 || got[0].Data != nil || len(got[0].Message) > messageMax+3 {
		t.Errorf("%d events", len(got))
	}
}

func TestOldRevisionsOfTheStoreAreForgotten(t *testing.T) {
	l, s := openLog(t, filepath.Join(fastDir(t), "muru.db"), LogOptions{})
	defer closeLog(t, l, s)
	var mod store.Rev
	for i := range 3*historyKept + 10 {
		rev, err := l.commit([]write{{keyRunCounter, encodeCounter(i), mod}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		mod = rev
	}
	l.disk.tasks.Wait()
	if status, _ := s.Status(t.Context()); status.Compacted < historyKept {
		t.Errorf("%+v", status)
	}
}
