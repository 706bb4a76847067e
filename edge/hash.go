package edge

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"muru"
)

// bucketOf returns the bucket, in [0, muru.Buckets), of a client of app. The
// salt (the rollout) makes each rollout shuffle the clients anew. The final
// mix spreads what little an id like "17" gives over all 64 bits.
func bucketOf(app, salt, id string) int {
	hi, _ := bits.Mul64(mix(hashOf(app, salt, id)), muru.Buckets)
	return int(hi)
}

// clientOf returns the number that stands for a client in facts. It does not
// depend on the salt, and shares nothing with the bucket, so that a sample of
// clients by it is none by release.
func clientOf(app, id string) uint64 { return mix(hashOf("client", app, id)) }

// hashOf hashes three texts, none of which can hold the NUL between them.
func hashOf(a, b, c string) uint64 {
	var space [192]byte
	buf := append(space[:0], a...)
	buf = append(buf, 0)
	buf = append(buf, b...)
	buf = append(buf, 0)
	buf = append(buf, c...)
	return xxhash.Sum64(buf)
}

// mix is the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}
