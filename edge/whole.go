package edge

import "sync"

// An answer whose body is there in one piece goes to the client with one
// write. net/http makes two or three of it, since its buffer holds 4 KB, and
// each is a system call and a packet. Below, it needs one by itself; above,
// the copy costs more than the write it saves.
const (
	wholeFrom = 3 << 10
	wholeTo   = 32 << 10
)

var wholes = sync.Pool{New: func() any {
	b := make([]byte, 0, wholeTo+4<<10)
	return &b
}}

// pass gives a part of the body to net/http.
func (a *answer) pass(p []byte) (int, error) {
	q := a.q
	size := len(p)
	// While a body is being read, another goroutine may write: 100 Continue.
	if q.conn == nil || q.body.from != nil || int64(size) != a.length || size < wholeFrom || size > wholeTo {
		return q.w.Write(p)
	}
	held := wholes.Get().(*[]byte)
	q.conn.held = held
	n, err := q.w.Write(p)
	if err == nil {
		if f, ok := q.w.(interface{ FlushError() error }); ok {
			err = f.FlushError()
		}
	}
	q.conn.held = nil
	if err == nil && len(*held) > 0 {
		_, err = q.conn.Write(*held) // an error cuts the connection: some of it may be out
	}
	if cap(*held) <= 2*wholeTo {
		*held = (*held)[:0]
		wholes.Put(held)
	}
	return n, err
}
