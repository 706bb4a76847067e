package store_test

import (
	"path/filepath"
	"testing"

	"muru/store"
	"muru/store/storetest"
)

// A pathStore remembers its file, to open it again.
type pathStore struct {
	store.Store
	path string
}

func open(t testing.TB, path string) *store.Bolt {
	t.Helper()
	return openWith(t, path, store.Options{})
}

func openWith(t testing.TB, path string, opt store.Options) *store.Bolt {
	t.Helper()
	s, err := store.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// harness opens bbolt stores seen through wrap.
func harness(opt store.Options, wrap func(store.Store) store.Store) storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			path := filepath.Join(t.TempDir(), "muru.db")
			return pathStore{wrap(openWith(t, path, opt)), path}
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := s.(pathStore).path
			return pathStore{wrap(openWith(t, path, opt)), path}
		},
	}
}

func TestBoltDoesWhatEveryStoreDoes(t *testing.T) {
	storetest.Run(t, harness(store.Options{}, func(s store.Store) store.Store { return s }))
}

func TestBoltWithAnswersLostBeforeTheCommit(t *testing.T) {
	storetest.Run(t, harness(store.Unsynced(), func(s store.Store) store.Store { return storetest.Unsure(s, storetest.BeforeCommit) }))
}

func TestBoltWithAnswersLostAfterTheCommit(t *testing.T) {
	storetest.Run(t, harness(store.Unsynced(), func(s store.Store) store.Store { return storetest.Unsure(s, storetest.AfterCommit) }))
}
