package rollout

// Kinds of event beside those of the root package.
const (
	kindRestored = "rollout.restored"
	kindUnbound  = "rollout.unbound"
	kindDiskFull = "daemon.disk_full"

	kindQueued     = "rollout.queued"
	kindFrozen     = "rollout.frozen"
	kindSuperseded = "rollout.superseded"
	kindUnbalanced = "rollout.unbalanced"
)
