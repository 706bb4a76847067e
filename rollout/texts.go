package rollout

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muru"
)

// Every text the engine says to people is made here: reports of calls,
// messages of rollouts, what gates say, and events. The parts {S}, {%}, {H}
// and {t} of the documentation are Share.String, FormatRate, FormatDuration
// and FormatMeasured. A name like r5 stands for a release where the app is
// already named, shop@r5 elsewhere.

// A place is where a rollout is, as its texts name it: at a share, or at one
// of which copies are made.
type place muru.Share

const placeShadow place = 1 << 20

func (p place) String() string {
	if p >= placeShadow {
		return muru.Share(p-placeShadow).String() + " shadow"
	}
	return muru.Share(p).String()
}

// placeOf is where a step is.
func placeOf(s muru.Step) place {
	if s.Shadow {
		return placeShadow + place(s.Share)
	}
	return place(s.Share)
}

// because appends a reason that somebody gave.
func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// Gates.

func textRate(name string, candidate, limit, baseline muru.Measure) string {
	return fmt.Sprintf("%s rate %s over the limit of %s (baseline %s)", name, candidate, limit, baseline)
}

// formatEvidence prints evidence cut down, and at most a million.
func formatEvidence(e float64) string { return strconv.Itoa(int(min(e+1e-9, 1_000_000))) }

// textEvidence follows what a gate says where evidence was weighed.
func textEvidence(v muru.Verdict) string {
	if v.Needed == 0 {
		return ""
	}
	return fmt.Sprintf(", evidence %s of %s from %d clients (baseline %d) in %d of %d requests (baseline %d of %d)",
		formatEvidence(v.Evidence), formatEvidence(v.Needed), v.Clients, v.BaselineClients,
		v.Count, v.Requests, v.BaselineCount, v.BaselineRequests)
}

func textCrashes(candidate, limit, baseline muru.Measure) string {
	return fmt.Sprintf("%s worker crashes and timeout kills, over the limit of %s (baseline %s)", candidate, limit, baseline)
}

// textTime words a gate on p95, p99 or queue wait.
func textTime(gate string, candidate, limit, baseline muru.Measure) string {
	return fmt.Sprintf("%s %s over the limit of %s (baseline %s)", quantileName(gate), candidate, limit, baseline)
}

// quantileName is what a time gate measures, in words.
func quantileName(gate string) string {
	if gate == muru.GateQueueWait {
		return "queue wait p95"
	}
	return gate
}

func textProbe(path string, row int, candidate, baseline string) string {
	return fmt.Sprintf("probe %s failed %d times in a row: %s (baseline %s)", path, row, candidate, baseline)
}

func textCheck(name, message string) string {
	if message == "" {
		message = "returned False"
	}
	return name + ": " + message
}

// textStatus names an answer: 500 Internal Server Error.
func textStatus(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

func textNoAnswer(within time.Duration) string {
	return "no answer in " + muru.FormatMeasured(within)
}

const textNoMatch = "body does not match"

// Messages of rollouts.

const messagePassed = "every step passed its gates"

func messageBy(who string, s place, reason string) string {
	return because(fmt.Sprintf("by %s at %s", who, s), reason)
}

func messagePromotedBy(who string, s place, k, m int, reason string) string {
	return because(fmt.Sprintf("by %s at %s in step %d of %d", who, s, k, m), reason)
}

func messageGateFailed(s place, gate string) string {
	return fmt.Sprintf("gate failed at %s: %s", s, gate)
}

// messageNoData says what a step lacked at its deadline: its requests, or a
// gate's verdict.
func messageNoData(s place, missing string) string {
	return fmt.Sprintf("no data at %s: %s", s, missing)
}

func missingRequests(c, least int, after time.Duration) string {
	return fmt.Sprintf("%d of %d requests after %s", c, least, muru.FormatMeasured(after))
}

// missingVerdict names the gate that a step waited for, and why it has said
// nothing.
func missingVerdict(v muru.Verdict, after time.Duration) string {
	what := "has no verdict"
	if v.Result == muru.GateError {
		what = "cannot judge"
	}
	return because(fmt.Sprintf("gate %s %s after %s", v.Gate, what, muru.FormatMeasured(after)), v.Message)
}

func missingOther(what string, after time.Duration) string {
	return fmt.Sprintf("%s after %s", what, muru.FormatMeasured(after))
}

const (
	missingProof   = "no proof that the candidate is no worse"
	missingBalance = "the split is off"
	missingOpen    = "open requests that could still fail a gate"
)

// messageFrozen is of a rollout that keeps its share though it should not go
// on.
func messageFrozen(s place, why string) string { return fmt.Sprintf("frozen at %s: %s", s, why) }

func eventFrozen(number int, s place, gate, app string) string {
	return fmt.Sprintf("rollout %d: %s; the share is kept: muru rollout resume or abort %s", number, messageGateFailed(s, gate), app)
}

func messageNotReady(after time.Duration) string {
	return "candidate not ready after " + muru.FormatMeasured(after)
}

// messageAwaits asks for the approval of what comes next: a step, or the
// promotion.
func messageAwaits(next, app string) string {
	return fmt.Sprintf("%s awaits approval: muru rollout resume %s", next, app)
}

// messageNoDataAwaits asks whether to go on without proof.
func messageNoDataAwaits(noData, app string) string {
	return fmt.Sprintf("%s: muru rollout resume %s", noData, app)
}

// Reports.

func reportHeld(id muru.ReleaseID) Report {
	return Report(fmt.Sprintf("release %s is ready and held: not serving", id))
}

func reportServing(id, old muru.ReleaseID) Report {
	return Report(fmt.Sprintf("release %s is ready and serving: 100%% of %s", id, id.App) + keptWarm("; ", old))
}

// keptWarm says what became of the release that served before, if any did.
func keptWarm(separator string, old muru.ReleaseID) string {
	if old.IsZero() {
		return ""
	}
	return separator + old.Name() + " is kept warm"
}

func textFailedToStart(id muru.ReleaseID, cause string, baseline muru.ReleaseID) string {
	rest := "nothing serves " + id.App
	if !baseline.IsZero() {
		rest = baseline.Name() + " keeps serving"
	}
	return fmt.Sprintf("release %s failed to start: %s; %s", id, cause, rest)
}

func reportStarted(r muru.Rollout) Report {
	return Report(fmt.Sprintf("%s started against %s: %s", r, r.Baseline.Name(), r.Step))
}

// reportState is how a rollout's present state is told: with its step while
// it runs, with its message otherwise.
func reportState(r muru.Rollout) Report {
	if r.State == muru.Running && r.Step != nil {
		return Report(fmt.Sprintf("rollout %d running: %s", r.Number, r.Step))
	}
	return Report(fmt.Sprintf("rollout %d %s: %s", r.Number, r.State, r.Message))
}

// textEnded is the error of waiting for a rollout that was not promoted.
func textEnded(r muru.Rollout) string { return fmt.Sprintf("%s %s: %s", r, r.State, r.Message) }

func textLive(app string, r muru.Rollout) string {
	return fmt.Sprintf("%s has rollout %d live (%s at %s): refused", app, r.Number, r.Candidate.Name(), r.Share)
}

func hintLive(app string) string {
	return fmt.Sprintf("muru rollout abort %s, or --on-conflict supersede", app)
}

func reportRolledBack(from, to muru.ReleaseID) Report {
	return Report(fmt.Sprintf("%s rolled back from %s to %s: %s serves 100%%, %s is kept for inspection",
		from.App, from.Name(), to.Name(), to.Name(), from.Name()))
}

func textRolledBackAlready(app string, to int, ago time.Duration, who string) string {
	return fmt.Sprintf("%s was rolled back to r%d %s ago by %s: name the release with to=", app, to, muru.FormatMeasured(ago), who)
}

func reportSplit(app string, s muru.Split) Report { return Report(fmt.Sprintf("%s split: %s", app, s)) }

func reportPromoted(id, old muru.ReleaseID) Report {
	return Report(fmt.Sprintf("%s serves 100%% of %s", id, id.App) + keptWarm(", ", old))
}

func reportStopped(what string) Report { return Report(what + " stopped") }

func textObserveFailed(id muru.ReleaseID, gate string) string {
	return fmt.Sprintf("gate failed on %s: %s", id, gate)
}

func textObserveNoData(id muru.ReleaseID, c, least int, after time.Duration) string {
	return fmt.Sprintf("no data on %s: %d of %d requests after %s", id, c, least, muru.FormatMeasured(after))
}

// Reports of wishes that were true already.

func reportServesAlready(id muru.ReleaseID) Report {
	return Report(fmt.Sprintf("%s serves 100%% of %s already", id, id.App))
}

func reportStoppedAlready(what string) Report { return Report(what + " is stopped already") }

func reportEndedAlready(r muru.Rollout) Report {
	return Report(fmt.Sprintf("rollout %d is %s already: %s", r.Number, r.State, r.Message))
}

func reportPausedAlready(r muru.Rollout) Report {
	return Report(fmt.Sprintf("rollout %d is paused already: %s", r.Number, r.Message))
}

func reportNothingToRollBack(id, serving muru.ReleaseID) Report {
	if serving.IsZero() {
		return Report(fmt.Sprintf("%s does not serve %s, and neither does another release", id, id.App))
	}
	return Report(fmt.Sprintf("%s does not serve %s: %s does", id, id.App, serving.Name()))
}

// Events.

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

func eventPromoted(id, old muru.ReleaseID, who string) string {
	return fmt.Sprintf("100%% of %s by %s", id.App, who) + keptWarm(", ", old)
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
