package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// This file reads a bbolt file without bbolt, before bbolt maps it. bbolt
// trusts its pages: a flipped bit makes it panic, or read outside the mapping,
// which no recover stops, and its own Check runs in a goroutine of its own
// after the mapping. So every page is read with plain reads here, and every
// number in it checked before it is used.

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader  = 16 // id u64, flags u16, count u16, overflow u32
	elementSize = 16 // of branch pages: pos u32, ksize u32, page u64; of leaf pages: flags, pos, ksize, vsize u32
	metaSize    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketEntry = 0x01 // flag of a leaf element that is a bucket

	noFreelist = ^uint64(0)
)

var order = binary.NativeEndian // as bbolt writes

// A boltMeta is one of the two meta pages of a bbolt file.
type boltMeta struct {
	pageSize int64
	root     uint64
	freelist uint64
	pages    uint64 // the file's pages are below this
	txid     uint64
}

// decodeMeta decodes the page that begins with b; ok is false for one that is
// not valid.
func decodeMeta(b []byte) (m boltMeta, ok bool) {
	if len(b) < pageHeader+metaSize {
		return m, false
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8])
	if order.Uint32(b) != boltMagic || order.Uint32(b[4:]) != boltVersion || order.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return m, false
	}
	m = boltMeta{
		pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		pages: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
	powerOfTwo := m.pageSize&(m.pageSize-1) == 0
	return m, powerOfTwo && m.pageSize >= 1<<10 && m.pageSize <= 1<<24
}

// readMeta returns the meta page that bbolt will use; torn is true when the
// other one is not valid.
func readMeta(r io.ReaderAt, size int64) (m boltMeta, torn bool, err error) {
	at := func(offset int64) (boltMeta, bool) {
		var b [pageHeader + metaSize]byte
		if _, err := r.ReadAt(b[:], offset); err != nil {
			return boltMeta{}, false
		}
		return decodeMeta(b[:])
	}
	if size == 0 {
		return m, false, errors.New("it is empty")
	}
	m0, ok0 := at(0)
	if ok0 {
		if m1, ok1 := at(m0.pageSize); !ok1 {
			return m0, true, nil
		} else if m1.txid > m0.txid {
			return m1, false, nil
		}
		return m0, false, nil
	}
	// The page size is in the page that is lost: try each there is.
	for pageSize := int64(1 << 10); pageSize <= 1<<24; pageSize <<= 1 {
		if m1, ok := at(pageSize); ok && m1.pageSize == pageSize {
			return m1, true, nil
		}
	}
	return m, false, errors.New("it does not begin as a state file")
}

// A pageWalk reads every page of a file that its meta page leads to.
type pageWalk struct {
	r    io.ReaderAt
	meta boltMeta
	used []bool   // pages seen, each may be once
	bufs [][]byte // one page for each level of the tree being walked

	// entry is called for each key and value of a bucket, in order. Both are
	// gone when it returns.
	entry func(bucket string, key, value []byte) error
}

func newPageWalk(r io.ReaderAt, size int64, meta boltMeta) (*pageWalk, error) {
	if have := uint64(size / meta.pageSize); meta.pages < 4 || meta.pages > have {
		return nil, fmt.Errorf("it is cut off: %d pages of %d are there", have, meta.pages)
	}
	return &pageWalk{r: r, meta: meta, used: make([]bool, meta.pages)}, nil
}

// buckets returns the value of each bucket in the root, copied.
func (w *pageWalk) buckets() (map[string][]byte, error) {
	found := make(map[string][]byte)
	err := w.tree(w.meta.root, 0, nil, nil, func(flags uint32, key, value []byte) error {
		if flags != bucketEntry || len(value) < 16 {
			return fmt.Errorf("%.20q among the buckets is none", key)
		}
		found[string(key)] = bytes.Clone(value)
		return nil
	})
	return found, err
}

// bucket walks one bucket, whose value buckets returned.
func (w *pageWalk) bucket(name string, value []byte) error {
	leaf := func(flags uint32, key, val []byte) error {
		if flags != 0 {
			return fmt.Errorf("a record of %s has flags %#x", name, flags)
		}
		return w.entry(name, key, val)
	}
	root := order.Uint64(value)
	if root != 0 {
		return w.tree(root, 1, nil, nil, leaf)
	}
	// A small bucket is a leaf page inside its own value.
	page := value[16:]
	if len(page) < pageHeader || order.Uint16(page[8:]) != leafPage {
		return fmt.Errorf("bucket %s is no leaf page", name)
	}
	var last []byte
	if err := leafElements(page, nil, nil, &last, leaf); err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	return nil
}

// page reads the page id and those it overflows into, and claims them.
func (w *pageWalk) page(id uint64, depth int) ([]byte, error) {
	for len(w.bufs) <= depth {
		w.bufs = append(w.bufs, make([]byte, w.meta.pageSize))
	}
	buf := w.bufs[depth]
	if id < 2 || id >= w.meta.pages {
		return nil, fmt.Errorf("page %d is outside the file", id)
	}
	offset := int64(id) * w.meta.pageSize
	if _, err := w.r.ReadAt(buf[:w.meta.pageSize], offset); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	overflow := uint64(order.Uint32(buf[12:]))
	if got := order.Uint64(buf); got != id || overflow >= w.meta.pages-id {
		return nil, fmt.Errorf("page %d says that it is page %d, with %d more", id, got, overflow)
	}
	for i := id; i <= id+overflow; i++ {
		if err := w.claim(i); err != nil {
			return nil, err
		}
	}
	size := int64(1+overflow) * w.meta.pageSize
	if int64(len(buf)) < size {
		buf = make([]byte, size)
		w.bufs[depth] = buf
	}
	if overflow > 0 {
		if _, err := w.r.ReadAt(buf[:size], offset); err != nil {
			return nil, fmt.Errorf("read page %d: %w", id, err)
		}
	}
	return buf[:size], nil
}

func (w *pageWalk) claim(id uint64) error {
	if w.used[id] {
		return fmt.Errorf("page %d is used twice", id)
	}
	w.used[id] = true
	return nil
}

type leafFunc func(flags uint32, key, value []byte) error

// tree walks the tree below page id, whose keys are in [low, high); nil is no
// bound. Its depth is bounded because no page is entered twice.
func (w *pageWalk) tree(id uint64, depth int, low, high []byte, leaf leafFunc) error {
	page, err := w.page(id, depth)
	if err != nil {
		return err
	}
	flags, count := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	inside := low != nil // a root has no lower bound, and may be empty
	switch {
	case flags == leafPage && (count > 0 || !inside):
		var last []byte
		if err := leafElements(page, low, high, &last, leaf); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		return nil
	case flags == branchPage && count > 0:
		return w.branch(page, id, depth, low, high, leaf)
	}
	return fmt.Errorf("page %d is of kind %#x with %d records", id, flags, count)
}

func (w *pageWalk) branch(page []byte, id uint64, depth int, low, high []byte, leaf leafFunc) error {
	count := int(order.Uint16(page[10:]))
	next := pageHeader + count*elementSize
	// All elements first: the children are read while this page is kept.
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(page) {
			return fmt.Errorf("page %d: %w", id, errElements)
		}
		pos, ksize := int(order.Uint32(page[at:])), int(order.Uint32(page[at+4:]))
		if at+pos != next || ksize == 0 || ksize > len(page)-next {
			return fmt.Errorf("page %d: %w", id, errElements)
		}
		next += ksize
	}
	key := func(i int) []byte {
		at := pageHeader + i*elementSize
		start := at + int(order.Uint32(page[at:]))
		return page[start : start+int(order.Uint32(page[at+4:]))]
	}
	for i := range count {
		childHigh := high
		if i+1 < count {
			childHigh = key(i + 1)
		}
		if (low != nil && bytes.Compare(key(i), low) < 0) || (childHigh != nil && bytes.Compare(key(i), childHigh) >= 0) {
			return fmt.Errorf("page %d: %w", id, errOrder)
		}
		child := order.Uint64(page[pageHeader+i*elementSize+8:])
		if err := w.tree(child, depth+1, key(i), childHigh, leaf); err != nil {
			return err
		}
	}
	return nil
}

var (
	errElements = errors.New("its table of records is wrong")
	errOrder    = errors.New("its keys are out of order")
)

// leafElements calls leaf for each record of a leaf page. bbolt writes the
// data of the records without gaps behind the table, which pins down their
// number and sizes.
func leafElements(page, low, high []byte, last *[]byte, leaf leafFunc) error {
	count := int(order.Uint16(page[10:]))
	next := pageHeader + count*elementSize
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(page) {
			return errElements
		}
		flags, pos := order.Uint32(page[at:]), int(order.Uint32(page[at+4:]))
		ksize, vsize := int(order.Uint32(page[at+8:])), int(order.Uint32(page[at+12:]))
		if at+pos != next || ksize == 0 || ksize > len(page)-next || vsize > len(page)-next-ksize {
			return errElements
		}
		key, value := page[next:next+ksize], page[next+ksize:next+ksize+vsize]
		next += ksize + vsize
		switch {
		case i == 0 && low != nil && bytes.Compare(key, low) < 0,
			i > 0 && bytes.Compare(key, *last) <= 0,
			high != nil && bytes.Compare(key, high) >= 0:
			return errOrder
		}
		*last = key
		if err := leaf(flags, key, value); err != nil {
			return err
		}
	}
	return nil
}

// freelist checks that the pages the file calls free are used by nothing.
// Call it after the buckets. A page that is neither used nor free is only
// lost room.
func (w *pageWalk) freelist() error {
	if w.meta.freelist == noFreelist {
		return nil
	}
	page, err := w.page(w.meta.freelist, 0)
	if err != nil {
		return err
	}
	if order.Uint16(page[8:]) != freelistPage {
		return fmt.Errorf("page %d is not the list of free pages", w.meta.freelist)
	}
	ids, count := page[pageHeader:], uint64(order.Uint16(page[10:]))
	if count == 0xffff { // the number did not fit
		count, ids = order.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: %w", w.meta.freelist, errElements)
	}
	for i := range count {
		id := order.Uint64(ids[i*8:])
		if id < 2 || id >= w.meta.pages {
			return fmt.Errorf("page %d is outside the file", id)
		}
		if err := w.claim(id); err != nil {
			return err
		}
	}
	return nil
}
