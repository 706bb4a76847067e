package builtins

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

// eventKinds are the kinds of events there are, by what they are about. They
// are those that muru may report, not only those that it has reported: a
// question about one that did not happen is answered with none.
var eventKinds = []string{
	muru.AppCreated, muru.AppChanged, muru.AppStopped, muru.AppRolledBack,
	muru.SplitChanged, "hold.started", "hold.ended",
	muru.ReleaseStarting, muru.ReleaseHeld, muru.ReleaseFailed, muru.ReleaseDraining, muru.ReleaseWarm,
	muru.ReleaseStopped, "release.scaled", "release.modified", muru.ReleasePromoted,
	muru.WorkerReadyEvent, muru.WorkerCrashed, muru.WorkerTimeoutKilled, muru.WorkerSlow, "worker.stuck",
	muru.WorkerGone, muru.WorkerBackoff, "worker.recycled", "worker.poison", "worker.adopted",
	muru.RolloutStarted, muru.RolloutQueued, muru.RolloutStep, muru.RolloutSlow, muru.RolloutGateFailed,
	muru.RolloutRolledBack, muru.RolloutFrozen, muru.RolloutBothBad, muru.RolloutNoData, muru.RolloutGateError,
	muru.RolloutUnbalanced, muru.RolloutAwaiting, muru.RolloutApproved, muru.RolloutPaused, muru.RolloutResumed,
	muru.RolloutPromoted, muru.RolloutAborted, muru.RolloutSuperseded, muru.RolloutRestored, muru.RolloutUnbound,
	muru.RunStarted, muru.RunFinished, muru.RunFailed, muru.RunCancelled, "run.resumed", "run.diverged",
	muru.DaemonStarted, muru.DaemonStops, "daemon.upgraded", muru.DaemonDiskFull, "edge.certificate",
}

// CheckEventKind refuses a kind, or a beginning of kinds with * behind it,
// that no event has: whoever filters by one would take the silence for good
// news. The error has kind usage and says what may have been meant.
func CheckEventKind(wanted string) error {
	if slices.ContainsFunc(eventKinds, func(kind string) bool { return muru.KindMatches(kind, wanted) }) {
		return nil
	}
	err := muru.Errorf(muru.KindUsage, "no event is of kind %q", wanted)
	if near := nearKind(wanted); near != "" {
		return err.WithHint("did you mean %q?", near)
	}
	var topics []string
	for _, kind := range eventKinds {
		topic, _, _ := strings.Cut(kind, ".")
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return err.WithHint("kinds are about %s and %s: write %q for all about one", strings.Join(topics[:len(topics)-1], ", "), topics[len(topics)-1], "rollout.*")
}

// nearKind is the kind, or all of a topic, that somebody who wrote wanted
// meant; empty if nothing is near. People leave the topic out, or write it
// alone.
func nearKind(wanted string) string {
	if near := muru.Suggest(wanted, eventKinds); near != "" {
		return near
	}
	topic, _, _ := strings.Cut(strings.TrimRight(wanted, "*"), ".")
	var topics, names []string
	for _, kind := range eventKinds {
		about, name, _ := strings.Cut(kind, ".")
		topics, names = append(topics, about), append(names, name)
	}
	if near := muru.Suggest(topic, topics); near != "" && (near != topic || strings.TrimRight(wanted, ".*") == topic) {
		return near + ".*"
	}
	if near := muru.Suggest(wanted, names); near != "" {
		return eventKinds[slices.Index(names, near)]
	}
	return ""
}

// kindType takes a kind of events, or a beginning with * behind it.
var kindType Type = typeOf{textType.String(), func(c *Call, v starlark.Value) (any, error) {
	text, err := textType.Convert(c, v)
	if err != nil {
		return nil, err
	}
	return text, CheckEventKind(text.(string))
}}
