package host

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// pipeEnd is a client's side that remembers what was written to it.
type pipeEnd struct{ bytes.Buffer }

func (*pipeEnd) Close() error { return nil }

// frame is a server's frame with a payload of n bytes.
func frame(n int) []byte {
	head := []byte{0x82}
	switch {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return append(head, bytes.Repeat([]byte{0x88}, n)...)
}

// A close frame never cuts a frame in two, however the server's bytes are
// split, and nothing follows it.
func TestCloseFrameStandsBetweenFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 125, 126, 300, 65535, 65536}), 1, 5).Draw(t, "sizes")
		var all []byte
		ends := map[int]bool{0: true}
		for _, n := range sizes {
			all = append(all, frame(n)...)
			ends[len(all)] = true
		}
		var client pipeEnd
		s := &webSocket{ReadWriteCloser: &client}
		leaveAt := rapid.IntRange(0, len(all)).Draw(t, "leave")
		left := false
		for at := 0; at < len(all); {
			if at >= leaveAt && !left {
				left = true
				s.goAway()
			}
			n := min(rapid.IntRange(1, 70000).Draw(t, "part"), len(all)-at)
			if !left && at+n > leaveAt && at < leaveAt {
				n = leaveAt - at
			}
			if got, err := s.Write(all[at : at+n]); err != nil || got != n {
				t.Fatalf("Write: %d, %v", got, err)
			}
			at += n
		}
		s.goAway()
		got := client.Bytes()
		rest, ok := bytes.CutSuffix(got, goingAway)
		if !ok || !bytes.HasPrefix(all, rest) || !ends[len(rest)] {
			t.Fatalf("%d bytes of %d, then no close frame between two frames (ends %v)", len(rest), len(all), ends)
		}
	})
}
