package edge

import (
	"strconv"
	"strings"
	"time"

	"muru"
)

// An assignment is what a muru_sticky cookie says: the release a client was
// given, in which rollout, and the share the candidate had then. Its text is
// shop@r6.7.1000. It is the client's word, not ours: everything in it is
// checked against the routing before it counts.
type assignment struct {
	release muru.ReleaseID
	rollout int
	share   muru.Share
}

func (a assignment) String() string {
	return a.release.String() + "." + strconv.Itoa(a.rollout) + "." + strconv.Itoa(int(a.share))
}

// parseAssignment accepts only what String prints.
func parseAssignment(text string) (assignment, bool) {
	if len(text) > 128 {
		return assignment{}, false
	}
	release, rest, ok := strings.Cut(text, ".")
	rollout, share, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 {
		return assignment{}, false
	}
	var a assignment
	var err, err2, err3 error
	a.release, err = muru.ParseReleaseID(release, "")
	a.rollout, err2 = strconv.Atoi(rollout)
	s, err3 := strconv.Atoi(share)
	a.share = muru.Share(s)
	if err != nil || err2 != nil || err3 != nil || a.rollout < 0 || s < 0 || s > muru.Buckets {
		return assignment{}, false
	}
	return a, a.String() == text
}

// stickyAssignment returns the assignment that the client's cookies hold for
// this app and that is still honoured: its release has a share, or it is
// listed as honoured and its time has not passed. On anything else the client
// is new.
func (s *state) stickyAssignment(cookies []string, now time.Time) (assignment, bool) {
	var found assignment
	ok := false
	cookieValues(cookies, stickyCookie, func(value string) bool {
		found, ok = parseAssignment(value)
		ok = ok && found.release.App == s.routing.Route.App && s.honours(found.release, now)
		return !ok
	})
	return found, ok
}

func (s *state) honours(id muru.ReleaseID, now time.Time) bool {
	if s.targets[id] == nil {
		return false
	}
	if share, in := s.routing.Split.Share(id); in && share > 0 {
		return true
	}
	for _, h := range s.routing.Honoured {
		if h.Release == id {
			return now.Before(h.Until)
		}
	}
	return false
}

// counts reports whether an honoured assignment is one of the rollout that is
// going on, or of the time without one. A share over the candidate's cannot
// have been given by it (shares only go up within a rollout).
func (s *state) counts(a assignment) bool {
	return a.rollout == s.routing.Rollout && a.share <= candidateShare(s.routing.Split)
}

// candidateShare returns the share of the release being tried, 0 if none is.
func candidateShare(s muru.Split) muru.Share {
	if len(s.Arms) < 2 {
		return 0
	}
	return s.Arms[0].Share
}
