package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The protocol's version, which a hello names.
const version = 1

const (
	headerSize = 16
	maxHead    = 1 << 20  // bytes of an answer's head
	maxBody    = 16 << 20 // bytes of one frame's body; the worker sends at most 1 MiB
	smallBody  = 64 << 10 // bytes; up to here a body travels with its request
	partSize   = 64 << 10 // bytes of a part of a larger one
)

// Flags of what the daemon sends. muru_worker/link.py has the same.
const (
	flagMore   = 0x01 // a body follows, in parts that the worker pulls
	flagBody   = 0x02 // such a part; with flagMore there are others
	flagCancel = 0x04 // nobody wants the answer to this id any more
	flagBroken = 0x08 // the body cannot be had: the client left or broke its framing
	flagQuoted = 0x10 // PATH_INFO has its % and NUL characters percent-encoded
)

// Flags of what the worker sends; flagMore too: the answer goes on.
const (
	flagPull   = 0x02 // asks for the next part of the request's body
	flagRaised = 0x04 // the application raised before its head was sent
	flagReset  = 0x08 // the answer cannot be completed
	flagBusy   = 0x10 // the answer is complete, the thread is not free before flagIdle
	flagIdle   = 0x20 // the thread is free
	flagHello  = 0x40 // the first frame of a connection
)

// header is the fixed part of a frame.
type header struct {
	head, body, id uint32
	flags, fields  uint16
}

func (h header) put(b []byte) {
	binary.LittleEndian.PutUint32(b[0:], h.head)
	binary.LittleEndian.PutUint32(b[4:], h.body)
	binary.LittleEndian.PutUint32(b[8:], h.id)
	binary.LittleEndian.PutUint16(b[12:], h.flags)
	binary.LittleEndian.PutUint16(b[14:], h.fields)
}

// readHeader reads a frame's header and refuses sizes beyond the limits.
func readHeader(r *bufio.Reader) (header, error) {
	b, err := r.Peek(headerSize)
	if err != nil {
		return header{}, closedError(err)
	}
	h := header{
		head:   binary.LittleEndian.Uint32(b[0:]),
		body:   binary.LittleEndian.Uint32(b[4:]),
		id:     binary.LittleEndian.Uint32(b[8:]),
		flags:  binary.LittleEndian.Uint16(b[12:]),
		fields: binary.LittleEndian.Uint16(b[14:]),
	}
	if h.head > maxHead || h.body > maxBody {
		return header{}, protocolError("sent no frame: %q", b)
	}
	_, err = r.Discard(headerSize)
	return h, err
}

// readHead reads the head of a frame as text of its own.
func readHead(r *bufio.Reader, size uint32, scratch *[]byte) (string, error) {
	if size == 0 {
		return "", nil
	}
	if b, err := r.Peek(int(size)); err == nil {
		text := string(b)
		_, err = r.Discard(int(size))
		return text, err
	}
	if cap(*scratch) < int(size) {
		*scratch = make([]byte, size)
	}
	b := (*scratch)[:size]
	if _, err := io.ReadFull(r, b); err != nil {
		return "", closedError(err)
	}
	return string(b), nil
}

// closedError marks the end of a connection, however it came.
func closedError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}
