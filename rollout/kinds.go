package rollout

// Kinds of event that only an engine on a store has.
const (
	kindRestored = "rollout.restored"
	kindUnbound  = "rollout.unbound"
	kindDiskFull = "daemon.disk_full"
)
