package muru

import (
	"context"
	"errors"
	"time"
)

// A Fact is what happened to one randomised request: one whose release was
// picked by the split, or by a sticky cookie assigned in this rollout.
// Previews and probes are never randomised and make no Fact.
type Fact struct {
	App        string
	Release    ReleaseID // that was picked, whoever answered in the end
	Generation uint64    // of the Routing it was picked under
	Share      Share     // of the candidate when the client was assigned
	Client     uint64    // hash of the client's identity
	Minted     bool      // the identity was made for this request: the client is a unit of its own
	Arrived    time.Time
	Status     int           // as the client saw it, or would have if not Shielded; 499 when it had gone; 0 in Overdue
	Reason     Reason        // why muru answered itself, ReasonNone when the app answered
	Duration   time.Duration // until complete, for streams and upgrades until the head
	QueueWait  time.Duration
	Stream     bool
	Marks      []string // those of [Routing] Marks that the answer's head carried, as they are written there; not to be changed
	Shielded   bool     // the baseline was asked in the place of this failure: see [Routing] Shield
}

// A Sink takes the facts of randomised requests for judging. Its methods are
// safe for concurrent use and return quickly: they are on the request path.
type Sink interface {
	// Done is called exactly once for each request, when it has ended.
	Done(Fact)
	// Overdue is called at most once per request and threshold, when the
	// threshold passes before the request is answered, whoever left; a
	// request that ends slower than a threshold is overdue too. It comes
	// before Done, or after it when the client left and no answer ever came.
	Overdue(Fact, Threshold)
	// Pair is called for a request of which a shadow copy was sent (see
	// [Shadow]), when both have ended: user is the fact of the request that
	// the baseline answered, shadow that of the candidate's outcome. Neither is
	// given to Done or Overdue. A request whose copy never reached the
	// candidate is an ordinary one, and given to those.
	Pair(user, shadow Fact)
}

// Quantity says which of a request's times is meant.
type Quantity uint8

// The two times of a request.
const (
	OfDuration  Quantity = iota // from its arrival until it is complete
	OfQueueWait                 // from its arrival until a worker has it
)

func (q Quantity) String() string { return enumName([]string{"duration", "queue_wait"}, q, "Quantity") }

// A Threshold is a time that a judge wants to hear of when it passes.
type Threshold struct {
	Of    Quantity
	After time.Duration
}

// A Harm is something that counts against a release without being a request.
type Harm uint8

// The harms, all counted by the crashes gate.
const (
	HarmCrash   Harm = iota // a worker died, or an upstream reset
	HarmTimeout             // a worker was replaced by its hard timeout
	HarmStuck               // a worker was replaced because all were stuck
)

func (h Harm) String() string { return enumName([]string{"crash", "timeout", "stuck"}, h, "Harm") }

// A Reporter takes upward facts that are no request's. Both methods are safe
// for concurrent use and return quickly.
type Reporter interface {
	// Report adds an event to the log, which numbers and times it.
	Report(Event)
	// Harm counts against id at the moment of the decision or death; the
	// event that describes it may follow later.
	Harm(id ReleaseID, h Harm)
}

// A Reason is the cause of an answer that muru made itself, as its pages,
// logs and counters name it.
type Reason uint8

// The reasons, in the order of their documentation.
const (
	ReasonNone Reason = iota // the application answered
	ReasonAppError
	ReasonWorkerCrashed
	ReasonHardTimeout
	ReasonQueueTimeout
	ReasonQueueFull
	ReasonNoRelease
	ReasonNoRoute
	ReasonNoSuchRelease
	ReasonMaintenance
	ReasonMalformed
	ReasonBodyTooSlow
	ReasonBodyTooLarge
	ReasonHeaderTooLarge
	ReasonClientGone
)

type reasonText struct {
	name     string
	status   int
	sentence string
}

var reasons = [...]reasonText{
	ReasonNone:           {"", 0, ""},
	ReasonAppError:       {"app_error", 500, "The application raised an exception."},
	ReasonWorkerCrashed:  {"worker_crashed", 502, "The worker answering this request died."},
	ReasonHardTimeout:    {"hard_timeout", 504, "The request ran past its time limit."},
	ReasonQueueTimeout:   {"queue_timeout", 503, "No worker was free in time."},
	ReasonQueueFull:      {"queue_full", 503, "Too many requests are waiting."},
	ReasonNoRelease:      {"no_release", 503, "Nothing is serving this application."},
	ReasonNoRoute:        {"no_route", 404, "No application is served here."},
	ReasonNoSuchRelease:  {"no_such_release", 404, "There is no such release."},
	ReasonMaintenance:    {"maintenance", 503, ""},
	ReasonMalformed:      {"malformed", 400, "The request cannot be understood."},
	ReasonBodyTooSlow:    {"body_too_slow", 408, "The request's body came too slowly."},
	ReasonBodyTooLarge:   {"body_too_large", 413, "The request's body is too large."},
	ReasonHeaderTooLarge: {"header_too_large", 431, "The request's header is too large."},
	ReasonClientGone:     {"client_gone", 499, ""},
}

func (r Reason) text() reasonText {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return reasons[ReasonNone]
}

// String returns the reason's name, such as app_error; empty for ReasonNone.
func (r Reason) String() string { return r.text().name }

// Status returns the HTTP status the reason is answered with, 0 for ReasonNone.
func (r Reason) Status() int { return r.text().status }

// Sentence returns what the page says; empty for ReasonMaintenance (the app's
// own text) and for reasons that have no page.
func (r Reason) Sentence() string { return r.text().sentence }

// ReasonOf turns the cause that ended a request without an answer into the
// reason, and so the status, that it is answered with. It is the only place
// that does. known is false for a cause that is none of the agreed ones: a
// fault in the worker's path, which counts as its crash.
func ReasonOf(cause error) (r Reason, known bool) {
	for _, c := range causes {
		if errors.Is(cause, c.err) {
			return c.reason, true
		}
	}
	return ReasonWorkerCrashed, false
}

// causes are in order of precedence. A request cut by a drain found its
// release leaving, as one that came too late did. A bare context.Canceled is a
// backend handing back the end of the request's context: the client left.
var causes = []struct {
	err    error
	reason Reason
}{
	{ErrBodyTooLarge, ReasonBodyTooLarge},
	{ErrMalformedBody, ReasonMalformed},
	{ErrBodyTooSlow, ReasonBodyTooSlow},
	{ErrApp, ReasonAppError},
	{ErrWorkerDied, ReasonWorkerCrashed},
	{ErrHardTimeout, ReasonHardTimeout},
	{ErrQueueTimeout, ReasonQueueTimeout},
	{ErrQueueFull, ReasonQueueFull},
	{ErrDraining, ReasonNoRelease},
	{ErrDrainCut, ReasonNoRelease},
	{ErrClientGone, ReasonClientGone},
	{context.Canceled, ReasonClientGone},
}
