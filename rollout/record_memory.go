package rollout

import (
	"fmt"
	"math"

	"muru"
)

// memoryRecord is what a judge carries of one gate: how many first events of
// clients there were under each share, from which the evidence follows, the
// largest evidence there was, all counts, and who had an event (see
// eventClients).
type memoryRecord struct {
	Gate    string        `json:"gate"`
	Events  []tallyRecord `json:"events,omitempty"`
	Peak    float64       `json:"peak,omitempty"` // ln E
	Total   *totalRecord  `json:"total,omitempty"`
	Clients string        `json:"clients,omitempty"`
}

type tallyRecord struct {
	Share     muru.Share `json:"share"`
	Candidate int        `json:"candidate"`
	Baseline  int        `json:"baseline"`
}

type totalRecord struct {
	Count            int `json:"count"`
	Requests         int `json:"requests"`
	BaselineCount    int `json:"baseline_count"`
	BaselineRequests int `json:"baseline_requests"`
}

func newMemoryRecord(m memory) memoryRecord {
	r := memoryRecord{Gate: m.gate, Peak: finite(m.peak), Clients: m.clients}
	for _, t := range m.tallies {
		r.Events = append(r.Events, tallyRecord{t.share, t.candidate, t.baseline})
	}
	if m.total != (total{}) {
		r.Total = &totalRecord{m.total.x, m.total.n, m.total.y, m.total.m}
	}
	return r
}

// talliesMax bounds how many shares a rollout can have had.
const talliesMax = muru.Buckets

// countMax bounds what can have been counted.
const countMax = 1 << 50

func (r memoryRecord) memory() (memory, error) {
	m := memory{gate: r.Gate, peak: r.Peak, clients: r.Clients}
	if len(r.Events) > talliesMax {
		return m, fmt.Errorf("%d shares", len(r.Events))
	}
	for _, t := range r.Events {
		if !countable(t.Share) || t.Candidate < 0 || t.Baseline < 0 || t.Candidate > countMax || t.Baseline > countMax {
			return m, fmt.Errorf("%d and %d events under a share of %d", t.Candidate, t.Baseline, t.Share)
		}
		m.tallies = append(m.tallies, tally{t.Share, t.Candidate, t.Baseline})
	}
	if math.IsNaN(r.Peak) || r.Peak < 0 {
		return m, fmt.Errorf("a peak of %v", r.Peak)
	}
	if t := r.Total; t != nil {
		m.total = total{t.Count, t.Requests, t.BaselineCount, t.BaselineRequests}
		for _, n := range []int{t.Count, t.Requests, t.BaselineCount, t.BaselineRequests} {
			if n < 0 || n > countMax {
				return m, fmt.Errorf("%d requests", n)
			}
		}
	}
	_, err := restoreClients(r.Clients)
	return m, err
}
