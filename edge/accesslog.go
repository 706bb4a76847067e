package edge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
)

const (
	// accessFlush is how old a line may be before it is in the file.
	accessFlush = time.Second
	// accessText bounds what a line holds of each thing the client chose.
	accessText = 2048
)

// An accessLog writes one JSON line for each request. Lines are gathered and
// written at least every accessFlush while the edge serves; otherwise at once.
// Nothing secret is in a line: no cookie, no header, no query. What net/http
// answers by itself, because the head cannot be parsed, has no line.
type accessLog struct {
	out *bufio.Writer // nil: no log

	mu       sync.Mutex // guards what out has, and what follows
	flushing bool
}

func newAccessLog(w io.Writer) *accessLog {
	l := &accessLog{}
	if w != nil {
		l.out = bufio.NewWriterSize(w, 64<<10)
	}
	return l
}

// write takes one line. A log that cannot be written must not stop the
// requests it is about.
func (l *accessLog) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(line) > l.out.Available() {
		_ = l.out.Flush() // whole lines at a time: the file may be rotated between two writes
	}
	_, err := l.out.Write(line)
	if err == nil && !l.flushing {
		_ = l.out.Flush()
	}
}

func (l *accessLog) flush() {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.out.Flush()
}

// startFlushing gathers lines from now on; the function it returns ends that.
func (l *accessLog) startFlushing() (stop func()) {
	if l.out == nil {
		return func() {}
	}
	l.setFlushing(true)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(accessFlush)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				l.flush()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		l.setFlushing(false)
		l.flush()
	}
}

func (l *accessLog) setFlushing(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushing = on
}

// request writes the line of a request that has ended. It is written by hand,
// in the form of slog's JSON handler, which costs five times as much.
func (l *accessLog) request(q *request, now time.Time) {
	if l.out == nil {
		return
	}
	buffer := accessLines.Get().(*[]byte)
	line := append((*buffer)[:0], `{"time":"`...)
	line = now.UTC().AppendFormat(line, time.RFC3339Nano)
	line = append(line, `","level":"INFO","msg":"request"`...)
	line = appendText(line, "id", q.id)
	if q.state != nil {
		line = appendText(line, "app", q.state.routing.Route.App)
	}
	if q.choice.target != nil {
		line = appendText(line, "release", q.choice.release.Name())
	}
	line = appendText(line, "method", clip(q.r.Method))
	line = appendText(line, "host", clip(q.r.Host))
	line = appendText(line, "path", clip(q.r.URL.EscapedPath()))
	line = appendNumber(line, "status", int64(q.status))
	if q.reason != 0 {
		line = appendText(line, "reason", q.reason.String())
	}
	line = appendMilliseconds(line, "duration_ms", now.Sub(q.arrived))
	line = appendMilliseconds(line, "queue_ms", q.queueWait())
	line = appendNumber(line, "bytes_in", q.bytesIn())
	line = appendNumber(line, "bytes_out", q.bytesOut())
	line = appendText(line, "client", q.address)
	if q.choice.preview {
		line = append(line, `,"preview":true`...)
	}
	switch {
	case q.shielded:
		line = append(line, `,"shielded":true`...)
	case q.rescuer != nil:
		line = append(line, `,"rescued":true`...)
	}
	line = append(line, "}\n"...)
	l.write(line)
	*buffer = line
	accessLines.Put(buffer)
}

// accessLines are buffers for one line each.
var accessLines = sync.Pool{New: func() any { return new([]byte) }}

// appendText adds a member whose value may need quoting; most need none.
func appendText(line []byte, name, value string) []byte {
	line = appendName(line, name)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return appendQuoted(line, value)
		}
	}
	line = append(line, '"')
	line = append(line, value...)
	return append(line, '"')
}

func appendQuoted(line []byte, value string) []byte {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // of a string there is no error
	return append(line, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

func appendNumber(line []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(line, name), n, 10)
}

// appendMilliseconds rounds down to a microsecond, which is what a clock is
// good for.
func appendMilliseconds(line []byte, name string, d time.Duration) []byte {
	micros := max(0, d.Microseconds())
	line = appendNumber(line, name, micros/1000)
	if rest := micros % 1000; rest > 0 {
		line = append(line, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
		line = bytes.TrimRight(line, "0")
	}
	return line
}

func appendName(line []byte, name string) []byte {
	line = append(line, ',', '"')
	line = append(line, name...)
	return append(line, '"', ':')
}

func clip(text string) string { return text[:min(len(text), accessText)] }
