package store_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muru/store"
)

func grant(t *testing.T, s store.Store, ttl time.Duration, keys ...string) store.LeaseID {
	t.Helper()
	lease, err := s.Grant(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := s.Txn(ctx, nil, []store.Op{store.Put(key, nil, lease.ID)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return lease.ID
}

func there(t *testing.T, s store.Store, key string) bool {
	t.Helper()
	_, _, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestALeaseEndsItsTTLAfterTheLastKeepAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path)
		id := grant(t, s, 10*time.Second, "a", "b")
		other := grant(t, s, time.Minute, "c")
		for range 3 {
			time.Sleep(9 * time.Second)
			if _, err := s.KeepAlive(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		if !there(t, s, "a") {
			t.Error("the lease ended early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if there(t, s, "a") || there(t, s, "b") || !there(t, s, "c") {
			t.Error("the lease did not end, or another one did")
		}
		if _, err := s.KeepAlive(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("keep alive: %v", err)
		}
		if _, err := s.KeepAlive(ctx, other); err != nil {
			t.Errorf("keep the other alive: %v", err)
		}
	})
}

func TestAShortLeaseGrantedLaterEndsFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path)
		grant(t, s, time.Hour, "long")
		synctest.Wait() // the timer is set for the long one
		grant(t, s, time.Second, "short")
		time.Sleep(time.Second)
		synctest.Wait()
		if there(t, s, "short") || !there(t, s, "long") {
			t.Error("the short lease did not end alone")
		}
	})
}

func TestALeaseHasItsFullTTLAfterOpeningAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path)
		grant(t, s, 10*time.Second, "a")
		time.Sleep(9 * time.Second)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s = open(t, path)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !there(t, s, "a") {
			t.Error("the time nobody could renew it in counted")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if there(t, s, "a") {
			t.Error("the lease did not end")
		}
		if id := grant(t, s, time.Minute); id != 2 {
			t.Errorf("the next lease is %d: a number was used again", id)
		}
	})
}

func TestALeaseThatCannotBeEndedIsEndedLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muru.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path)
		id := grant(t, s, time.Second, "a")
		s.FailCommits(errors.New("no space left on device"), false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, err := s.KeepAlive(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a lease whose time has come was renewed: %v", err)
		}
		s.FailCommits(nil, false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if there(t, s, "a") {
			t.Error("the lease was not ended when it could be")
		}
	})
}
