package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// The layout of the file: four buckets. Every value begins with a checksum of
// its key and of what follows it, because bbolt guards only its meta pages.
//
//	kv     escaped key ‖ ^revision → flags, create, version, lease, value
//	log    revision ‖ number within it → key
//	lease  id → ttl;  id ‖ key → nothing, for the keys under it
//	meta   "format" → the version of this layout;  "state" → state
//
// kv holds every version of a key back to the compaction, the newest first,
// so the history is read where the present is: a Range at a revision is a
// seek a key, and the version before a change is the next entry. The log has
// only keys; Compact cuts it.
var (
	bucketKV    = []byte("kv")
	bucketLog   = []byte("log")
	bucketLease = []byte("lease")
	bucketMeta  = []byte("meta")

	metaFormat = []byte("format")
	metaState  = []byte("state")
)

// formatVersion is what "format" says. A change of the layout counts it up,
// and keeps "format" readable so that an older muru can refuse by name.
const formatVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum  = errors.New("a record does not match its checksum")
	errMalformed = errors.New("a record is malformed")
)

// seal puts a checksum of key and payload before the payload.
func seal(key, payload []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), sum), payload...)
}

// unseal returns the payload of a sealed value.
func unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < 4 {
		return nil, errMalformed
	}
	payload := sealed[4:]
	if binary.BigEndian.Uint32(sealed) != crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload) {
		return nil, errChecksum
	}
	return payload, nil
}

// appendKey appends key so that the order is kept and no key is the beginning
// of another: 0 becomes 0 ff, and 0 1 ends it.
func appendKey(dst []byte, key string) []byte {
	for i := range len(key) {
		dst = append(dst, key[i])
		if key[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// kvKey is where the version of key made at rev is. With rev MaxInt64 it
// sorts before every version of the key.
func kvKey(key string, rev Rev) []byte {
	b := appendKey(make([]byte, 0, len(key)+10), key)
	return binary.BigEndian.AppendUint64(b, ^uint64(rev))
}

// afterKey sorts behind every version of key and before the next key.
func afterKey(key string) []byte {
	b := appendKey(make([]byte, 0, len(key)+2), key)
	b[len(b)-1] = 2
	return b
}

func parseKVKey(b []byte) (key string, rev Rev, err error) {
	if len(b) < 10 {
		return "", 0, errMalformed
	}
	escaped, inverted := b[:len(b)-8], binary.BigEndian.Uint64(b[len(b)-8:])
	rev = Rev(^inverted)
	body, end := escaped[:len(escaped)-2], escaped[len(escaped)-2:]
	if end[0] != 0 || end[1] != 1 || rev <= 0 {
		return "", 0, errMalformed
	}
	plain := make([]byte, 0, len(body))
	for i := 0; i < len(body); i++ {
		plain = append(plain, body[i])
		if body[i] == 0 {
			if i++; i == len(body) || body[i] != 0xff {
				return "", 0, errMalformed
			}
		}
	}
	return string(plain), rev, nil
}

// A version is one entry of the kv bucket.
type version struct {
	kv  KV // Value points into the file: copy it before the transaction ends
	del bool
}

func encodeVersion(key []byte, v version) []byte {
	b := make([]byte, 0, len(v.kv.Value)+1+3*binary.MaxVarintLen64)
	if v.del {
		return seal(key, append(b, 1))
	}
	b = append(b, 0)
	b = binary.AppendUvarint(b, uint64(v.kv.Create))
	b = binary.AppendUvarint(b, uint64(v.kv.Version))
	b = binary.AppendUvarint(b, uint64(v.kv.Lease))
	return seal(key, append(b, v.kv.Value...))
}

func decodeVersion(k, sealed []byte) (version, error) {
	key, rev, err := parseKVKey(k)
	if err != nil {
		return version{}, err
	}
	b, err := unseal(k, sealed)
	if err != nil {
		return version{}, err
	}
	v := version{kv: KV{Key: key, Mod: rev}}
	if len(b) == 1 && b[0] == 1 {
		v.del = true
		return v, nil
	}
	if len(b) == 0 || b[0] != 0 {
		return version{}, errMalformed
	}
	n, rest, err := uvarints(b[1:], 3)
	if err != nil {
		return version{}, err
	}
	v.kv.Create, v.kv.Version, v.kv.Lease, v.kv.Value = Rev(n[0]), n[1], LeaseID(n[2]), rest
	if v.kv.Create <= 0 || v.kv.Create > rev || v.kv.Version <= 0 {
		return version{}, errMalformed
	}
	return v, nil
}

// uvarints reads count numbers that fit an int64 and returns what follows.
func uvarints(b []byte, count int) ([]int64, []byte, error) {
	numbers := make([]int64, count)
	for i := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > math.MaxInt64 {
			return nil, nil, errMalformed
		}
		numbers[i], b = int64(n), b[size:]
	}
	return numbers, b, nil
}

func logKey(rev Rev, i int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 12), uint64(rev))
	return binary.BigEndian.AppendUint32(b, uint32(i))
}

// decodeLog returns the revision and the key of an entry of the log.
func decodeLog(k, sealed []byte) (Rev, string, error) {
	if len(k) != 12 {
		return 0, "", errMalformed
	}
	b, err := unseal(k, sealed)
	if err != nil {
		return 0, "", err
	}
	rev := Rev(binary.BigEndian.Uint64(k))
	if rev <= 0 {
		return 0, "", errMalformed
	}
	return rev, string(b), nil
}

func leaseKey(id LeaseID, key string) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(key)), uint64(id))
	return append(b, key...)
}

func encodeTTL(k []byte, ttl time.Duration) []byte {
	return seal(k, binary.AppendUvarint(nil, uint64(ttl)))
}

// decodeLease reads an entry of the lease bucket: the lease itself (key "")
// or a key under it.
func decodeLease(k, sealed []byte) (id LeaseID, key string, ttl time.Duration, err error) {
	if len(k) < 8 {
		return 0, "", 0, errMalformed
	}
	b, err := unseal(k, sealed)
	if err != nil {
		return 0, "", 0, err
	}
	id, key = LeaseID(binary.BigEndian.Uint64(k)), string(k[8:])
	if id <= 0 {
		return 0, "", 0, errMalformed
	}
	if key != "" {
		return id, key, 0, nil
	}
	n, _, err := uvarints(b, 1)
	if err != nil || n[0] == 0 {
		return 0, "", 0, errMalformed
	}
	return id, "", time.Duration(n[0]), nil
}

// state is the record that makes a revision: written by every transaction.
// The counts let Open notice records that are missing.
type state struct {
	rev       Rev
	compacted Rev
	lastLease LeaseID
	live      int64 // keys that are there
	versions  int64 // entries of kv
	logged    int64 // entries of log
	leases    int64 // leases, without their keys
}

func (s state) encode() []byte {
	var b []byte
	for _, n := range []int64{int64(s.rev), int64(s.compacted), int64(s.lastLease), s.live, s.versions, s.logged, s.leases} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return seal(metaState, b)
}

func decodeState(sealed []byte) (state, error) {
	b, err := unseal(metaState, sealed)
	if err != nil {
		return state{}, fmt.Errorf("state: %w", err)
	}
	n, _, err := uvarints(b, 7)
	if err != nil {
		return state{}, fmt.Errorf("state: %w", err)
	}
	s := state{Rev(n[0]), Rev(n[1]), LeaseID(n[2]), n[3], n[4], n[5], n[6]}
	if s.rev <= 0 || s.compacted > s.rev {
		return state{}, fmt.Errorf("state: %w", errMalformed)
	}
	return s, nil
}

func encodeFormat(version uint64) []byte {
	return seal(metaFormat, binary.AppendUvarint(nil, version))
}

func decodeFormat(sealed []byte) (uint64, error) {
	b, err := unseal(metaFormat, sealed)
	if err != nil {
		return 0, fmt.Errorf("format: %w", err)
	}
	n, _, err := uvarints(b, 1)
	if err != nil || n[0] == 0 {
		return 0, fmt.Errorf("format: %w", errMalformed)
	}
	return uint64(n[0]), nil
}
