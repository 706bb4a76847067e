package edge

import "bytes"

// lengthField is how a line with a body's length begins.
const lengthField = "content-length"

// A lengthScan looks for a Content-Length line in what a client sends. net/http
// takes it off a request that has Transfer-Encoding, too, and keeps the
// connection; but whoever is between the client and us may have believed the
// length, and then takes the rest of the body for the next request (RFC 9112,
// section 6.1: answer by the coding, and close). So a chunked request on a
// connection that a length has been seen on is its last one.
//
// That is more than needed: the length may have been an earlier request's, or
// stand in a body. Who is closed upon without need connects again.
type lengthScan struct {
	seen    bool
	matched int // bytes of the line's beginning that the last part ended with
}

// look scans the next part, which may begin and end anywhere.
func (s *lengthScan) look(p []byte) {
	for !s.seen && len(p) > 0 {
		if s.matched == 0 {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				return
			}
			p, s.matched = p[i+1:], 1
			continue
		}
		c := p[0]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch {
		case c == lengthField[s.matched-1]:
			s.matched++
			s.seen = s.matched > len(lengthField)
		case c == '\n':
			s.matched = 1
		default:
			s.matched = 0
		}
		p = p[1:]
	}
}

// ambiguous reports whether the request may have been framed in two ways. It
// is asked before anything of its body is read: behind a request without one
// net/http is reading the connection already, so lengths is not ours then.
func (q *request) ambiguous() bool {
	return q.conn != nil && len(q.r.TransferEncoding) > 0 && q.conn.lengths.seen
}
