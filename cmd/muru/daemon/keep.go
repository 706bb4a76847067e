package daemon

import (
	"context"
	"errors"
	"time"

	"muru/control"
	"muru/rollout"
)

// tidyEvery is how often a daemon removes what is past its retention.
const tidyEvery = time.Hour

// DefaultRetention is what is kept of the past unless flags say otherwise.
func DefaultRetention() rollout.Policy {
	return rollout.Policy{Events: 100_000, EventAge: 90 * 24 * time.Hour, Releases: 20, Rollouts: 1000}
}

// tidy removes records that are past their retention, and the logs of the
// releases that are. The report says what is gone, also with an error.
func (h *House) tidy(ctx context.Context) (control.GCReport, error) {
	removed, err := h.engine.GC(ctx, h.keep)
	report := control.GCReport{Rollouts: removed.Rollouts, Events: removed.Events}
	for _, id := range removed.Releases {
		report.Releases = append(report.Releases, id.String())
		err = errors.Join(err, h.host.Forget(id))
	}
	return report, err
}
