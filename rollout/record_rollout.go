package rollout

import (
	"fmt"
	"slices"
	"time"

	"muru"
)

// rolloutRecord is one rollout: its plan, how far it is, and what its gates
// said last. A gate that is a function is kept by name and limits: the
// function comes back with the recipe.
type rolloutRecord struct {
	V         int    `json:"v"`
	App       string `json:"app"`
	Candidate int    `json:"candidate"`
	Baseline  int    `json:"baseline"`

	Steps       []stepRecord `json:"steps"`
	Gates       []gateRecord `json:"gates"`
	Approve     string       `json:"approve"`
	OnNoData    string       `json:"on_no_data"`
	OnFail      string       `json:"on_fail,omitempty"`
	Until       string       `json:"until,omitempty"`
	Shield      bool         `json:"shield,omitempty"`
	FromStep    int          `json:"from_step,omitempty"`
	Judge       string       `json:"judge"`
	Alpha       float64      `json:"alpha,omitempty"` // percent
	MinRequests int          `json:"min_requests"`
	Deadline    span         `json:"deadline,omitempty"`

	State    string          `json:"state"`
	Message  string          `json:"message,omitempty"`
	Share    muru.Share      `json:"share"`              // the candidate's; of an ended one the last
	Progress *progressRecord `json:"progress,omitempty"` // in its step; ended ones have none
	Verdicts []verdictRecord `json:"verdicts,omitempty"`
	Witness  *witnessRecord  `json:"witness,omitempty"`
	Memory   []memoryRecord  `json:"memory,omitempty"` // what the judge carries on

	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	By      string     `json:"by,omitempty"`
	Run     int        `json:"run,omitempty"`
	Key     string     `json:"key,omitempty"`
}

// stepRecord is a step's plan.
type stepRecord struct {
	Share  muru.Share `json:"share"`
	Shadow bool       `json:"shadow,omitempty"`
	Hold   span       `json:"hold"`
}

// progressRecord is how far a live rollout is in its step.
type progressRecord struct {
	Step     int    `json:"step"`
	Swapped  bool   `json:"swapped"` // the table has the step's share
	Held     span   `json:"held"`    // of the hold
	Spent    span   `json:"spent"`   // of the deadline
	Requests int    `json:"requests,omitempty"`
	Unproven bool   `json:"unproven,omitempty"`
	NoData   bool   `json:"no_data,omitempty"`
	Frozen   bool   `json:"frozen,omitempty"`
	Await    string `json:"await,omitempty"`

	Failures int      `json:"failures,omitempty"` // of the candidate, in all steps so far
	Shielded int      `json:"shielded,omitempty"` // those of them that the baseline answered
	BothBad  []string `json:"both_bad,omitempty"` // gates said in this step to be over the limit on both
}

// witnessRecord is what the verdicts were said from, beside their numbers.
type witnessRecord struct {
	Step             int  `json:"step"`
	Window           span `json:"window"`
	Clients          int  `json:"clients"`
	CandidateClients int  `json:"candidate_clients"`
	Paired           bool `json:"paired"`
	Least            int  `json:"least"`
}

type gateRecord struct {
	Name     string         `json:"name"`
	Kind     string         `json:"kind"`
	Max      *measureRecord `json:"max,omitempty"`
	Ratio    float64        `json:"ratio,omitempty"`
	Paths    []string       `json:"paths,omitempty"`
	Body     string         `json:"body,omitempty"`
	Header   string         `json:"header,omitempty"`
	URL      string         `json:"url,omitempty"`
	Query    string         `json:"query,omitempty"`
	Within   span           `json:"within,omitempty"`
	Every    span           `json:"every,omitempty"`
	Failures int            `json:"failures,omitempty"`
}

// record returns the rollout as it is to be kept.
func (l *live) record() rolloutRecord {
	r := rolloutRecord{
		V: recordVersion, App: l.Candidate.App, Candidate: l.Candidate.Number, Baseline: l.Baseline.Number,
		Approve: l.plan.Approve.String(), OnNoData: l.plan.OnNoData.String(), Judge: l.plan.Judge,
		Alpha: l.plan.Alpha, MinRequests: l.plan.MinRequests, Deadline: span(l.plan.Deadline),
		State: l.State.String(), Message: shorten(l.Message), Share: l.Share,
		Started: l.Started, By: l.By, Run: l.Run, Key: l.caller.Key,
		Shield: l.plan.Shield, FromStep: l.plan.FromStep,
	}
	if l.plan.OnFail != OnFailRollback {
		r.OnFail = l.plan.OnFail.String()
	}
	if l.plan.Until != UntilHold {
		r.Until = l.plan.Until.String()
	}
	for _, s := range l.Steps {
		r.Steps = append(r.Steps, stepRecord{s.Share, s.Shadow, span(s.Hold)})
	}
	for _, g := range l.Gates {
		r.Gates = append(r.Gates, gateRecord{
			Name: g.Name, Kind: g.Kind.String(), Max: newMeasureRecord(g.Max), Ratio: g.Ratio, Paths: g.Paths, Body: g.Body, Header: g.Header, URL: g.URL, Query: g.Query,
			Within: span(g.Within), Every: span(g.Every), Failures: g.Failures,
		})
	}
	for _, v := range l.Verdicts {
		r.Verdicts = append(r.Verdicts, newVerdictRecord(v))
	}
	if w := l.witness; w.step > 0 {
		r.Witness = &witnessRecord{w.step, span(w.window), w.all, w.candidate, w.paired, w.least}
	}
	for _, m := range l.remembered() {
		r.Memory = append(r.Memory, newMemoryRecord(m))
	}
	if !l.Ended.IsZero() {
		r.Ended = &l.Ended
	}
	if l.Step != nil {
		r.Progress = &progressRecord{
			Step: l.Step.Number, Swapped: l.swapped || l.owed, Held: span(l.held), Spent: span(l.spent),
			Requests: l.Step.Requests, Unproven: l.unproven, NoData: l.noData, Frozen: l.frozen, Await: l.awaitNext,
			BothBad: sortedSet(l.bothBad),
		}
		r.Progress.Failures, r.Progress.Shielded = l.shieldedSoFar()
	}
	return r
}

// decodeRollout reads a rollout's record. Of a live one the plan, the step
// and how far it is are there; nothing judges it yet.
func decodeRollout(number int, text []byte) (*live, error) {
	var r rolloutRecord
	if err := decode(text, &r); err != nil {
		return nil, err
	}
	l := &live{
		Rollout: muru.Rollout{
			Number: number, Share: r.Share, Message: r.Message, Started: r.Started, By: r.By, Run: r.Run,
			Candidate: muru.ReleaseID{App: r.App, Number: r.Candidate},
			Baseline:  muru.ReleaseID{App: r.App, Number: r.Baseline},
		},
		caller: Caller{Run: r.Run, Key: r.Key, By: r.By}, bad: map[string]bool{}, bothBad: map[string]bool{},
	}
	if r.Ended != nil {
		l.Ended = *r.Ended
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	var err error
	if l.State, err = parseName[muru.RolloutState](r.State); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if l.plan, err = r.plan(l.Candidate); err != nil {
		return nil, err
	}
	l.plan.Caller = l.caller
	l.Steps, l.Gates = slices.Clone(l.plan.Steps), l.plan.Gates
	for i := range l.Steps {
		l.Steps[i].Number, l.Steps[i].Of = i+1, len(l.Steps)
	}
	for _, v := range r.Verdicts {
		verdict, err := v.verdict()
		if err != nil {
			return nil, fmt.Errorf("verdicts: %w", err)
		}
		l.Verdicts = append(l.Verdicts, verdict)
	}
	if w := r.Witness; w != nil {
		if w.Step < 1 || w.Step > len(l.Steps) || w.CandidateClients < 0 || w.Clients < w.CandidateClients {
			return nil, fmt.Errorf("witness: step %d, %d of %d clients", w.Step, w.CandidateClients, w.Clients)
		}
		l.witness = witness{w.Step, time.Duration(w.Window), w.CandidateClients, w.Clients, w.Paired, w.Least}
	}
	for _, m := range r.Memory {
		memory, err := m.memory()
		if err != nil {
			return nil, fmt.Errorf("memory of %.40q: %w", m.Gate, err)
		}
		l.memory = append(l.memory, memory)
	}
	return l, l.takeProgress(r.Progress)
}

func (r rolloutRecord) check() error {
	if err := muru.CheckName(r.App); err != nil {
		return err
	}
	if err := checkNumber("candidate", r.Candidate, false); err != nil {
		return err
	}
	if r.Share < 0 || r.Share > muru.Buckets {
		return fmt.Errorf("share: %d is none", r.Share)
	}
	return checkNumber("baseline", r.Baseline, false)
}

// plan returns what canary was asked for, with the gates' functions missing.
func (r rolloutRecord) plan(candidate muru.ReleaseID) (q CanaryRequest, err error) {
	q = CanaryRequest{
		Release: candidate, Judge: r.Judge, Alpha: r.Alpha, MinRequests: r.MinRequests, Deadline: time.Duration(r.Deadline),
		Shield: r.Shield, FromStep: r.FromStep,
	}
	if q.OnFail, err = parsePolicy[OnFail](r.OnFail); err != nil {
		return q, fmt.Errorf("on_fail: %w", err)
	}
	if q.Until, err = parsePolicy[Until](r.Until); err != nil {
		return q, fmt.Errorf("until: %w", err)
	}
	if r.FromStep < 0 || r.FromStep > len(r.Steps) {
		return q, fmt.Errorf("from_step: %d of %d", r.FromStep, len(r.Steps))
	}
	if q.Approve, err = parseName[muru.Approve](r.Approve); err != nil {
		return q, fmt.Errorf("approve: %w", err)
	}
	if q.OnNoData, err = parseName[muru.NoData](r.OnNoData); err != nil {
		return q, fmt.Errorf("on_no_data: %w", err)
	}
	for _, s := range r.Steps {
		q.Steps = append(q.Steps, muru.Step{Share: s.Share, Shadow: s.Shadow, Hold: time.Duration(s.Hold)})
	}
	if err := checkSteps(q); err != nil {
		return q, err
	}
	for i, g := range r.Gates {
		gate, err := g.gate(i)
		if err != nil {
			return q, err
		}
		if slices.ContainsFunc(q.Gates, func(o muru.Gate) bool { return o.Name == gate.Name }) {
			return q, fmt.Errorf("gates[%d]: %.40q is named twice", i, gate.Name)
		}
		q.Gates = append(q.Gates, gate)
	}
	return q, nil
}

// gate returns the gate; it must be one that a rollout could have asked for.
func (r gateRecord) gate(i int) (muru.Gate, error) {
	kind, err := parseName[muru.GateKind](r.Kind)
	if err != nil {
		return muru.Gate{}, fmt.Errorf("gates[%d]: %w", i, err)
	}
	limit, err := r.Max.measure()
	if err != nil {
		return muru.Gate{}, fmt.Errorf("gates[%d]: %w", i, err)
	}
	g := muru.Gate{
		Name: r.Name, Kind: kind, Max: limit, Ratio: r.Ratio, Paths: r.Paths, Body: r.Body, Header: r.Header, URL: r.URL, Query: r.Query,
		Within: time.Duration(r.Within), Every: time.Duration(r.Every), Failures: r.Failures,
	}
	if kind == muru.GateCheck {
		if slices.Contains(builtinGates, g.Name) {
			return g, fmt.Errorf("gates[%d]: %s takes no function", i, g.Name)
		}
		return g, nil
	}
	return completeGate(i, g)
}

// takeProgress sets where in its steps a live rollout is.
func (l *live) takeProgress(p *progressRecord) error {
	switch {
	case !l.Live() || l.State == muru.Queued:
		return nil
	case p == nil || p.Step < 1 || p.Step > len(l.Steps):
		return fmt.Errorf("progress: a rollout that is %s has a step", l.State)
	case p.Requests < 0 || p.Failures < 0 || p.Shielded < 0:
		return fmt.Errorf("progress: %d requests, %d failures, %d shielded", p.Requests, p.Failures, p.Shielded)
	}
	l.Step, l.owed = l.stepNumbered(p.Step), p.Swapped
	l.held, l.spent = time.Duration(p.Held), time.Duration(p.Spent)
	l.Step.Elapsed, l.Step.Requests = min(l.held, l.Step.Hold), p.Requests
	l.unproven, l.noData, l.frozen, l.awaitNext = p.Unproven, p.NoData, p.Frozen, p.Await
	l.failures, l.shielded = p.Failures, p.Shielded
	for _, gate := range p.BothBad {
		if !slices.ContainsFunc(l.Gates, func(g muru.Gate) bool { return g.Name == gate }) {
			return fmt.Errorf("progress: both_bad: there is no gate %.40q", gate)
		}
		l.bothBad[gate] = true
	}
	return nil
}
