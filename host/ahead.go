package host

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"muru"
	"muru/host/wire"
)

// A body is read ahead before its request takes a thread: a client that sends
// slowly then holds up nobody.
const (
	// aheadLimit is how much of one body is read ahead. Nearly every form and
	// call is smaller; of an upload the rest comes at the worker's pace.
	aheadLimit = 1 << 20
	// aheadTotal is how much all requests of a release may hold so; the bodies
	// of those beyond are read by the worker.
	aheadTotal = 64 << 20
	// aheadPart is the least that is read at once.
	aheadPart = 16 << 10
)

// aheadBody is a body whose first part is in memory.
type aheadBody struct {
	ahead bytes.Reader
	rest  io.Reader // the body itself
}

func (b *aheadBody) Read(p []byte) (int, error) {
	if b.ahead.Len() > 0 {
		return b.ahead.Read(p)
	}
	return b.rest.Read(p)
}

// SetReadDeadline interrupts the rest, if that can be interrupted.
func (b *aheadBody) SetReadDeadline(t time.Time) error {
	if body, ok := b.rest.(interface{ SetReadDeadline(time.Time) error }); ok {
		return body.SetReadDeadline(t)
	}
	return errors.ErrUnsupported
}

// readAhead reads the first part of q's body and puts it in its place; held is
// what that takes of aheadTotal. The error is a [*wire.BodyError].
//
// Not read ahead are a body of unknown length, whose client may wait for an
// answer before it sends more; one that the client sends only when asked, so
// that the application can refuse it unseen; and what an external server
// without a bound on its requests gets, since it has no threads of ours.
func (r *release) readAhead(q *request) (held int64, err error) {
	x := q.x
	if _, done := x.Body.(*aheadBody); done || x.Length <= 0 || r.unbounded || x.Upgrade || expectsContinue(x) {
		return 0, nil
	}
	want := int(min(x.Length, aheadLimit))
	var data []byte
	for len(data) < want {
		if len(data) == cap(data) {
			grow := min(max(len(data), aheadPart), want-len(data))
			if r.ahead.Add(int64(grow)) > aheadTotal {
				r.ahead.Add(int64(-grow))
				break
			}
			held += int64(grow)
			larger := make([]byte, len(data), len(data)+grow) // append would take more than is counted
			copy(larger, data)
			data = larger
		}
		n, err := x.Body.Read(data[len(data):min(cap(data), want)])
		data = data[:len(data)+n]
		if err != nil && len(data) < want {
			return held, &wire.BodyError{Err: shortBody(err)}
		}
	}
	if len(data) > 0 {
		b := &aheadBody{rest: x.Body}
		b.ahead.Reset(data)
		x.Body = b // also for whoever gets it when this release is leaving
	}
	return held, nil
}

// shortBody says that a body ended too early.
func shortBody(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// expectsContinue reports whether the client sends the body only when asked.
func expectsContinue(x *muru.Exchange) bool {
	return slices.ContainsFunc(x.Header, func(f muru.Field) bool { return f.Name == "Expect" })
}
