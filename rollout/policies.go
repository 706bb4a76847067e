package rollout

// OnFail says what a gate that fails does to its rollout.
type OnFail uint8

// The ways to act on a failing gate.
const (
	OnFailRollback OnFail = iota // take the candidate out at once
	OnFailFreeze                 // pause and keep the share: for changes that a rollback does not undo
)

func (o OnFail) String() string { return policyName(o, "rollback", "freeze") }

// OnConflict says what becomes of a rollout that is asked for while another of
// the app is live.
type OnConflict uint8

// The ways to solve it.
const (
	ConflictRefuse    OnConflict = iota // it is refused
	ConflictSupersede                   // the other one's candidate is taken out and this one starts
	ConflictQueue                       // it starts when the other one has ended
)

func (o OnConflict) String() string { return policyName(o, "refuse", "supersede", "queue") }

// Until says when a step is over.
type Until uint8

// The ends of a step.
const (
	UntilHold      Until = iota // its hold is over and it had its minimum of requests
	UntilConfident              // the candidate is proven to be no worse, see [sequential]
)

func (u Until) String() string { return policyName(u, "hold", "confident") }

// policyName names the value of a policy; one that is none has no name.
func policyName[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "policy(?)"
}
