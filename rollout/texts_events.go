package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"muru"
)

// The texts of events, see texts.go.

func eventAppCreated(r muru.Route) string {
	hosts, path := "*", r.Path
	if len(r.Hosts) > 0 {
		hosts = strings.Join(r.Hosts, ",")
	}
	if path == "" {
		path = "/"
	}
	return hosts + path
}

func eventAppChanged(keyword, was, is, who string) string {
	return fmt.Sprintf("%s: %s to %s by %s", keyword, was, is, who)
}

func eventAppStopped(who string, n int) string {
	if n == 1 {
		return fmt.Sprintf("by %s: 1 release", who)
	}
	return fmt.Sprintf("by %s: %d releases", who, n)
}

func eventAppRolledBack(from, to muru.ReleaseID, who, reason string) string {
	return because(fmt.Sprintf("from %s to %s by %s", from.Name(), to.Name(), who), reason)
}

func eventSplitChanged(s muru.Split, who string) string { return fmt.Sprintf("%s by %s", s, who) }

func eventStarting(p muru.ReleasePlan) string {
	source := p.Source
	if p.Kind == muru.External {
		source = p.Upstream
	}
	return fmt.Sprintf("%s from %s: %d workers x %d threads", p.Kind, source, p.Workers, p.Threads)
}

const eventHeld = "ready and held: not serving"

func eventFailedToStart(cause string) string { return "failed to start: " + cause }

func eventDraining(requests, streams, websockets int) string {
	return fmt.Sprintf("%d requests, %d streams, %d websockets open", requests, streams, websockets)
}

func eventWarm(took time.Duration, d muru.Drained) string {
	return fmt.Sprintf("drained in %s, cut %d requests, %d streams, %d websockets",
		muru.FormatMeasured(took), d.Requests, d.Streams, d.WebSockets)
}

func eventStopped(who string) string { return "by " + who }

func eventPromoted(id, old muru.ReleaseID, who, reason string) string {
	return because(fmt.Sprintf("100%% of %s by %s", id.App, who)+keptWarm(", ", old), reason)
}

// eventRolloutStarted says the plan, and how many percent of such rollouts of a
// good release would fail; 0 where nobody can say.
func eventRolloutStarted(r muru.Rollout, alarms float64) string {
	plans := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		plans[i] = s.Plan()
	}
	text := fmt.Sprintf("rollout %d against %s: %s", r.Number, r.Baseline.Name(), strings.Join(plans, ", "))
	if alarms > 0 {
		text += fmt.Sprintf("; at most %s%% false alarms", strconv.FormatFloat(math.Round(100*alarms)/100, 'f', -1, 64))
	}
	return text
}

func eventSlow(perMinute float64, s place, needs time.Duration, least int) string {
	rate := fmt.Sprintf("%.0f", perMinute)
	if perMinute < 10 {
		rate = fmt.Sprintf("%.1f", perMinute)
	}
	return fmt.Sprintf("at %s requests/min a %s step needs about %s for %d requests: use probes, a higher step or traffic()",
		rate, s, biggestUnit(needs), least)
}

// biggestUnit prints a duration in its biggest unit, cut down: 16 h.
func biggestUnit(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// eventAtStep begins the events that say what was seen in a step.
func eventAtStep(k int, s place, text string) string {
	return fmt.Sprintf("step %d at %s: %s", k, s, text)
}

func eventBothBad(what string, candidate, baseline, limit muru.Measure) string {
	return fmt.Sprintf("%s %s and baseline %s are both over the limit of %s: not the candidate's fault, not rolled back",
		what, candidate, baseline, limit)
}

func eventNoData(missing string, policy muru.NoData) string {
	what := "asking for approval"
	if policy == muru.NoDataRollback {
		what = "rolling back"
	}
	return fmt.Sprintf("%s: %s", missing, what)
}

func eventGateError(gate, what string) string {
	return fmt.Sprintf("%s: %s; asked again every second", gate, what)
}

// eventRollout is the form of most of a rollout's events.
func eventRollout(number int, message string) string {
	return fmt.Sprintf("rollout %d: %s", number, message)
}

func eventRolledBack(number int, message string) string {
	return eventRollout(number, message) + "; the candidate is kept for inspection"
}

// textShielded says how many of a candidate's failures its users did not see.
func textShielded(failures, shielded int) string {
	return fmt.Sprintf("; %d of %d failures shielded", shielded, failures)
}

// eventApproved names what was approved, and what the gates said when they
// were asked again: a person may go on without proof.
func eventApproved(number int, what, who string, gates muru.Result) string {
	return fmt.Sprintf("rollout %d: %s by %s; gates asked again: %s", number, what, who, gates)
}

func eventPaused(number int, who string, s place, reason string) string {
	return fmt.Sprintf("rollout %d %s", number, messageBy(who, s, reason))
}

// eventRestored says that a rollout goes on after a restart.
func eventRestored(number int, s muru.Step) string {
	return fmt.Sprintf("rollout %d goes on after a restart: %s, %s of %s served", number, s,
		muru.FormatMeasured(s.Elapsed), muru.FormatDuration(s.Hold))
}

// eventUnbound says that a gate has lost its function until its recipe is
// there again; run is 0 for what no recipe started.
func eventUnbound(number int, gate string, run int) string {
	text := fmt.Sprintf("rollout %d: gate %s waits for its recipe", number, gate)
	if run != 0 {
		text += fmt.Sprintf(", run %d", run)
	}
	return text
}

func eventDiskFull(path string) string {
	if path == "" {
		path = "the state"
	}
	return path + ": changes are refused, traffic goes on"
}

// Restarts.

const (
	causeStoppedWhileStarting = "muru stopped while it started"
	messageStoppedWhileDrain  = "muru stopped while it drained"
)

func messageArmFailed(which string, id muru.ReleaseID, cause string) string {
	return fmt.Sprintf("%s %s did not start again: %s", which, id.Name(), cause)
}

func eventRunStarted(file, args, who string) string {
	if args != "" {
		file += " " + args
	}
	return file + " by " + who
}

func eventRunFinished(took time.Duration) string { return "in " + muru.FormatMeasured(took) }

// eventRunEnded is run.failed and run.cancelled: why, and what was put back.
func eventRunEnded(why string, released []string) string {
	why, _, _ = strings.Cut(why, "\n")
	if len(released) == 0 {
		return why
	}
	return why + "; " + strings.Join(released, ", ")
}

func releasedRollout(number int) string { return fmt.Sprintf("aborted rollout %d", number) }
func frozenRollout(number int) string   { return fmt.Sprintf("froze rollout %d", number) }
func releasedSplit(app string) string   { return app + " split put back" }
