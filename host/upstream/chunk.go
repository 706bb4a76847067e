package upstream

import (
	"bytes"
	"io"
	"strings"

	"muru"
)

// Limits of the chunked coding. A chunk's line may have extensions, which
// mean nothing to us; maxOverhead bounds what a body may spend on lines
// beyond 16 bytes a chunk and twice its data.
const (
	maxChunkLine = 4 << 10
	maxOverhead  = 16 << 10
	maxTrailer   = 32 << 10
)

// readChunks passes on a chunked body and returns its trailer fields.
func (k *call) readChunks() ([]muru.Field, error) {
	overhead := int64(0)
	for {
		line, err := k.readLine(maxChunkLine)
		if err != nil {
			return nil, err
		}
		size, err := parseChunkLine(line)
		if err != nil {
			return nil, err
		}
		overhead = max(0, overhead+int64(len(line))+2-16-2*size)
		if overhead > maxOverhead {
			return nil, malformed("a chunked body of little but chunk lines")
		}
		if size == 0 {
			return k.readTrailer()
		}
		if err := k.passOn(size); err != nil {
			return nil, err
		}
		for k.c.w-k.c.r < 2 {
			if err := k.more(); err != nil {
				return nil, err
			}
		}
		if !bytes.HasPrefix(k.c.buffered(), []byte("\r\n")) {
			return nil, malformed("a chunk longer than its size")
		}
		k.c.r += 2
	}
}

// readLine reads a line that ends in CRLF and has no other CR or LF, and
// returns it without its end. It is valid until the next read.
func (k *call) readLine(limit int) ([]byte, error) {
	c := k.c
	for seen := 0; ; {
		b := c.buffered()
		end := bytes.IndexByte(b[seen:], '\n')
		if end >= 0 {
			seen += end
		} else {
			seen = len(b)
		}
		if seen > limit {
			return nil, malformed("chunked coding: lines of more than %d bytes", limit)
		}
		if end >= 0 {
			if seen == 0 || bytes.IndexByte(b[:seen], '\r') != seen-1 {
				return nil, malformed("chunked coding: a line without CRLF: %.60q", b[:min(seen, 60)])
			}
			c.r += seen + 1
			return b[:seen-1], nil
		}
		if err := k.more(); err != nil {
			return nil, err
		}
	}
}

// parseChunkLine parses a chunk's size; extensions are checked for control
// characters and dropped.
func parseChunkLine(line []byte) (int64, error) {
	bad := func() (int64, error) { return 0, malformed("chunked coding: not a chunk's size: %.60q", line) }
	size, digits := int64(0), 0
	for ; digits < len(line); digits++ {
		d := hexDigit(line[digits])
		if d < 0 {
			break
		}
		if digits == 15 { // below 2⁶⁰, so sums stay in range
			return bad()
		}
		size = size<<4 | int64(d)
	}
	if digits == 0 {
		return bad()
	}
	// White space may pad a size, but not come before an extension: RFC 9112
	// lets it, others do not understand it.
	rest := line[digits:]
	if len(rest) > 0 && rest[0] != ';' && len(bytes.Trim(rest, " \t")) > 0 {
		return bad()
	}
	for _, c := range rest {
		if c < ' ' && c != '\t' || c == 0x7f {
			return bad()
		}
	}
	return size, nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// readTrailer reads the fields after the last chunk. Those that would change
// how the message is read or where it goes are dropped.
func (k *call) readTrailer() ([]muru.Field, error) {
	var fields []muru.Field
	for total, n := 0, 0; ; n++ {
		line, err := k.readLine(maxTrailer - total)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			return fields, nil
		}
		if n == maxFields {
			return nil, malformed("more than %d trailer fields", maxFields)
		}
		total += len(line) + 2
		if total > maxTrailer {
			return nil, malformed("trailers of more than %d bytes", maxTrailer)
		}
		f, err := parseField(string(line))
		if err != nil {
			return nil, err
		}
		if trailerAllowed(f.Name) {
			fields = append(fields, f)
		}
	}
}

func trailerAllowed(name string) bool {
	switch name {
	case "Authorization", "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Range",
		"Content-Type", "Host", "Keep-Alive", "Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return !strings.HasPrefix(name, "Proxy-")
}

// unexpected makes the error of a connection that ended inside an answer.
func unexpected(err error, where string) error {
	if ae, ok := err.(*AnswerError); ok {
		return ae
	}
	if err == io.EOF {
		return &AnswerError{What: "the connection was closed " + where}
	}
	return &AnswerError{What: "the connection failed " + where, Err: err}
}
