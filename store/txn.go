package store

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Target is what of a key a [Cmp] compares.
type Target uint8

// The targets. A key that is not there has the number 0 for Create, Mod and
// Version, and no Value: every comparison of its value fails.
const (
	Create Target = iota
	Mod
	Version
	Value
)

// Rel is how a [Cmp] compares what is stored (left) with what it holds (right).
type Rel byte

// The relations.
const (
	Equal   Rel = '='
	Less    Rel = '<'
	Greater Rel = '>'
)

// A Cmp is one condition of a transaction.
type Cmp struct {
	Key    string
	Target Target
	Rel    Rel
	Num    int64  // for Create, Mod and Version
	Value  []byte // for Value, compared byte by byte
}

// CmpCreate compares the revision at which the key was created.
func CmpCreate(key string, rel Rel, rev Rev) Cmp { return Cmp{key, Create, rel, int64(rev), nil} }

// CmpMod compares the revision of the last put.
func CmpMod(key string, rel Rel, rev Rev) Cmp { return Cmp{key, Mod, rel, int64(rev), nil} }

// CmpVersion compares how often the key was put since it was created.
func CmpVersion(key string, rel Rel, n int64) Cmp { return Cmp{key, Version, rel, n, nil} }

// CmpValue compares the value.
func CmpValue(key string, rel Rel, value []byte) Cmp { return Cmp{key, Value, rel, 0, value} }

// Absent holds when the key is not there: what makes a put create-only.
func Absent(key string) Cmp { return CmpCreate(key, Equal, 0) }

// Unchanged holds when the key is as kv was read, also if that was not there.
func Unchanged(key string, kv KV) Cmp { return CmpMod(key, Equal, kv.Mod) }

// Holds reports whether the comparison holds for kv, the zero KV standing for
// a key that is not there.
func (c Cmp) Holds(kv KV) bool {
	var order int
	switch c.Target {
	case Create:
		order = cmp.Compare(int64(kv.Create), c.Num)
	case Mod:
		order = cmp.Compare(int64(kv.Mod), c.Num)
	case Version:
		order = cmp.Compare(kv.Version, c.Num)
	case Value:
		if kv.Version == 0 {
			return false
		}
		order = bytes.Compare(kv.Value, c.Value)
	}
	switch c.Rel {
	case Less:
		return order < 0
	case Greater:
		return order > 0
	default:
		return order == 0
	}
}

// OpKind is what an [Op] does.
type OpKind uint8

// The kinds of operation.
const (
	OpPut OpKind = iota
	OpDel
	OpDelRange
	OpGet
)

// An Op is one operation of a transaction.
type Op struct {
	Kind  OpKind
	Key   string // of OpDelRange: from
	To    string // of OpDelRange
	Value []byte
	Lease LeaseID
}

// Put sets a key. Its lease is replaced too; 0 takes it from the one it had.
func Put(key string, value []byte, lease LeaseID) Op {
	return Op{Kind: OpPut, Key: key, Value: value, Lease: lease}
}

// Del deletes a key, if it is there.
func Del(key string) Op { return Op{Kind: OpDel, Key: key} }

// DelRange deletes the keys of [from, to); to == "" is no upper end.
func DelRange(from, to string) Op { return Op{Kind: OpDelRange, Key: from, To: to} }

// Get reads a key within the transaction.
func Get(key string) Op { return Op{Kind: OpGet, Key: key} }

func (o Op) writes() bool { return o.Kind != OpGet }

// span is the range of keys the operation touches.
func (o Op) span() (from, to string) {
	if o.Kind == OpDelRange {
		return o.Key, o.To
	}
	return Only(o.Key)
}

// Check says why a transaction is refused: over a limit (ErrTooLarge), an
// empty key, a comparison or operation that does not exist, or two operations
// of one branch that write the same key (ErrInvalid). Every engine calls it
// first, so that they all refuse the same.
func Check(cmps []Cmp, then, els []Op) error {
	size := 0
	if len(cmps) > MaxOps {
		return fmt.Errorf("a transaction with %d comparisons: at most %d: %w", len(cmps), MaxOps, ErrTooLarge)
	}
	for _, c := range cmps {
		if c.Target > Value || (c.Rel != Equal && c.Rel != Less && c.Rel != Greater) {
			return fmt.Errorf("a comparison of %.80q: no such target or relation: %w", c.Key, ErrInvalid)
		}
		if err := checkKey(c.Key); err != nil {
			return err
		}
		size += len(c.Key) + len(c.Value)
	}
	for _, branch := range [][]Op{then, els} {
		n, err := checkBranch(branch)
		if err != nil {
			return err
		}
		size += n
	}
	if size > MaxTxnBytes {
		return fmt.Errorf("a transaction of %d bytes: at most %d: %w", size, MaxTxnBytes, ErrTooLarge)
	}
	return nil
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("an empty key: %w", ErrInvalid)
	}
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("the key %.40q… of %d bytes: at most %d: %w", key, len(key), MaxKeyBytes, ErrTooLarge)
	}
	return nil
}

func checkBranch(ops []Op) (size int, err error) {
	if len(ops) > MaxOps {
		return 0, fmt.Errorf("a transaction of %d operations: at most %d: %w", len(ops), MaxOps, ErrTooLarge)
	}
	var writes []Op
	for _, o := range ops {
		// A range may begin with "", the lowest key.
		if o.Kind != OpDelRange || o.Key != "" {
			if err := checkKey(o.Key); err != nil {
				return 0, err
			}
		}
		switch {
		case o.Kind > OpGet:
			return 0, fmt.Errorf("an operation on %.80q: no such operation: %w", o.Key, ErrInvalid)
		case len(o.To) > MaxKeyBytes+1:
			return 0, fmt.Errorf("the end of a range of %d bytes: at most %d: %w", len(o.To), MaxKeyBytes, ErrTooLarge)
		case len(o.Value) > MaxValueBytes:
			return 0, fmt.Errorf("the value of %.80q is of %d bytes: at most %d: %w", o.Key, len(o.Value), MaxValueBytes, ErrTooLarge)
		}
		size += len(o.Key) + len(o.To) + len(o.Value)
		if o.writes() {
			writes = append(writes, o)
		}
	}
	return size, checkOverlap(writes)
}

// checkOverlap refuses two writes of one key, also through a range.
func checkOverlap(writes []Op) error {
	slices.SortFunc(writes, func(a, b Op) int { return cmp.Compare(a.Key, b.Key) })
	end, open := "", false // how far the writes so far reach; open: to the last key
	for _, o := range writes {
		from, to := o.span()
		if to != "" && to <= from {
			continue // an empty range touches nothing
		}
		if open || from < end {
			return fmt.Errorf("the key %.80q is written twice in one transaction: %w", from, ErrInvalid)
		}
		open = open || to == ""
		end = max(end, to)
	}
	return nil
}
