package rollout

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// eventClientsMax bounds how many clients a gate remembers. A rollout that has
// seen as many with an event has long been decided, or goes on for days.
const eventClientsMax = 2048

// halvingsMax bounds the halvings: clients are named by 32 bits.
const halvingsMax = 24

// eventClients are the clients that have had their first event of a gate in
// this rollout. Requests of one client are not independent, so only that
// first one is evidence; which also leaves a client that retries harder when
// it fails without more say than another.
//
// The set is bounded. When it is full it keeps the half of all clients that a
// hash names, which is independent of the one that chose the arm, and from
// then on counts only clients of that half: on both arms alike. Clients whose
// identity was made for the request are new and count whatever their half.
//
// The zero value is empty and ready. It is guarded by its judge's mutex.
type eventClients struct {
	seen     map[uint32]struct{}
	halvings int
	changes  int // counts up, so that who writes it down sees whether it must
}

// first reports whether this is the first event of a client that counts.
// minted says that its identity was made for this request.
func (c *eventClients) first(client uint64, minted bool) bool {
	name := clientName(client)
	if !c.kept(name) {
		return minted
	}
	if _, ok := c.seen[name]; ok {
		return false
	}
	if c.seen == nil {
		c.seen = map[uint32]struct{}{}
	}
	c.seen[name] = struct{}{}
	c.changes++
	for len(c.seen) >= eventClientsMax && c.halvings < halvingsMax {
		c.halvings++
		maps.DeleteFunc(c.seen, func(name uint32, _ struct{}) bool { return !c.kept(name) })
	}
	return true
}

// kept reports whether a name is in the part of all that is remembered.
func (c *eventClients) kept(name uint32) bool { return name>>(32-c.halvings) == 0 }

// clientName is what a client is remembered by. The edge's hash of it has
// decided nothing else but is mixed again all the same, so that nothing that
// ever will be decided by it can lean on which half is kept.
func clientName(client uint64) uint32 {
	x := client + 0x9e3779b97f4a7c15 // the finalizer of splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32((x ^ x>>31) >> 32)
}

// digest is the set as it is kept in the store.
func (c *eventClients) digest() string {
	buf := make([]byte, 0, 1+4*len(c.seen))
	buf = append(buf, byte(c.halvings))
	for _, name := range slices.Sorted(maps.Keys(c.seen)) {
		buf = binary.BigEndian.AppendUint32(buf, name)
	}
	return base64.RawStdEncoding.EncodeToString(buf)
}

// restoreClients reads a digest; an empty one is the empty set.
func restoreClients(digest string) (eventClients, error) {
	var c eventClients
	if digest == "" {
		return c, nil
	}
	buf, err := base64.RawStdEncoding.DecodeString(digest)
	if err != nil {
		return c, fmt.Errorf("clients: %w", err)
	}
	if len(buf)%4 != 1 || len(buf)/4 > eventClientsMax || buf[0] > halvingsMax {
		return c, fmt.Errorf("clients: %d bytes are no set", len(buf))
	}
	c.halvings = int(buf[0])
	c.seen = make(map[uint32]struct{}, len(buf)/4)
	for at := 1; at < len(buf); at += 4 {
		c.seen[binary.BigEndian.Uint32(buf[at:])] = struct{}{}
	}
	return c, nil
}
