package control

import (
	"context"
	"io"
	"net/http"
	"time"
)

// backupType is the content of a backup: the state file.
const backupType = "application/vnd.muru.state"

func (s *Server) gc(ctx context.Context, _ *http.Request) (any, error) {
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	report, err := s.options.Muru.GC(ctx)
	report.Releases, report.Rollouts = list(report.Releases), list(report.Rollouts)
	return report, err
}

// backup answers with the state file. An answer that could not be written to
// its end is cut, which a client sees: it has no length, but an end.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	ctx, end := s.begin(r)
	defer end(nil)
	out := &backupWriter{w: w, rc: http.NewResponseController(w), stall: s.options.stall}
	err := s.caught(r, func() error { return s.options.Muru.Backup(ctx, out) })
	switch {
	case err == nil:
	case !out.begun:
		s.refuse(w, worded(ctx, err))
	default:
		// Past the guard, which would take it for a bug.
		_ = out.rc.SetWriteDeadline(time.Now())
		out.cut()
	}
}

// A backupWriter sends the parts of a backup, each within the time that a
// client may stall.
type backupWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
	begun bool
}

func (b *backupWriter) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", backupType)
	}
	_ = b.rc.SetWriteDeadline(time.Now().Add(b.stall)) // a failure shows in the write
	return b.w.Write(p)
}

// cut ends the connection without the end of the answer.
func (b *backupWriter) cut() {
	if conn, _, err := b.rc.Hijack(); err == nil {
		conn.Close()
	}
}

// Backup implements [Muru].
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/backup", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
		if err != nil {
			return c.cut(ctx, err)
		}
		return c.refusal(resp, text)
	}
	from := &sourceReader{r: resp.Body}
	if _, err := io.Copy(w, from); err != nil {
		if from.err != nil {
			return c.cut(ctx, from.err)
		}
		return err // w's
	}
	return nil
}

// A sourceReader remembers the error of reading, to tell it from that of
// writing what was read.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
