package edge

import (
	"context"
	"errors"

	"muru"
)

// reasonOf turns the cause that ended a request without an answer into the
// reason, and so the status, that it is answered with. It is the only place
// that does. A cause that is none of the agreed ones is a fault in the worker's
// path and counts as its crash.
func reasonOf(cause error) muru.Reason {
	for _, c := range causes {
		if errors.Is(cause, c.err) {
			return c.reason
		}
	}
	return muru.ReasonWorkerCrashed
}

// isKnownCause reports whether a cause is one of the agreed ones.
func isKnownCause(cause error) bool {
	for _, c := range causes {
		if errors.Is(cause, c.err) {
			return true
		}
	}
	return false
}

// causes are in order of precedence. A request cut by a drain found its
// release leaving, as one that came too late did. A bare context.Canceled is a
// backend handing back the end of the request's context: the client left.
var causes = []struct {
	err    error
	reason muru.Reason
}{
	{muru.ErrBodyTooLarge, muru.ReasonBodyTooLarge},
	{muru.ErrMalformedBody, muru.ReasonMalformed},
	{muru.ErrApp, muru.ReasonAppError},
	{muru.ErrWorkerDied, muru.ReasonWorkerCrashed},
	{muru.ErrHardTimeout, muru.ReasonHardTimeout},
	{muru.ErrQueueTimeout, muru.ReasonQueueTimeout},
	{muru.ErrQueueFull, muru.ReasonQueueFull},
	{muru.ErrDraining, muru.ReasonNoRelease},
	{muru.ErrDrainCut, muru.ReasonNoRelease},
	{muru.ErrClientGone, muru.ReasonClientGone},
	{context.Canceled, muru.ReasonClientGone},
}
