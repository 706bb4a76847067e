package edge

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
)

// newRequestID returns a ULID. Its randomness is the runtime's ChaCha8, which
// needs no lock and no system call; ids of the same millisecond are not in
// order.
func newRequestID(now time.Time) string {
	var id ulid.ULID
	// The error says that the year is over 10889.
	_ = id.SetTime(uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(id[6:], rand.Uint64())
	binary.BigEndian.PutUint16(id[14:], uint16(rand.Uint32()))
	return id.String()
}

// newClientID returns a value for muru_id: 128 random bits in a ULID's
// letters. It says nothing of when it was made, and it is never the request's
// id, which pages and logs show.
func newClientID() string {
	var id ulid.ULID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id.String()
}
