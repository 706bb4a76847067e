package edge

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"testing"

	"muru"
)

// The vectors keep clients where they are across versions of muru: a change of
// the hash would move everybody in the middle of a rollout.
func TestBucketVectors(t *testing.T) {
	for _, v := range []struct {
		app, salt, id string
		bucket        int
		client        uint64
	}{
		{"shop", "rollout 1", "1", 1490, 0xc5aaecc70855a20f},
		{"shop", "rollout 1", "2", 3866, 0xaba60d42b33a7daf},
		{"shop", "rollout 2", "1", 3210, 0xc5aaecc70855a20f},
		{"blog", "rollout 1", "1", 3286, 0xbc88b9f898798497},
		{"shop", "", "01M6TE1RN0DZ6YEXWKNV4W5AKN", 2965, 0xfc3ca345917a07e0},
		{"shop", "rollout 7", "f47ac10b-58cc-4372-a567-0e02b2c3d479", 3153, 0xd9afda0ed3f177b5},
		{"shop", "rollout 7", "", 7856, 0xcb5f37b5c1b28965},
	} {
		if got := bucketOf(v.app, v.salt, v.id); got != v.bucket {
			t.Errorf("bucketOf(%q, %q, %q) = %d, want %d", v.app, v.salt, v.id, got, v.bucket)
		}
		if got := clientOf(v.app, v.id); got != v.client {
			t.Errorf("clientOf(%q, %q) = %#x, want %#x", v.app, v.id, got, v.client)
		}
	}
}

// idKinds are the ids that a badly mixed hash gets wrong.
var idKinds = map[string]func(i int) string{
	"sequential": strconv.Itoa,
	"hex":        func(i int) string { return fmt.Sprintf("%08x", i) },
	"uuid": func(i int) string {
		sum := md5.Sum([]byte(strconv.Itoa(i)))
		h := hex.EncodeToString(sum[:])
		return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
	},
}

func TestSharesAreWithinFourSigmaForEveryKindOfID(t *testing.T) {
	const n = 10000
	for kind, id := range idKinds {
		for _, percent := range []float64{1, 5, 10, 50} {
			for rollout := range 5 {
				salt := fmt.Sprintf("rollout %d", rollout)
				p := percent / 100
				in := 0
				for i := range n {
					if bucketOf("shop", salt, id(i)) < int(p*muru.Buckets) {
						in++
					}
				}
				sigma := math.Sqrt(n * p * (1 - p))
				if diff := math.Abs(float64(in) - n*p); diff > 4*sigma {
					t.Errorf("%s ids at %v%%, %s: %d of %d, %.1f sigma off", kind, percent, salt, in, n, diff/sigma)
				}
			}
		}
	}
}

func TestRaisingTheShareMovesNobodyBack(t *testing.T) {
	at := func(share muru.Share) muru.Split { return shop(share, nil).Split }
	for kind, id := range idKinds {
		for i := range 10000 {
			b := bucketOf("shop", at(1000).Salt, id(i))
			if b < 0 || b >= muru.Buckets {
				t.Fatalf("bucket %d", b)
			}
			before, _ := at(1000).Pick(b)
			after, _ := at(5000).Pick(b)
			if before == rel(6) && after != rel(6) {
				t.Fatalf("%s id %s moved back", kind, id(i))
			}
		}
	}
}

func TestAnotherRolloutHasOtherFirstClients(t *testing.T) {
	both := 0
	for i := range 10000 {
		if id := strconv.Itoa(i); bucketOf("shop", "rollout 1", id) < 1000 && bucketOf("shop", "rollout 2", id) < 1000 {
			both++
		}
	}
	// 100 expected, sigma just under 10.
	if both < 60 || both > 140 {
		t.Errorf("%d of 10000 clients are first in both rollouts, about 100 expected", both)
	}
}
