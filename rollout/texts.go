package rollout

import (
	"fmt"
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

func hintLive(app string) string { return "muru rollout abort " + app }

// hintConflict is the hint of what can take the place of a live rollout.
func hintConflict(app string) string { return hintLive(app) + ", or --on-conflict supersede" }

func reportRolledBack(from, to muru.ReleaseID) Report {
	return Report(fmt.Sprintf("%s rolled back from %s to %s: %s serves 100%%, %s is kept for inspection",
		from.App, from.Name(), to.Name(), to.Name(), from.Name()))
}

func textRolledBackAlready(app string, to int, ago time.Duration, who string) string {
	return fmt.Sprintf("%s was rolled back to r%d %s ago by %s: name the release with to=", app, to, muru.FormatMeasured(ago), who)
}

// textRolledBackWhileStarting is why a release is held that was to serve.
func textRolledBackWhileStarting(app, who string) string {
	return fmt.Sprintf("%s was rolled back by %s while it started", app, who)
}

func textHeldBack(id muru.ReleaseID, why string) string {
	return fmt.Sprintf("release %s is ready and held, not serving: %s", id, why)
}

func reportOvertaken(id muru.ReleaseID) Report {
	return Report(fmt.Sprintf("release %s is starting still: it is held when it is ready", id))
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
