package rollout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muru"
	"muru/store"
)

// historyStore is a store with events of a former life, whose reads can be
// made to wait or to fail. The events are read in pages: the newest
// newestAtOnce when a log is opened, then the rest.
func historyStore(t *testing.T, events int) (s *stallingStore, pages int) {
	t.Helper()
	path := filepath.Join(fastDir(t), "muru.db")
	l, bolt := openLog(t, path, LogOptions{})
	for i := range events {
		l.Append(muru.Event{Kind: "worker.ready", Subject: fmt.Sprintf("shop@r%d", i/1000+1)})
	}
	closeLog(t, l, bolt)
	bolt, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bolt.Close() })
	return &stallingStore{Store: bolt}, 1 + (events-newestAtOnce+pageSize-1)/pageSize
}

// openWhileStalled opens a log whose background reading does not get anywhere
// until resume is called.
func openWhileStalled(t *testing.T, s *stallingStore) (l *Log, resume func()) {
	t.Helper()
	s.skipReads.Store(1) // the newest events, without which there is no log
	resume = s.stallReads()
	l, err := OpenLog(t.Context(), s, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return l, resume
}

func TestQuestionsRightAfterAStartDoNotReadTheEventsASecondTime(t *testing.T) {
	const n = 5 * pageSize
	s, pages := historyStore(t, n)
	synctest.Test(t, func(t *testing.T) {
		l, resume := openWhileStalled(t, s)
		defer l.Close(context.Background())
		answers := make(chan string)
		for _, q := range []EventQuery{{}, {Release: rel(1)}, {Limit: 1200}} {
			go func() {
				found, err := l.Find(t.Context(), q)
				answers <- fmt.Sprint(seqs(t, found), " ", err)
			}()
		}
		if got := seqs(t, l.Query(EventQuery{Limit: newestAtOnce})); got != fmt.Sprintf("%d-%d (%d)", n-newestAtOnce+1, n, newestAtOnce) {
			t.Error("the newest are ", got)
		}
		synctest.Wait()
		resume()
		got := map[string]bool{<-answers: true, <-answers: true, <-answers: true}
		for _, want := range []string{"1-5000 (5000) <nil>", "1-1000 (1000) <nil>", "3801-5000 (1200) <nil>"} {
			if !got[want] {
				t.Errorf("none of the answers is %s: %v", want, got)
			}
		}
		if reads := s.reads.Load(); reads != int64(pages) {
			t.Errorf("%d pages were read, there are %d", reads, pages)
		}
	})
}

func TestListOfEventsThatWasCutIsAnError(t *testing.T) {
	const n = 2 * pageSize
	newest := fmt.Sprintf("%d-%d (%d)", n-newestAtOnce+1, n, newestAtOnce)
	check := func(t *testing.T, l *Log, ctx context.Context, wantErr string, kind muru.ErrorKind, hint string, took time.Duration) {
		t.Helper()
		began := time.Now()
		found, err := l.Find(ctx, EventQuery{})
		if err == nil || err.Error() != wantErr || muru.KindOf(err) != kind || time.Since(began) != took {
			t.Errorf("after %v: %v (%v)", time.Since(began), err, muru.KindOf(err))
		}
		if told, ok := errors.AsType[*muru.Error](err); hint != "" && (!ok || told.Hint != hint) {
			t.Errorf("hint of %+v", err)
		}
		if got := seqs(t, found); got != newest {
			t.Error("with ", got)
		}
	}
	const hint = `ask again in a moment, or for newer ones: events(since = "1h")`
	s, _ := historyStore(t, n)
	synctest.Test(t, func(t *testing.T) {
		l, resume := openWhileStalled(t, s)
		check(t, l, t.Context(), "events before number 1501 could not be read within 5s", muru.KindTimeout, hint, readWithin)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		check(t, l, ctx, "enough", muru.KindFailed, "", time.Second)

		s.broken.Store(true)
		resume() // the loader gives up, queries read the store
		synctest.Wait()
		check(t, l, t.Context(), "events before number 1501 cannot be read: read: input/output error", muru.KindFailed, hint, 0)
		s.broken.Store(false)
		if found, err := l.Find(t.Context(), EventQuery{}); err != nil || seqs(t, found) != "1-2000 (2000)" {
			t.Errorf("with the store mended: %s, %v", seqs(t, found), err)
		}
		l.Close(context.Background())
		check(t, l, t.Context(), errClosed.Error(), muru.KindRefused, "", 0)
	})
}

func TestEventsRemovedWhileTheyAreReadDoNotComeBack(t *testing.T) {
	s, _ := historyStore(t, 3*pageSize)
	synctest.Test(t, func(t *testing.T) {
		l, resume := openWhileStalled(t, s)
		defer l.Close(context.Background())
		s.skipReads.Store(100) // of remove
		if _, err := l.remove(t.Context(), Policy{Events: 1100}); err != nil {
			t.Fatal(err)
		}
		resume()
		synctest.Wait()
		for range 2 { // from memory
			if got, err := l.Find(t.Context(), EventQuery{}); err != nil || seqs(t, got) != "1901-3000 (1100)" {
				t.Error(seqs(t, got), err)
			}
		}
	})
}
