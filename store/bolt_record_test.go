package store

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru"
)

func TestKeysKeepTheirOrderAndTheNewestVersionComesFirst(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 5).Draw(t, "key"))
	})
	revs := rapid.Custom(func(t *rapid.T) Rev { return Rev(rapid.Int64Range(1, 300).Draw(t, "rev")) })
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		ra, rb := revs.Draw(t, "ra"), revs.Draw(t, "rb")
		got := bytes.Compare(kvKey(a, ra), kvKey(b, rb))
		if want := cmp.Or(cmp.Compare(a, b), cmp.Compare(rb, ra)); got != want {
			t.Fatalf("%q at %d and %q at %d compare as %d, want %d", a, ra, b, rb, got, want)
		}
		if bytes.Compare(afterKey(a), kvKey(a, ra)) <= 0 || (b > a && bytes.Compare(afterKey(a), kvKey(b, newest)) >= 0) {
			t.Fatalf("the end of %q is not between it and %q", a, b)
		}
		if key, rev, err := parseKVKey(kvKey(a, ra)); key != a || rev != ra || err != nil {
			t.Fatalf("%q at %d came back as %q at %d, %v", a, ra, key, rev, err)
		}
	})
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	key := kvKey("a", 7)
	for _, v := range []version{
		{kv: KV{Key: "a", Create: 3, Mod: 7, Version: 2, Lease: 5, Value: []byte("value")}},
		{kv: KV{Key: "a", Create: 7, Mod: 7, Version: 1, Value: []byte{}}},
		{kv: KV{Key: "a", Mod: 7}, del: true},
	} {
		got, err := decodeVersion(key, encodeVersion(key, v))
		if err != nil || got.del != v.del || got.kv.Create != v.kv.Create || got.kv.Version != v.kv.Version ||
			got.kv.Mod != 7 || got.kv.Lease != v.kv.Lease || !bytes.Equal(got.kv.Value, v.kv.Value) {
			t.Errorf("%+v came back as %+v, %v", v, got, err)
		}
	}
	s := state{9, 3, 2, 5, 6, 7, 1}
	if got, err := decodeState(s.encode()); err != nil || got != s {
		t.Errorf("%+v came back as %+v, %v", s, got, err)
	}
	if got, err := decodeFormat(encodeFormat(4)); err != nil || got != 4 {
		t.Errorf("format 4 came back as %d, %v", got, err)
	}
}

// FuzzRecords gives the decoders what a damaged file may hold, with and
// without a checksum that matches.
func FuzzRecords(f *testing.F) {
	key := kvKey("a\x00b", 7)
	f.Add(key, encodeVersion(key, version{kv: KV{Create: 3, Mod: 7, Version: 2, Value: []byte("v")}})[4:])
	f.Add(key, []byte{1})
	f.Add(logKey(3, 1), []byte("key"))
	f.Add(leaseKey(3, ""), encodeTTL(leaseKey(3, ""), time.Second)[4:])
	f.Add(leaseKey(3, "a"), []byte{})
	f.Add(metaState, state{rev: 1}.encode()[4:])
	f.Add(metaState, []byte(strings.Repeat("\xff", 80)))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, payload []byte) {
		for _, value := range [][]byte{payload, seal(key, payload)} {
			if v, err := decodeVersion(key, value); err == nil {
				if again := encodeVersion(key, v); len(again) > len(value) {
					t.Errorf("%x = %x became longer: %x", key, value, again)
				}
				if !bytes.Equal(kvKey(v.kv.Key, v.kv.Mod), key) {
					t.Errorf("%x is not the key of %+v", key, v)
				}
			}
			_, _, _ = decodeLog(key, value)
			_, _, _, _ = decodeLease(key, value)
			_, _ = decodeState(value)
			_, _ = decodeFormat(value)
		}
		if s, err := decodeState(seal(metaState, payload)); err == nil && (s.rev <= 0 || s.compacted > s.rev) {
			t.Errorf("%x decoded as %+v", payload, s)
		}
	})
}

func TestWhatTheSystemRefusesIsWorded(t *testing.T) {
	for _, c := range []struct {
		cause error
		kind  muru.ErrorKind
		hint  string
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, muru.KindDenied, "the user who owns"},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, muru.KindFailed, "make room"},
	} {
		err := unopened("/x/muru.db", c.cause)
		worded, ok := errors.AsType[*muru.Error](err)
		if !ok || worded.Kind != c.kind || !strings.Contains(worded.Hint, c.hint) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, c.cause) {
			t.Errorf("%v: %#v", c.cause, err)
		}
	}
}
