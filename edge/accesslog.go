package edge

import (
	"bufio"
	"context"
	"io"
	"log/slog"
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
	handler slog.Handler // nil: no log

	mu       sync.Mutex // guards what follows
	out      *bufio.Writer
	flushing bool
}

func newAccessLog(w io.Writer) *accessLog {
	l := &accessLog{}
	if w != nil {
		l.out = bufio.NewWriterSize(w, 64<<10)
		l.handler = slog.NewJSONHandler(l, nil)
	}
	return l
}

// Write takes one line from the handler.
func (l *accessLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.out.Write(line)
	if err == nil && !l.flushing {
		err = l.out.Flush()
	}
	return n, err
}

func (l *accessLog) flush() {
	if l.handler == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A log that cannot be written must not stop the requests it is about.
	_ = l.out.Flush()
}

// startFlushing gathers lines from now on; the function it returns ends that.
func (l *accessLog) startFlushing() (stop func()) {
	if l.handler == nil {
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

// request writes the line of a request that has ended.
func (l *accessLog) request(q *request, now time.Time) {
	if l.handler == nil {
		return
	}
	record := slog.NewRecord(now.UTC(), slog.LevelInfo, "request", 0)
	attrs := make([]slog.Attr, 0, 18)
	attrs = append(attrs, slog.String("id", q.id))
	if q.state != nil {
		attrs = append(attrs, slog.String("app", q.state.routing.Route.App))
	}
	if q.choice.target != nil {
		attrs = append(attrs, slog.String("release", q.choice.release.Name()))
	}
	attrs = append(attrs,
		slog.String("method", clip(q.r.Method)),
		slog.String("host", clip(q.r.Host)),
		slog.String("path", clip(q.r.URL.EscapedPath())),
		slog.Int("status", q.status),
	)
	if q.reason != 0 {
		attrs = append(attrs, slog.String("reason", q.reason.String()))
	}
	attrs = append(attrs,
		slog.Float64("duration_ms", milliseconds(now.Sub(q.arrived))),
		slog.Float64("queue_ms", milliseconds(q.queueWait())),
		slog.Int64("bytes_in", q.bytesIn()),
		slog.Int64("bytes_out", q.bytesOut()),
		slog.String("client", q.address),
	)
	if q.choice.preview {
		attrs = append(attrs, slog.Bool("preview", true))
	}
	if q.rescuer != nil {
		attrs = append(attrs, slog.Bool("rescued", true))
	}
	record.AddAttrs(attrs...)
	_ = l.handler.Handle(context.Background(), record)
}

func clip(text string) string { return text[:min(len(text), accessText)] }

// milliseconds rounds to a microsecond, which is what a clock is good for.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
