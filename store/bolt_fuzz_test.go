package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muru/store"
)

// FuzzOpen opens a store some of whose bytes were replaced and that was cut
// off: it is refused in words, or can be read to the end.
func FuzzOpen(f *testing.F) {
	s := open(f, fill(f))
	var copied bytes.Buffer
	if err := errors.Join(s.Snapshot(ctx, &copied), s.Close()); err != nil {
		f.Fatal(err)
	}
	whole := copied.Bytes()
	path := filepath.Join(f.TempDir(), "muru.db")
	f.Add(uint32(0), []byte{}, uint32(0))
	f.Add(uint32(16), []byte("nothing"), uint32(0))
	f.Add(uint32(2*4096), bytes.Repeat([]byte{0xff}, 64), uint32(1))
	f.Add(uint32(3*4096+8), []byte{1, 0, 0xff, 0xff}, uint32(4096))
	f.Add(uint32(5*4096+12), []byte{0xff, 0xff, 0xff, 0x7f}, uint32(100))
	f.Fuzz(func(t *testing.T, at uint32, put []byte, cut uint32) {
		b := bytes.Clone(whole)
		copy(b[int(at)%len(b):], put)
		b = b[:len(b)-int(cut)%len(b)]
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(path, store.Unsynced())
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		_, err = dump(s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
