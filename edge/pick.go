package edge

import (
	"time"

	"muru"
)

// A choice is the release that a request was picked for, and what follows
// from how it was picked.
type choice struct {
	release muru.ReleaseID
	target  *target     // nil when reason says why there is none
	reason  muru.Reason // ReasonNone, ReasonNoSuchRelease or ReasonNoRelease
	preview bool

	randomised bool       // makes a Fact, with the three below
	share      muru.Share // of the candidate when the client was assigned
	client     uint64
	alone      bool // the client is a unit of its own: nothing ties its next request to it
	copied     bool // the client is one of those whose requests have shadow copies

	mint   string // muru_id to set, empty if none
	sticky string // muru_sticky to set, empty if none
}

// pick decides which release gets a client's request, by the precedence of
// the package's documentation. It changes nothing but c.minted.
func (s *state) pick(c *client, requestID string, now time.Time) choice {
	if id, wanted := s.preview(c.header); wanted {
		ch := choice{release: id, target: s.targets[id], preview: true}
		if ch.target == nil {
			ch.reason = muru.ReasonNoSuchRelease
		}
		return ch
	}
	if s.routing.Route.Sticky > 0 {
		if a, ok := s.stickyAssignment(c.header["Cookie"], now); ok {
			ch := choice{release: a.release, target: s.targets[a.release]}
			if s.counts(a) {
				id := s.identify(&ch, c, requestID)
				ch.share = a.share
				if s.routing.Shadow != nil {
					ch.copied = s.copies(a.release, bucketOf(s.routing.Route.App, s.routing.Split.Salt, id))
				}
			}
			return ch
		}
	}
	ch := choice{}
	bucket := 0
	if id := s.identify(&ch, c, requestID); id != "" && s.divided {
		bucket = bucketOf(s.routing.Route.App, s.routing.Split.Salt, id)
	}
	ch.share = candidateShare(s.routing.Split)
	var serves bool
	ch.release, serves = s.routing.Split.Pick(bucket)
	ch.target = s.targets[ch.release]
	if !serves || ch.target == nil {
		return choice{reason: muru.ReasonNoRelease}
	}
	ch.copied = s.copies(ch.release, bucket)
	if s.routing.Route.Sticky > 0 {
		ch.sticky = assignment{ch.release, s.routing.Rollout, ch.share}.String()
	}
	return ch
}

// identify makes ch one of an identified client and returns the client's id.
// Where only one release has a share, ids decide nothing and none is minted;
// a judge (of a step at 100%, or of what serves) then counts a client without
// one as a unit of its own.
func (s *state) identify(ch *choice, c *client, requestID string) string {
	if !s.divided && s.judge == nil {
		return ""
	}
	id := c.identity(s.routing.Route.Key)
	switch {
	case id == "" && s.divided:
		id = c.mint()
		ch.mint, ch.alone = id, true
	case id == "":
		id = requestID
		ch.alone = true
	}
	ch.client = clientOf(s.routing.Route.App, id)
	ch.randomised = true
	return id
}
