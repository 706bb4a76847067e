package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"muru/store"
)

var payload = bytes.Repeat([]byte("0123456789"), 30) // an event or a release as JSON

// history makes the file of a fleet that has been running for long: 100,000
// events, 1,000 releases that changed state five times, and their history.
func history(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "muru.db")
	s := openWith(b, path, store.Unsynced())
	for i := 0; i < 100_000; {
		var ops []store.Op
		for ; len(ops) < 95; i++ {
			ops = append(ops, store.Put(fmt.Sprintf("/muru/local/event/%012d", i), payload, 0))
		}
		ops = append(ops, store.Put(fmt.Sprintf("/muru/local/release/%06d", i/95%1000), payload, 0))
		if _, err := s.Txn(ctx, nil, ops, nil); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 5000 {
		put(b, s, fmt.Sprintf("/muru/local/release/%06d", i%1000), string(payload))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkOpenWithHistory(b *testing.B) {
	path := history(b)
	for b.Loop() {
		s, err := store.Open(path, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		status, err := s.Status(ctx)
		b.ReportMetric(float64(status.Bytes)/(1<<20), "MiB")
		if err := errors.Join(err, s.Close()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkWithHistory(b *testing.B) {
	s := open(b, history(b))
	events, end := store.Prefix("/muru/local/event/")
	rangeOf := func(from, to string, opt store.RangeOpt, want int) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := s.Range(ctx, from, to, opt)
				if err != nil || len(page.KVs) != want {
					b.Fatal(len(page.KVs), err)
				}
			}
		}
	}
	b.Run("newest 50 events", rangeOf(events, end, store.RangeOpt{Desc: true, Limit: 50}, 50))
	from, to := store.Prefix("/muru/local/release/")
	b.Run("1000 releases", rangeOf(from, to, store.RangeOpt{}, 1000))
	b.Run("1000 releases as they were", rangeOf(from, to, store.RangeOpt{AtRev: 1500}, 1000))
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := s.Get(ctx, "/muru/local/release/000500"); err != nil {
				b.Fatal(err)
			}
		}
	})
	put3 := func(s store.Store) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, err := s.Txn(ctx, nil, []store.Op{
					store.Put("/muru/local/split/shop", payload, 0), store.Put("/muru/local/rollout/1", payload, 0),
					store.Put(fmt.Sprintf("/muru/local/event/x%012d", i), payload, 0),
				}, nil)
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("txn of 3 puts", put3(s))
	b.Run("txn of 3 puts not synced", put3(openWith(b, filepath.Join(b.TempDir(), "x"), store.Unsynced())))
}

func BenchmarkCompactHistory(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := open(b, history(b))
		status, err := s.Status(ctx)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := s.Compact(ctx, status.Rev); err != nil {
			b.Fatal(err)
		}
	}
}
