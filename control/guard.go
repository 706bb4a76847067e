package control

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"muru"
)

// guard is around every request: who asks and may they, do the versions fit,
// is there room, and a panic ends that request only.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Done()
		defer func() {
			if p := recover(); p != nil {
				s.refuse(w, s.bug(r, p))
			}
		}()
		setVersion(w.Header(), s.options.Version)
		if err := identityOf(r.Context()).err; err != nil {
			s.refuse(w, err)
			return
		}
		if r.ContentLength != 0 {
			r.Body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), rc: http.NewResponseController(w)}
		}
		if err := checkVersion(r.Header, s.options.Version); err != nil {
			s.refuse(w, err)
			return
		}
		if r.URL.Path == "/metrics" || r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			next.ServeHTTP(w, r)
		default:
			s.refuse(w, muru.Errorf(muru.KindRefused, "muru is at work on %d requests already", maxRequests).
				WithHint("close some that only watch, and try again"))
		}
	})
}

// refuse answers with err and nothing else.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	answer(w, status(err), line{Kind: kindError, Error: toWire(err)})
}

// bug turns a panic into an error and reports it.
func (s *Server) bug(r *http.Request, value any) error {
	b := Bug{ID: bugID(), In: r.Method + " " + r.URL.Path, Value: value, Stack: debug.Stack()}
	if s.options.Bug != nil {
		s.options.Bug(b)
	}
	e := muru.Errorf(muru.KindFailed, "a bug in muru ended this request (bug %s)", b.ID).
		WithHint("report it with the lines of muru's log that name %s", b.ID)
	e.Err = fmt.Errorf("bug %s: panic: %v", b.ID, value)
	return e
}

func bugID() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// answer writes one JSON answer.
func answer(w http.ResponseWriter, status int, l any) {
	text, err := marshal(l)
	if err != nil {
		status = http.StatusInternalServerError
		text, _ = line{Kind: kindError, Error: toWire(err)}.encode()
	}
	// A client that takes nothing must not keep us; a failure to set the
	// deadline shows in the write.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client is gone: there is nobody to tell
}

// status returns the HTTP status for an error that is all of an answer.
func status(err error) int {
	if errors.Is(err, ErrStopping) {
		return http.StatusServiceUnavailable
	}
	switch KindOf(err) {
	case muru.KindUsage:
		return http.StatusBadRequest
	case muru.KindDenied:
		return http.StatusForbidden
	case muru.KindNotFound:
		return http.StatusNotFound
	case muru.KindRefused:
		return http.StatusConflict
	case muru.KindTimeout:
		return http.StatusGatewayTimeout
	case muru.KindFailed:
		return http.StatusInternalServerError
	}
	return http.StatusUnprocessableEntity
}

// A body is a request's, with a bound on the time that it may take. The bound
// is lifted when the end is read: from then on the server reads on its own,
// to notice that the client goes away.
type body struct {
	io.ReadCloser
	rc  *http.ResponseController
	set bool
}

func (b *body) Read(p []byte) (int, error) {
	if !b.set {
		b.set = true
		if err := b.rc.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.rc.SetReadDeadline(time.Time{}) // the connection is gone: that shows soon
	}
	return n, err
}
