package store_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muru/store"
)

func TestPrefixHoldsExactlyTheKeysThatBeginSo(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 0xfe, 0xff}), 0, 4).Draw(t, "text"))
	})
	rapid.Check(t, func(t *rapid.T) {
		prefix, key := text.Draw(t, "prefix"), text.Draw(t, "key")
		from, to := store.Prefix(prefix)
		if got, want := key >= from && (to == "" || key < to), strings.HasPrefix(key, prefix); got != want {
			t.Fatalf("%q in [%q, %q): %v, want %v", key, from, to, got, want)
		}
	})
}

func TestOnlyHoldsOneKey(t *testing.T) {
	from, to := store.Only("a")
	for _, key := range []string{"", "`", "a\x00", "a\x01", "b"} {
		if key >= from && key < to {
			t.Errorf("%q is in the range of a", key)
		}
	}
	if "a" < from || "a" >= to {
		t.Error("a is not in its own range")
	}
}

func TestCheckNamesTheKeyThatIsWrittenTwice(t *testing.T) {
	err := store.Check(nil, []store.Op{store.Put("b", nil, 0), store.Put("a", nil, 0), store.Put("a\x00", nil, 0), store.Del("b")}, nil)
	if err == nil || err.Error() != `the key "b" is written twice in one transaction: invalid request` {
		t.Errorf("got %v", err)
	}
}
