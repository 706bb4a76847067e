package rollout

// Kinds of event of rollouts beside those of the root package.
const (
	kindQueued     = "rollout.queued"
	kindFrozen     = "rollout.frozen"
	kindSuperseded = "rollout.superseded"
	kindUnbalanced = "rollout.unbalanced"
)
