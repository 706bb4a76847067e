package rollout

import (
	"fmt"
	"math"
	"time"

	"muru"
)

// verdictRecord is what one gate said, kept with its rollout so that it can
// be explained later.
type verdictRecord struct {
	Gate             string         `json:"gate"`
	Result           string         `json:"result"`
	Candidate        *measureRecord `json:"candidate,omitempty"`
	Baseline         *measureRecord `json:"baseline,omitempty"`
	Limit            *measureRecord `json:"limit,omitempty"`
	Count            int            `json:"count,omitempty"`
	Requests         int            `json:"requests,omitempty"`
	BaselineCount    int            `json:"baseline_count,omitempty"`
	BaselineRequests int            `json:"baseline_requests,omitempty"`
	Clients          int            `json:"clients,omitempty"`
	BaselineClients  int            `json:"baseline_clients,omitempty"`
	Evidence         float64        `json:"evidence,omitempty"`
	Needed           float64        `json:"needed,omitempty"`
	Message          string         `json:"message,omitempty"`
	At               time.Time      `json:"at"`
}

func newVerdictRecord(v muru.Verdict) verdictRecord {
	return verdictRecord{
		Gate: v.Gate, Result: v.Result.String(),
		Candidate: newMeasureRecord(v.Candidate), Baseline: newMeasureRecord(v.Baseline), Limit: newMeasureRecord(v.Limit),
		Count: v.Count, Requests: v.Requests, BaselineCount: v.BaselineCount, BaselineRequests: v.BaselineRequests,
		Clients: v.Clients, BaselineClients: v.BaselineClients, Evidence: finite(v.Evidence), Needed: finite(v.Needed),
		Message: shorten(v.Message), At: v.At,
	}
}

func (r verdictRecord) verdict() (v muru.Verdict, err error) {
	v = muru.Verdict{
		Gate: r.Gate, Count: r.Count, Requests: r.Requests, BaselineCount: r.BaselineCount, BaselineRequests: r.BaselineRequests,
		Clients: r.Clients, BaselineClients: r.BaselineClients, Evidence: r.Evidence, Needed: r.Needed, Message: r.Message, At: r.At,
	}
	if v.Result, err = parseName[muru.Result](r.Result); err != nil {
		return v, err
	}
	if v.Candidate, err = r.Candidate.measure(); err != nil {
		return v, err
	}
	if v.Baseline, err = r.Baseline.measure(); err != nil {
		return v, err
	}
	v.Limit, err = r.Limit.measure()
	return v, err
}

// measureRecord is a value with its unit. One that is not set is not there.
type measureRecord struct {
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// unitNames are the units as records name them.
var unitNames = map[muru.Unit]string{
	muru.UnitPercent: "percent", muru.UnitTime: "ns", muru.UnitCount: "count", muru.UnitNumber: "number",
}

func newMeasureRecord(m muru.Measure) *measureRecord {
	if !m.IsSet() {
		return nil
	}
	return &measureRecord{unitNames[m.Unit], finite(m.Value)}
}

// finite replaces what JSON has no number for: infinities become the largest
// numbers there are, what is no number 0.
func finite(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 0
	case math.IsInf(x, 0):
		return math.Copysign(math.MaxFloat64, x)
	}
	return x
}

func (r *measureRecord) measure() (muru.Measure, error) {
	if r == nil {
		return muru.Measure{}, nil
	}
	for unit, name := range unitNames {
		if name == r.Unit {
			return muru.Measure{Unit: unit, Value: r.Value}, nil
		}
	}
	return muru.Measure{}, fmt.Errorf("%.40q is not a unit", r.Unit)
}
